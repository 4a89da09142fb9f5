"""Worker processes that parse, archive and index fetched pages.

Follow one page. `WorkerPool` (`pool.py`) sends it to the worker process of its
host's shard as one frame (`protocol.py`). The worker (`worker.py`) decompresses the
body, determines its charset and parses it once (`parse/html.py`): title, text,
language, robots rules and raw hrefs come out of the same tree. `parse/links.py` turns
the hrefs into URLs in scope and drops those it has sent before. `archive/duplicate_detection.py` finds
earlier pages with the same bytes or nearly the same words. `archive/warc_writer.py` writes
request, response (or a revisit of an earlier one) and metadata as WARC records,
and the CDXJ line that locates them. `search/index.py` adds the words
to the full-text index, which `search/search.py` reads. If the page was fetched before,
`search/newest_versions.py` determines which version counts. The worker returns its results to the
crawler as a `WorkerResult`.

Nothing of this counts until a checkpoint: `prepare` makes all shards durable and
returns the lengths of their files, the crawler's journal records these lengths,
and `on_checkpoint_committed` discards older state. A worker that dies is restarted from the last
checkpoint, and the pages it had received since then are fetched again.
"""

from __future__ import annotations
