"""Memory of a whole refresh: every process of `fieldmouse refresh`, from ten thousand pages to a million.

A crawl of a synthetic web is written as its outcome log alone, as in `page_table.py`. Then it is refreshed:
the page table is built from the log, plans are made, and pages are polled for a while at a hundred per
second. Each poll fetches a page that is parsed, archived and indexed, since there is no copy yet: the most
expensive kind. Memory is the sum over the process tree, sampled from /proc.

    .venv/bin/python benchmarks/refresh_memory.py [--pages 1000000] [--seconds 60]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import timed_run
from bench_setup import NO_TRAPS, Ground, fresh_meadow
from table import aligned, say

from fieldmouse.storage.checkpoint import CheckpointParts, DurableLog, open_journal
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing.meadow.paths import path_of
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import Url

FIELDMOUSE = (sys.executable, "-m", "fieldmouse")
HOSTS = 1000
BUDGET = "100/s"
_encode = msgspec.msgpack.Encoder().encode


def stored(ground: Ground, at: float) -> Iterator[OutcomeRow]:
    for site in ground.plan.sites:
        for page in range(site.original):
            yield OutcomeRow(
                Url(site.origin + path_of(site, page)),
                OutcomeKind.PAGE,
                at,
                depth=3,
                via=ground.seed,
                seen_at=at,
                status=200,
                mime="text/html",
                title=f"Page {page}",
                digest=f"sha1:{page:032d}",
                size=30_000,
                links=100,
                indexed=True,
            )


def written(atlas: Path, ground: Ground) -> int:
    """Write a crawl of one page that also knows all other pages of its meadow; return their number."""
    words = ["crawl", str(atlas), "--seed", ground.seed, "--allow-private", "--pages", "1", "--depth", "3"]
    subprocess.run([*FIELDMOUSE, *words], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    home = CrawlDir.open(atlas)
    journal, last = open_journal(home)
    outcomes = DurableLog("outcomes", home / "outcomes.log", last)
    parts = CheckpointParts(home, journal, (outcomes,), last)
    parts.open_for_writing()
    count = 0
    for row in stored(ground, time.time() - 86_400):
        outcomes.append(_encode(row))
        count += 1
    parts.commit(parts.seal(time.time(), clean=True))
    outcomes.close()
    journal.close()
    return count


def refresh(pages: int, seconds: float) -> list[str]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        fresh_meadow(hosts=min(HOSTS, pages), pages=pages, gamma=0.0, sitemaps=0.0, **NO_TRAPS) as ground,
    ):
        atlas = Path(name) / "atlas"
        known = written(atlas, ground)
        words = [*FIELDMOUSE, "refresh", str(atlas), "--json", "--delay", "100ms"]
        words += ["--budget", BUDGET, "--for", f"{seconds}s"]
        ran = timed_run.run(words, seconds=seconds + 300, cwd=Path(name))
        told = json.loads(ran.stdout.strip().rpartition(b"\n")[2] or "{}")
        if not told:
            say(ran.stderr.decode(errors="replace"))
        polls = told.get("refreshed", {}).get("polls", 0)
        return [f"{known:,}", f"{polls:,}", f"{ran.peak_rss_mb:,.0f}", f"{ran.peak_pss_mb:,.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pages", type=int, default=10**6)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    rows = []
    for pages in [stop for stop in (10**4, 10**5, 10**6) if stop < asked.pages] + [asked.pages]:
        say(f"upkeep: {pages:,} pages")
        rows.append(refresh(pages, asked.seconds))
    print(aligned(["known pages", "polls", "RSS MB", "PSS MB"], rows))


if __name__ == "__main__":
    main()
