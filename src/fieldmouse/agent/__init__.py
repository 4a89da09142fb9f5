"""One crawl: assembled from its settings and run to its end.

`Life` opens the stages at the last checkpoint (`build.py`), runs them (`agent.py`), and returns a
`Summary`. `api` and the lab run it.
"""

from __future__ import annotations

from fieldmouse.agent.agent import Agent
from fieldmouse.agent.forgiveness import Forgiven, Mercy
from fieldmouse.agent.life import Life
from fieldmouse.crawldir import Checkpoint, read_checkpoint

__all__ = ["Agent", "Checkpoint", "Forgiven", "Life", "Mercy", "read_checkpoint"]
