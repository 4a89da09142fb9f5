"""Cost of replacing a page in the full-text index, compared with a first visit.

One shard is filled with pages, in generations of about a thousand, as `--generation` says (in a real crawl
they hold more, so there are fewer). Then randomly chosen pages come again, and every twentieth of them is
gone. Reading, parsing and archiving are left out: the CPU time is that of index, log, table, deletion and
checkpoints (one every 500 pages, as in a busy crawl). The cost of a replaced page should not depend on the
number of pages.

    .venv/bin/python benchmarks/replaced_pages.py [--pages 10000 100000 1000000]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from table import aligned, say

from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.search.index import IndexWriter
from fieldmouse.search.replaced_documents import DocumentReplacements
from fieldmouse.search.search import search_crawl
from fieldmouse.storage.checkpoint import ShardState

WORDS = [f"word{number}" for number in range(5000)]
BATCH = 500


class Shelf:
    """The part of a shard that maintains its index."""

    def __init__(self, home: Path, config: PageProcessingConfig):
        (home / "index").mkdir()
        self.index = IndexWriter(home / "index", 0, config, ShardState())
        self.turnover = DocumentReplacements(home / "index", 0, ShardState())
        self.batch, self._chance = 1, random.Random(1)
        self.idle = 0.0  # seconds of generating texts

    def add(self, key: int, again: bool) -> None:
        begun = time.process_time()
        text = " ".join(self._chance.choices(WORDS, k=60))
        self.idle += time.process_time() - begun
        gone = again and key % 20 == 0
        if again and self.turnover.log_replacement(key, self.batch, present=not gone):
            self.index.delete_version(key, self.batch)
        if not gone:
            self.turnover.note_document_in_batch(key)
            url = f"http://example.org/{key}"
            self.index.add_document(url=url, key=key, title="a page", text=text, batch=self.batch, canonical="")

    def checkpoint(self) -> None:
        self.index.commit()
        self.index.save_snapshot(self.batch)
        self.turnover.make_durable(self.batch)
        self.index.delete_snapshots_before(self.batch)
        self.turnover.delete_replaced_after_commit(self.batch, self.index.generation)
        self.batch += 1

    def take(self, keys: list[int], *, again: bool) -> float:
        """Microseconds of CPU per page, with the threads of the index and without the generation of texts."""
        self.idle, begun = 0.0, time.process_time()
        for number, key in enumerate(keys, 1):
            self.add(key, again)
            if not number % BATCH:
                self.checkpoint()
        return 1e6 * (time.process_time() - begun - self.idle) / len(keys)


def measure(pages: int, replaced: int, generation: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="replacing-") as name:
        home = Path(name)
        shelf = Shelf(home, PageProcessingConfig(generation=generation))
        first = shelf.take(list(range(pages)), again=False)
        generations = shelf.index.generation
        last = shelf.take(list(range(pages, pages + replaced)), again=False)
        chance = random.Random(2)
        again = shelf.take([chance.randrange(pages) for _ in range(replaced)], again=True)
        shelf.index.finish()
        shelf.index.close()
        shelf.turnover.close()
        begun = time.perf_counter()
        search_crawl(home, "word7 word9")
        asked = time.perf_counter() - begun
    return [
        f"{pages:,}",
        f"{generations:,}",
        f"{first:.0f}",
        f"{last:.0f}",
        f"{again:.0f}",
        f"{again - last:.0f}",
        f"{1e3 * asked:.0f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--replaced", type=int, default=20_000)
    parser.add_argument("--generation", type=int, default=500_000, help="bytes of text in a generation")
    asked = parser.parse_args()
    rows = [measure(pages, asked.replaced, asked.generation) for pages in asked.pages]
    names = [
        "pages",
        "generations",
        "first visit, µs",
        "at that size, µs",
        "replaced, µs",
        "difference, µs",
        "search, ms",
    ]
    say(aligned(names, rows))


if __name__ == "__main__":
    sys.exit(main())
