"""Pages per second of a whole crawl, compared with other crawlers, in one run on one machine.

Each contestant crawls the same web from the same seed, alone, for the same time. The server counts the
distinct pages requested in the first SECONDS seconds after its first request. Only fieldmouse is timed
until its process has ended, index committed and archive closed, and only its stored pages count.

wrk, a load generator in C, requests pages without reading them: the server's capacity for a client without
cost.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

import msgspec
import timed_run
from bench_setup import NO_TRAPS, Ground, fresh_meadow
from rival_crawlers import ABSENT, ALL, FIELDMOUSE, HERE, SCRAPY_TUNED, Contestant, Start
from table import aligned, say

WRK = "wrk (C)"
_WRK_HOSTS, _WRK_PAGES = 32, 2000
_HEADER = ["crawler", "pages", "s", "pages/s", "runs", "CPU ms/page", "x Scrapy tuned", "RSS MB", "what it does"]


class Result(msgspec.Struct):
    """One contestant's run. `seconds` is the time in which `pages` were fetched."""

    name: str
    version: str
    work: str
    pages: int
    requests: int
    seconds: float
    cpu_seconds: float
    server_cpu_seconds: float
    peak_rss_mb: float
    exit: int
    told: int = 0  # pages as the crawler counts them, for comparison
    trouble: str = ""

    @property
    def rate(self) -> float:
        return self.pages / self.seconds if self.seconds else 0.0


def crawl(who: Contestant, seconds: float, pages: int) -> Result:
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        fresh_meadow(hosts=1000, pages=pages, **NO_TRAPS) as ground,
    ):
        folder = Path(name)
        # Rivals run a little longer than they are judged, so that their shutdown is not timed.
        longer = seconds if who.is_ours else seconds + 6
        start = Start(ground.seed, longer, folder)
        ran = timed_run.run(who.command(start), seconds=longer + 20 if who.is_ours else longer, cwd=folder)
        server = ground.server_seconds()
        whole = ground.verdict()
        seen = whole if who.is_ours else ground.verdict(until=whole.first_at + seconds)
        told = _told(ran.stdout)
        ended = min(whole.last_at, whole.first_at + seconds)
        if who.is_ours:
            ended = ran.ended_at
        return Result(
            name=who.name,
            version=who.version(),
            work=who.work,
            pages=min(seen.pages, told) if who.is_ours else seen.pages,
            requests=seen.requests,
            seconds=ended - whole.first_at,
            cpu_seconds=ran.cpu_seconds * (seen.pages / whole.pages if whole.pages else 0.0),
            server_cpu_seconds=server,
            peak_rss_mb=ran.peak_rss_mb,
            exit=ran.exit,
            told=told,
            trouble="" if seen.pages else ran.stderr.decode(errors="replace").strip()[-300:] or "no page",
        )


def _told(stdout: bytes) -> int:
    """Number of pages in a crawler's final JSON object, if it prints one."""
    try:
        return int(json.loads(stdout.strip().rpartition(b"\n")[2] or stdout)["pages"])
    except (ValueError, KeyError, TypeError):
        return 0


