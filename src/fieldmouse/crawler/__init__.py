"""One crawl: assembled from its settings and run to its end.

`CrawlRun` opens the stages at the last checkpoint (`crawler/builder.py`), runs them (`crawler.py`), and
returns a `Summary`. `api` and the lab run it.
"""

from __future__ import annotations
