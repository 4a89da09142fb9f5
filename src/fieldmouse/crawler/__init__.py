"""One crawl: assembled from its settings and run to its end.

`CrawlRun` opens the stages at the last checkpoint (`crawler/builder.py`), runs them (`crawler.py`), and
returns a `Summary`. `api` and the lab run it.
"""

from __future__ import annotations

from fieldmouse.crawler.retry_failed import RetryFailed as RetryFailed
from fieldmouse.crawler.run import CrawlRun as CrawlRun