def load(seconds: float, pages: int) -> Result:
    """Load that wrk reaches against the same meadow."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        fresh_meadow(hosts=1000, pages=pages, **NO_TRAPS) as ground,
    ):
        folder = Path(name)
        _lay_out(ground, folder)
        script = str(HERE / "pages.lua")
        words = f"wrk -t{_WRK_HOSTS} -c{2 * _WRK_HOSTS} -d{int(seconds)}s -s".split()
        env = {"PAGES": name}
        ran = timed_run.run([*words, script, ground.seed], seconds=seconds + 20, cwd=folder, env=env)
        server = ground.server_seconds()
        text = ran.stdout.decode()
        found = re.search(r"(\d+) requests in ([\d.]+)s", text)
        count, took = (int(found[1]), float(found[2])) if found else (0, 0.0)
        return Result(
            name=WRK,
            version="",
            work="none: bytes are counted",
            pages=count,
            requests=count,
            seconds=took,
            cpu_seconds=ran.cpu_seconds,
            server_cpu_seconds=server,
            peak_rss_mb=ran.peak_rss_mb,
            exit=ran.exit,
            trouble="" if found else (ran.stderr.decode() + text)[-300:],
        )


def _lay_out(ground: Ground, folder: Path) -> None:
    """Write the files that pages.lua reads."""
    wanted = ground.page_paths(_WRK_HOSTS, _WRK_PAGES)
    (folder / "hosts").write_text("".join(f"{address} {ground.plan.port}\n" for address in wanted))
    for address, paths in wanted.items():
        (folder / address).write_text("".join(f"{path}\n" for path in paths))


def middle(results: list[Result]) -> Result:
    """The run with the median rate."""
    rate = statistics.median_low([result.rate for result in results])
    return next(result for result in results if result.rate == rate)


def show(rounds: dict[str, list[Result]], absent: dict[str, str], pages: int) -> str:
    best = {name: middle(results) for name, results in rounds.items()}
    yardstick = best[SCRAPY_TUNED.name].rate if SCRAPY_TUNED.name in best else 0.0
    rows = []
    for name, result in best.items():
        cost = 1000 * result.cpu_seconds / result.pages if result.pages else 0.0
        ratio = f"{result.rate / yardstick:.1f}" if yardstick else "-"
        spread = sorted(each.rate for each in rounds[name])
        rows.append(
            [
                f"{name} {result.version}".strip(),
                f"{result.pages:,}",
                f"{result.seconds:.1f}",
                f"{result.rate:,.0f}",
                f"{spread[0]:,.0f} to {spread[-1]:,.0f}" if len(spread) > 1 else "-",
                f"{cost:.2f}",
                ratio,
                f"{result.peak_rss_mb:,.0f}",
                result.trouble.replace("\n", " ")[-60:] or result.work,
            ]
        )
    rows += [[name, *"-------", why] for name, why in absent.items()]
    lines = [f"throughput: 1,000 hosts, {pages:,} pages of about 30 KB with 100 links, no delay", ""]
    lines.append(aligned(_HEADER, rows))
    ours, server = best.get(FIELDMOUSE.name), best.get(WRK)
    if ours and server and server.rate:
        lines += ["", f"fieldmouse reaches {100 * ours.rate / server.rate:.0f} % of wrk"]
    if ours and yardstick:
        lines.append(f"fieldmouse reaches {ours.rate / yardstick:.1f} times Scrapy, tuned (goal: 10)")
    return "\n".join(lines)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Pages per second of whole crawls, side by side.")
    parser.add_argument("--seconds", type=float, default=25.0, help="how long each is judged (default: 25)")
    parser.add_argument("--pages", type=int, default=100_000, help="size of the web (default: 100000)")
    parser.add_argument("--repeat", type=int, default=1, help="rounds; each lets everybody run once")
    parser.add_argument("--only", help="names that contain one of these words, separated by commas")
    parser.add_argument("--quick", action="store_true", help="8 seconds each")
    parser.add_argument("--json", action="store_true", help="print every run as JSON instead of a table")
    asked = parser.parse_args(words)
    seconds = 8.0 if asked.quick else asked.seconds
    only = [word.strip().lower() for word in asked.only.split(",")] if asked.only else [""]
    field = [who for who in ALL if any(word in who.name.lower() for word in only)]
    absent = {who.name: "not installed here" for who in field if not who.version()}
    absent |= {name: why for name, why in ABSENT.items() if any(word in name for word in only)}
    rounds: dict[str, list[Result]] = {}
    for k in range(asked.repeat):
        if any(word in WRK for word in only):
            say(f"round {k + 1}: wrk")
            rounds.setdefault(WRK, []).append(load(max(5.0, seconds / 3), asked.pages))
        for who in field:
            if who.name not in absent:
                say(f"round {k + 1}: {who.name}")
                rounds.setdefault(who.name, []).append(crawl(who, seconds, asked.pages))
    load_average = os.getloadavg()[0]
    say(f"load average now {load_average:.1f} on {os.cpu_count()} cores")
    if asked.json:
        print(json.dumps({"runs": msgspec.to_builtins(rounds), "absent": absent}))
    else:
        print(show(rounds, absent, asked.pages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
