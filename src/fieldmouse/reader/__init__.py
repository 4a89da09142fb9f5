"""Read access to crawl directories, without a lock and without changing anything.

One process writes a crawl directory and holds its lock. Readers take no lock, may run beside the crawl,
and see the newest checkpoint (`snapshot.py`): a kill may undo anything written after it. The path of one
stored page: the outcome log holds its row (`storage/outcome_log_reader.py`), the row names the WARC file and offset
of its response (`archive/warc_reader.py`), and the response is parsed as the crawler parsed it (`page.py`).
`CrawlReader` is the entry point; the command line and other front ends show what it returns. `MultiCrawlReader`
reads several crawls as one, for example those of the agents of a cluster. Neither plug-ins nor any part of the
crawler are loaded for this.
"""

from __future__ import annotations
