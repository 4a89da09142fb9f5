"""Traffic between agents and their coordinator: messages and bytes per page, in whole crawls.

Real agents (processes) with a separate Redis server crawl the same synthetic web, alone and together, with
much work and with little: with few hosts and a long delay an agent more often asks without result.
Messages are script calls, each with its answer. Processor time is the server's in total.

    .venv/bin/python benchmarks/traffic.py [--pages 2000]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import redis
from bench_setup import NO_TRAPS, fresh_meadow
from coordinator_server import a_server
from table import aligned, say

COMMAND = str(Path(sys.executable).with_name("fieldmouse"))


@dataclass(frozen=True)
class Course:
    agents: int
    pages: int
    hosts: int
    delay: str
    links: int = 20


def said(client: redis.Redis) -> dict[str, float]:
    stats, cpu = client.info("stats"), client.info("cpu")
    calls = client.info("commandstats")
    scripts = sum(calls.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))
    return {
        "messages": scripts,
        "to": stats["total_net_input_bytes"],
        "from": stats["total_net_output_bytes"],
        "cpu": cpu["used_cpu_user"] + cpu["used_cpu_sys"],
    }


def play(course: Course) -> list[str]:
    meadow = {"hosts": course.hosts, "pages": course.pages, "links": course.links, "page_kb": 8.0, "seed": 3}
    with (
        tempfile.TemporaryDirectory(prefix="bench-traffic-") as folder,
        a_server() as client,
        fresh_meadow(**meadow, **NO_TRAPS) as ground,
    ):
        url = "unix://" + client.connection_pool.connection_kwargs["path"]
        seeds = [word for seed in ground.seeds for word in ("--seed", seed)]
        manners = ["--scope", "web", "--delay", course.delay, "--allow-private"]
        before, begun = said(client), time.monotonic()
        running = []
        for number in range(course.agents):
            words = ["agent", f"{folder}/{number}", "--coordinator", url, "--json"]
            first = [*seeds, *manners] if number == 0 else []
            running.append(
                subprocess.Popen([COMMAND, *words, *first], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            )
        told = [json.loads(agent.communicate(timeout=1400)[0]) for agent in running]
        seconds, after = time.monotonic() - begun, said(client)
        pages = sum(one["pages"] for one in told)
        seen = told[0]["whole"]["seen"]
    spent = {key: (after[key] - before[key]) / pages for key in after}
    return [
        f"{course.agents}",
        f"{pages:,}",
        f"{seen:,}",
        f"{course.hosts:,}",
        course.delay,
        f"{pages / seconds:.0f}",
        f"{spent['messages']:.2f}",
        f"{spent['to']:,.0f}",
        f"{spent['from']:,.0f}",
        f"{spent['cpu'] * 1e6:,.0f}",
    ]


HEAD = [
    "agents",
    "pages",
    "URLs",
    "hosts",
    "delay",
    "pages/s",
    "messages/page",
    "bytes to the board",
    "bytes from it",
    "server us/page",
]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--pages", type=int, default=2000)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    pages = 500 if given.quick else given.pages
    courses = [
        Course(1, pages // 4, 200, "20ms"),
        Course(1, pages, 200, "20ms"),
        Course(1, pages, 200, "20ms", links=100),
        Course(2, pages, 200, "20ms"),
        Course(2, pages // 4, 10, "200ms"),
    ]
    rows = []
    for course in courses:
        say(f"{course}")
        rows.append(play(course))
    print(json.dumps([dict(zip(HEAD, row, strict=True)) for row in rows]) if given.json else aligned(HEAD, rows))


if __name__ == "__main__":
    main()
