"""Peak memory of a long crawl against a short one: it must not grow with the seen URLs.

Two crawls of the same kind are compared, one with ten times as many pages. Memory is the sum over the
process tree, sampled from /proc; `told` is the crawl's report at its end.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import msgspec
import timed_run
from bench_setup import NO_TRAPS, fresh_meadow
from rival_crawlers import FIELDMOUSE, Start
from table import aligned, say

GOAL = 1.5


class Result(msgspec.Struct):
    wanted: int
    pages: int
    seconds: float
    peak_rss_mb: float
    peak_pss_mb: float
    told_mb: float
    disk_mb: float
    exit: int
    trouble: str = ""


def crawl(pages: int, limit: float) -> Result:
    """Crawl `pages` pages of a web that has a few more, so that the frontier is still full at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        fresh_meadow(hosts=min(1000, pages), pages=pages + pages // 4, **NO_TRAPS) as ground,
    ):
        folder = Path(name)
        command = FIELDMOUSE.command(Start(ground.seed, limit, folder))
        ran = timed_run.run([*command, "--pages", str(pages)], seconds=limit + 30, cwd=folder)
        try:
            told = json.loads(ran.stdout.strip().rpartition(b"\n")[2])
        except ValueError:
            told = {}
        files = (file.stat() for file in folder.rglob("*") if file.is_file())
        return Result(
            wanted=pages,
            pages=int(told.get("pages", 0)),
            seconds=ran.ended_at - ran.started_at,
            peak_rss_mb=ran.peak_rss_mb,
            peak_pss_mb=ran.peak_pss_mb,
            told_mb=float(told.get("peak_rss_mb", 0.0)),
            disk_mb=sum(stat.st_blocks * 512 for stat in files) / 2**20,
            exit=ran.exit,
            trouble="" if told.get("pages") else ran.stderr.decode(errors="replace").strip()[-300:],
        )


def show(small: Result, large: Result) -> str:
    rows = [
        [
            f"{result.wanted:,} pages",
            f"{result.pages:,}",
            f"{result.seconds:,.0f}",
            f"{result.peak_rss_mb:,.0f}",
            f"{result.peak_pss_mb:,.0f}",
            f"{result.told_mb:,.0f}",
            f"{result.disk_mb:,.0f}",
            result.trouble.replace("\n", " ")[-60:],
        ]
        for result in (small, large)
    ]
    pairs = (
        (large.peak_rss_mb, small.peak_rss_mb),
        (large.peak_pss_mb, small.peak_pss_mb),
        (large.told_mb, small.told_mb),
    )
    ratios = [f"{a / b:.2f}" if b else "-" for a, b in pairs]
    rows.append(["ratio", "-", "-", *ratios, "-", f"goal: at most {GOAL}"])
    header = ["crawl", "pages", "s", "RSS MB", "PSS MB", "told MB", "disk MB", ""]
    return f"memory: peak over the process tree\n\n{aligned(header, rows)}"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Peak memory of a long crawl against a short one.")
    parser.add_argument("--small", type=int, default=20_000, help="pages of the short crawl (default: 20000)")
    parser.add_argument("--large", type=int, default=200_000, help="pages of the long one (default: 200000)")
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds a crawl may take (default: 1200)")
    parser.add_argument("--quick", action="store_true", help="2,000 and 20,000 pages")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    asked = parser.parse_args(words)
    sizes = (2_000, 20_000) if asked.quick else (asked.small, asked.large)
    results = []
    for pages in sizes:
        say(f"memory: {pages:,} pages")
        results.append(crawl(pages, asked.limit))
    if asked.json:
        print(json.dumps({"runs": msgspec.to_builtins(results)}))
    else:
        print(show(*results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
