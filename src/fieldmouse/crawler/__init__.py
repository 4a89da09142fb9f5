"""One crawl: assembled from its settings and run to its end.

`Life` opens the stages at the last checkpoint (`build.py`), runs them (`agent.py`), and returns a
`Summary`. `api` and the lab run it.
"""

from __future__ import annotations

from fieldmouse.crawler.crawler import Agent
from fieldmouse.crawler.retry_failed import Forgiven, Mercy
from fieldmouse.crawler.run import Life
from fieldmouse.storage.checkpoint import Checkpoint, read_checkpoint

__all__ = ["Agent", "Checkpoint", "Forgiven", "Life", "Mercy", "read_checkpoint"]
