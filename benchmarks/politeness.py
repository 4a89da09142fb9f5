"""Pages fetched under politeness, against the ideal, and the politeness itself, from the server's log.

There are 500 hosts whose sizes follow a power law with gamma 1.3, and a delay of 0.2 seconds between two
requests to one host. In SECONDS seconds a host gives at most SECONDS / 0.2 pages, limited by its size; the
sum over the hosts is the ideal. The clock starts with a crawler's first request.

With 40,000 pages and 60 seconds the ideal is 15,407 pages: 16 hosts are elephants that must be requested
without a break and give a third of it, the other 484 are mice that can be finished.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import msgspec
import timed_run
from bench_setup import NO_TRAPS, fresh_meadow, judge
from delays import Manners, ideal_pages, manners
from rival_crawlers import CRAWLEE, FIELDMOUSE, SCRAPY_TUNED, Contestant, Start
from table import aligned, say

from fieldmouse.testing.meadow.server import read_arrivals

HOSTS, GAMMA, DELAY = 500, 1.3, 0.2
_FIELD = (FIELDMOUSE, SCRAPY_TUNED, CRAWLEE)


class Result(msgspec.Struct):
    name: str
    version: str
    pages: int
    requests: int
    hosts: int
    ideal: int
    manners: Manners
    cpu_seconds: float
    exit: int
    trouble: str = ""


def crawl(who: Contestant, seconds: float, pages: int) -> Result:
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        fresh_meadow(hosts=HOSTS, pages=pages, gamma=GAMMA, **NO_TRAPS) as ground,
    ):
        folder = Path(name)
        longer = seconds + 6  # time to start up; requests after `seconds` do not count
        start = Start(ground.seed, longer, folder, DELAY)
        ran = timed_run.run(who.command(start), seconds=longer + (20 if who.is_ours else 2), cwd=folder)
        ground.stop()
        arrivals = read_arrivals(ground.arrivals_file)
        until = arrivals[0].t + seconds if arrivals else 0.0
        seen = judge(ground.plan, [arrival for arrival in arrivals if arrival.t <= until])
        return Result(
            name=who.name,
            version=who.version(),
            pages=seen.pages,
            requests=seen.requests,
            hosts=seen.hosts,
            ideal=ideal_pages([site.size for site in ground.plan.sites], seconds, DELAY),
            # Politeness is judged to the very end, stopping included.
            manners=manners(arrivals, DELAY),
            cpu_seconds=ran.cpu_seconds,
            exit=ran.exit,
            trouble="" if seen.pages else ran.stderr.decode(errors="replace").strip()[-300:] or "no page",
        )


def show(results: list[Result], absent: list[str], seconds: float, pages: int) -> str:
    rows = [
        [
            f"{result.name} {result.version}",
            f"{result.pages:,}",
            f"{100 * result.pages / result.ideal:.1f} %",
            f"{result.hosts:,}",
            f"{result.requests:,}",
            f"{result.manners.short:,}",
            f"{result.manners.short_by_address:,}",
            f"{result.manners.overlaps:,}",
            f"{1000 * result.manners.shortest:.0f}" if result.manners.gaps else "-",
            result.trouble.replace("\n", " ")[-60:],
        ]
        for result in results
    ]
    rows += [[name, *"--------", "not installed here"] for name in absent]
    header = "crawler|pages|of ideal|hosts|requests|gaps too short|by address|overlaps|shortest ms|".split("|")
    ideal = results[0].ideal if results else 0
    title = (
        f"politeness: {HOSTS} hosts, {pages:,} pages, gamma {GAMMA}, {DELAY} s a host, {seconds:.0f} s; "
        f"ideal {ideal:,} pages"
    )
    return f"{title}\n\n{aligned(header, rows)}"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Pages fetched under politeness, and the manners of it.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each is judged (default: 60)")
    parser.add_argument("--pages", type=int, default=40_000, help="size of the web (default: 40000)")
    parser.add_argument("--only", help="names that contain one of these words, separated by commas")
    parser.add_argument("--quick", action="store_true", help="15 seconds each")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    asked = parser.parse_args(words)
    seconds = 15.0 if asked.quick else asked.seconds
    only = [word.strip().lower() for word in asked.only.split(",")] if asked.only else [""]
    field = [who for who in _FIELD if any(word in who.name.lower() for word in only)]
    absent = [who.name for who in field if not who.version()]
    results = []
    for who in field:
        if who.name not in absent:
            say(f"politeness: {who.name}")
            results.append(crawl(who, seconds, asked.pages))
    if asked.json:
        print(json.dumps({"runs": msgspec.to_builtins(results), "absent": absent}))
    else:
        print(show(results, absent, seconds, asked.pages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
