"""Re-crawling of known pages: a table of pages and a scheduler that picks the page to poll next.

One page on its way through the package: the page is stored, and its row goes to the outcome log. The page
table (`PageTable`) reads that log up to each checkpoint and keeps about ninety bytes of columns per page,
without text: URL and validators are read from the row's offset when they are needed (`apply_outcomes`
parses rows and applies them). A polling policy plans a rate for every page. The scheduler (`PollScheduler`)
finds that the page is due, reads its row (`poll_requests`), marks the page as asked, and hands the request to
the frontier. Frontier and page table are sealed in the same checkpoint, so a kill neither loses nor repeats a
poll. The result becomes a row of the outcome log, the page table applies it, and the page is due again one
interval later.

Sitemaps and feeds are polled like pages; the changes they list bring the polls of other pages forward
(`sitemap_hints`). `Last-Modified` dates count for hosts whose dates have proved right (`server_dates`).

The tables are stored as a snapshot and a log of changes (`columns`, `table_files`). Everything except the
state of the token bucket (`TokenBucket`) is derived from the outcome log: damaged files are rebuilt from it.
"""

from __future__ import annotations
