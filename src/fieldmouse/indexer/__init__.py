"""From an answer to a kept, searchable page: what happens behind the buffer.

Follow one page. The agent's `Indexer` (`indexer.py`) sends it to the worker
process of its host's shard as one frame (`wire.py`). The worker (`worker.py`)
unpacks the body, finds its charset and parses it once (`parse.py`): title, text,
language, robots rules and raw hrefs come out of the same tree. `links.py` turns
the hrefs into URLs in scope and drops those it has sent before. `digest.py` says
whether the same bytes, or nearly the same words, were seen elsewhere.
`archive.py` writes request, response (or a revisit of an earlier one) and
metadata as WARC records and `cdxj.py` the line that finds them again; `index.py`
adds the words to the full-text index, which `search.py` reads; if the page was
fetched before, `copies.py` says which copy counts. What the worker learned goes back
to the agent as a `Parsed`.

Nothing of this counts until a checkpoint: `prepare` makes all shards durable and
names the lengths of their files, the agent's journal keeps those, and
`committed` lets go of the past. A worker that dies is started again at the last
state that counts, and what it had received since is fetched again.
"""
