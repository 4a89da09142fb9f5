"""One crawl: assembled from its settings and run to its end.

`CrawlRun` opens the stages at the last checkpoint (`crawler/builder.py`), runs them (`crawler.py`), and
returns a `Summary`. `api` and the lab run it.
"""

from __future__ import annotations

from fieldmouse.crawler.crawler import Crawler
from fieldmouse.crawler.retry_failed import RetriedHosts, RetryFailed
from fieldmouse.crawler.run import CrawlRun
from fieldmouse.storage.checkpoint import Checkpoint, read_checkpoint

__all__ = ["Checkpoint", "CrawlRun", "Crawler", "RetriedHosts", "RetryFailed", "read_checkpoint"]
