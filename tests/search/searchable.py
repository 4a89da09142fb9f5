"""Every page that search can find, read from the index document by document."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress
from pathlib import Path

from fieldmouse.search.generation_reader import all_doc_addresses, open_generations


def searchable_urls(directory: Path) -> Iterator[str]:
    """Yield the URL of every page that search can find."""
    yielded: set[str] = set()  # while a shard is at its checkpoint, an old version may not be masked yet
    with open_generations(directory) as (generations, copies):
        for generation in generations:
            with generation.convert_read_errors():
                addresses = all_doc_addresses(generation.searcher)
                shown = generation.are_newest_versions(addresses, copies)
                urls = [generation.url_of_document(address) for address in compress(addresses, shown)]
            yield from (url for url in urls if url not in yielded)
            yielded.update(urls)
