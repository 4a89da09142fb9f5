"""Cost of reading several crawls as one: time to go through all pages, and memory per URL.

The logs of crawls are written by hand, without an archive: a number of rows in total, spread over several
directories, and every tenth URL known to two of them. Each count is read in a separate process, once as
one directory (the same rows in one log) and once as several; memory is the growth of the process at its
peak. A second query only pays for reading pages, because the newest copies are then known.

    .venv/bin/python benchmarks/several_crawls.py [--rows 100000 1000000] [--crawls 4]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from table import aligned, say

from fieldmouse.reader.crawl_reader import CrawlPrecedence, CrawlReader, MultiCrawlReader
from fieldmouse.storage.checkpoint import Checkpoint, encode_checkpoint, make_part_state, open_journal
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Log
from fieldmouse.storage.outcome_log_reader import read_latest_outcomes
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import Url


def rows(count: int, first: int) -> Iterator[OutcomeRow]:
    for number in range(first, first + count):
        host = f"http://site{number % 997}.example"
        yield OutcomeRow(
            Url(f"{host}/some/path/page-{number}.html"),
            OutcomeKind.PAGE,
            1.7e9 + number / 100,
            depth=3,
            via=f"{host}/some/path/page-{number // 2}.html",
            seen_at=1.7e9 + number / 101,
            status=200,
            mime="text/html",
            title=f"The title of page {number}",
            language="en",
            charset="utf-8",
            digest="sha1:" + "A" * 32,
            simhash=number * 7919**3 % 2**63,
            size=20_000,
            words=500,
            links=40,
            indexed=True,
            warc="fieldmouse-20260101000000-00000-0.warc.gz",
            offset=number * 9000,
            etag='"0123456789abcdef"',
            last_modified="Thu, 01 Jan 2026 00:00:00 GMT",
        )


def write(path: Path, parts: list[tuple[int, int]]) -> None:
    """Write a crawl of ranges of rows, each given by its length and its first row."""
    home = CrawlDir.create(path, shards=1, settings=b"")
    journal, _ = open_journal(home)
    log = Log(home / "outcomes.log")
    for count, first in parts:
        for row in rows(count, first):
            log.append(msgspec.msgpack.encode(row))
    length = log.flush()
    log.close()
    sealed = {"outcomes": make_part_state(length, {"outcomes.log": length}), "shards": make_part_state([], {})}
    journal.repair_before_writing()
    journal.commit(encode_checkpoint(Checkpoint(at=1.0, parts=sealed, born=home.identity)))
    journal.close()


def read(paths: list[Path]) -> None:
    """Go through all pages in a separate process, and return the cost."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    room = CrawlReader(paths[0]) if len(paths) == 1 else MultiCrawlReader(paths)
    begun = time.process_time()
    pages = sum(1 for _ in room.pages())
    all_pages = time.process_time() - begun
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    begun = time.process_time()
    CrawlPrecedence(
        [read_latest_outcomes(one.home, one.length) for one in (CrawlReader(path).snapshot() for path in paths)]
    )
    say_which = time.process_time() - begun
    print(json.dumps({"pages": pages, "seconds": all_pages, "which": say_which, "kib": grown}))


def main(asked: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--crawls", type=int, default=4)
    parser.add_argument("--read", type=Path, nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args(asked)
    if given.read:
        read(given.read)
        return
    table: list[list[str]] = []
    for count in given.rows:
        with tempfile.TemporaryDirectory() as place:
            home, share = Path(place), count // given.crawls
            stretches = [(share, number * share * 9 // 10) for number in range(given.crawls)]
            write(home / "one", stretches)
            for number, stretch in enumerate(stretches):
                write(home / str(number), [stretch])
            several = [home / str(number) for number in range(given.crawls)]
            for name, paths in (("one log", [home / "one"]), (f"{given.crawls} crawls", several)):
                say(f"reading {count:,} rows as {name}")
                again = [sys.executable, __file__, "--read", *map(str, paths)]
                told = json.loads(subprocess.run(again, check=True, capture_output=True).stdout)
                which = f"{told['which'] / count * 1e6:.1f}" if len(paths) > 1 else "-"
                table.append(
                    [
                        f"{count:,}",
                        name,
                        f"{told['pages']:,}",
                        f"{told['seconds'] / count * 1e6:.1f}",
                        which,
                        f"{told['kib'] * 1024 / count:.0f}",
                    ]
                )
    names = ["rows", "read as", "pages", "all pages, µs a row", "of that, which is newest", "bytes a row"]
    print(aligned(names, table))


if __name__ == "__main__":
    main(sys.argv[1:])
