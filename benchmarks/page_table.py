"""Cost of a known page in the page table: time per row, bytes on disk and in memory, time to select polls.

A crawl is written as its outcome log alone. The page table is folded from it and sealed as in a crawl;
then a twentieth of the pages is polled, and it is opened again. `due` is the 90th percentile of a call for
one poll, which scans all pages for those due next; `us/link` is the time of each further poll. A plan (by
`uniform`, which costs almost nothing) is left out. Memory is the growth of the process (RSS); the part
unchanged since the snapshot belongs to the file and can be dropped. Times are processor times.

    .venv/bin/python benchmarks/page_table.py [--pages 1000000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fieldmouse.policy.polling import registry
from fieldmouse.refresh.page_table import PageTable
from fieldmouse.refresh.scheduler import PollScheduler
from fieldmouse.storage.checkpoint import CheckpointParts, DurableLog, open_journal
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import Request
from fieldmouse.url import Url

NOW = 1_700_000_000.0
POLICY = "uniform"
_encode = msgspec.msgpack.Encoder().encode


def resident() -> int:
    """Resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def stored(number: int) -> OutcomeRow:
    url = Url(f"https://h{number % 997}.example/articles/{number}/some-title")
    return OutcomeRow(
        url,
        OutcomeKind.PAGE,
        NOW + number / 100,
        depth=3,
        via="https://h.example/",
        seen_at=NOW,
        status=200,
        mime="text/html",
        title=f"Page {number}",
        digest=f"sha1:{number:032d}",
        size=30_000,
        links=100,
        warc="00001-0.warc.gz",
        offset=number * 8000,
        etag=f'"{number:x}"',
        indexed=True,
    )


def polled(link: Request, at: float, changed: bool) -> OutcomeRow:
    kind, status = (OutcomeKind.PAGE, 200) if changed else (OutcomeKind.UNCHANGED, 304)
    news = ContentChange.CHANGED if changed else ContentChange.SAME
    return OutcomeRow(link.url, kind, at, link.depth, link.via, link.seen_at, status, polled="page", news=news)


class Bench:
    def __init__(self, directory: Path):
        self.home = CrawlDir.create(directory / "crawl", shards=1, settings=b"", key_seed=7)
        self.open()

    def open(self) -> None:
        journal, last = open_journal(self.home)
        self.outcomes = DurableLog("outcomes", self.home / "outcomes.log", last)
        self.ledger = PageTable(self.home, last, policy=registry.create_policy(POLICY), named=POLICY)
        self.parts = CheckpointParts(self.home, journal, (self.outcomes, self.ledger), last)
        self.parts.open_for_writing()

    def checkpoint(self) -> float:
        begun = time.process_time()
        moment = self.parts.seal(NOW)
        spent = time.process_time() - begun
        self.parts.commit(moment)
        self.parts.notify_committed()
        return spent

    def write(self, rows: Iterator[OutcomeRow]) -> None:
        for row in rows:
            self.outcomes.append(_encode(row))
        self.checkpoint()


def timed(seconds: float, rows: int) -> str:
    return f"{seconds / rows * 1e6:>9.1f}"


def play(pages: int, directory: Path) -> None:
    bench = Bench(directory)
    bench.write(stored(number) for number in range(pages))
    before, begun = resident(), time.process_time()
    bench.ledger.catch_up(bench.outcomes.length)
    folded = time.process_time() - begun
    memory, sealing = resident() - before, bench.checkpoint()
    disk = sum(path.stat().st_size for path in (bench.home / "ledger").iterdir())
    scheduler = PollScheduler(bench.ledger, registry.create_policy(POLICY), pages / 86_400, host_open=10**6)
    count, looks, making = 0, list[float](), 0.0
    now = NOW + 7 * 86_400.0
    scheduler.take_due(now, 0)
    while count < pages // 20:
        now, begun = now + 5.0, time.process_time()
        links = scheduler.take_due(now, 1)
        looks.append(time.process_time() - begun)
        links += scheduler.take_due(now, 10**6)
        making += time.process_time() - begun - looks[-1]
        for link in links:
            bench.outcomes.append(_encode(polled(link, now, count % 5 == 0)))
            count += 1
    bench.checkpoint()
    begun = time.process_time()
    bench.ledger.catch_up(bench.outcomes.length)
    learned = time.process_time() - begun
    later = bench.checkpoint()
    after = resident() - before
    bench.ledger.close()
    begun = time.process_time()
    bench.open()
    opening = time.process_time() - begun
    assert (bench.ledger.column("polls") > 0).sum() == count, "a poll was lost"
    usual = sorted(looks)[9 * len(looks) // 10]
    print(
        f"{pages:>10,} {timed(folded, pages)} {memory / pages:>12.0f} {disk / pages:>10.0f}"
        f" {sealing * 1e3:>8.0f} ms {usual * 1e3:>7.1f} ms {timed(making, count)}"
        f" {timed(learned, count)} {later * 1e3:>7.0f} ms {after / pages:>11.0f}"
        f" {opening:>8.2f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pages", type=int, default=10**6)
    pages = parser.parse_args().pages
    print(
        f"{'pages':>10} {'us/row':>9} {'RAM, B/page':>12} {'disk, B/p':>10} {'seal':>11} {'due':>10}"
        f" {'us/link':>9} {'us/poll':>9} {'seal':>10} {'RAM after':>11} {'opening':>10}"
    )
    for count in [stop for stop in (10**4, 10**5, 10**6) if stop < pages] + [pages]:
        with tempfile.TemporaryDirectory() as directory:
            play(count, Path(directory))


if __name__ == "__main__":
    main()
