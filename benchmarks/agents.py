"""Cost of a coordinator: a plain crawl, one agent and two agents on the same synthetic web, in turns.

First at full speed (no delay): all processes share the machine's cores, so two agents cannot be faster
than one, and CPU time per page is the cost with and without a coordinator. Then with a delay and few fetch
workers, which limit the crawl like a slow network: here two agents have twice the workers. `traffic.py`
measures their communication.

    .venv/bin/python benchmarks/agents.py [--rounds 3] [--pages 4000]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import redis
import timed_run
from bench_setup import NO_TRAPS, fresh_meadow
from coordinator_server import a_server
from table import aligned, say

COMMAND = str(Path(sys.executable).with_name("fieldmouse"))


class Cost(msgspec.Struct):
    """Cost of one crawl."""

    pages: int
    pages_per_second: float
    cpu_ms: float  # per page, all agents
    server_ms: float  # per page, the coordinator's
    rss_mb: float  # the largest agent


def crawl(agents: int, options: dict[str, object], words: list[str]) -> Cost:
    """Crawl with this number of agents; 0 is a plain crawl."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        fresh_meadow(**options, **NO_TRAPS) as ground,
        a_server() as server,
    ):
        socket = server.connection_pool.connection_kwargs["path"]
        before = cpu_seconds(server)
        first = ["--seed", ground.seed, "--allow-private", "--scope", "web", *words]
        machine = [word for word in words if word.startswith("robots.")]
        own = [part for word in machine for part in ("--set", word)]
        lines = [[COMMAND, "crawl", "a0", *first]] if not agents else []
        for number in range(agents):
            more = first if number == 0 else own
            lines.append([COMMAND, "agent", f"a{number}", "--coordinator", f"unix://{socket}", *more])
        with ThreadPoolExecutor(len(lines)) as pool:
            ran = list(pool.map(lambda line: timed_run.run([*line, "--json"], seconds=900, cwd=Path(name)), lines))
        after = cpu_seconds(server)
        ground.stop()
        seen = ground.verdict()
        for one in ran:
            if one.exit:
                sys.exit(f"a crawl failed:\n{one.stderr.decode(errors='replace')[-2000:]}")
    pages = seen.pages
    return Cost(
        pages=pages,
        pages_per_second=seen.requests / (seen.last_at - seen.first_at),
        cpu_ms=1000 * sum(one.cpu_seconds for one in ran) / pages,
        server_ms=1000 * (after - before) / pages,
        rss_mb=max(one.peak_rss_mb for one in ran),
    )


def cpu_seconds(server: redis.Redis) -> float:
    """CPU seconds of the server so far."""
    info = server.info("cpu")
    return float(info["used_cpu_sys"] + info["used_cpu_user"])


def show(title: str, costs: dict[int, list[Cost]]) -> str:
    rows = []
    for agents, each in costs.items():

        def mid(field: str, each: list[Cost] = each) -> float:
            return statistics.median(getattr(cost, field) for cost in each)

        rows.append(
            [
                f"{agents} agent{'s' * (agents > 1)}" if agents else "plain crawl",
                f"{mid('pages_per_second'):,.0f}",
                f"{mid('cpu_ms'):.2f}",
                f"{mid('server_ms'):.2f}",
                f"{mid('rss_mb'):,.0f}",
            ]
        )
    header = ["", "requests/s", "CPU ms/page", "board ms/page", "MB"]
    return f"{title}\n\n{aligned(header, rows)}"


def main(asked: list[str]) -> None:
    parser = argparse.ArgumentParser(description="What a board costs a crawl.")
    parser.add_argument("--rounds", type=int, default=3, help="of all ways, in turns (default: 3)")
    parser.add_argument("--pages", type=int, default=4000, help="of the meadow (default: 4000)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    given = parser.parse_args(asked)
    size = given.pages
    trials = {
        "as fast as the machine goes": ({"hosts": 200, "pages": size, "page_kb": 10.0, "links": 40}, ["--delay", "0s"]),
        "each agent has 4 robots, and an answer takes 100 ms": (
            # Hosts of equal size: otherwise one large host, visited by one worker at a time, would dominate
            # the end.
            {"hosts": 200, "gamma": 0.0, "pages": max(200, size // 4), "page_kb": 10.0, "links": 40, "latency": 0.1},
            ["--delay", "0s", "--set", "fetch.concurrency=4"],
        ),
    }
    found: dict[str, dict[int, list[Cost]]] = {}
    for title, (options, words) in trials.items():
        costs = found[title] = {0: [], 1: [], 2: []}
        for _ in range(given.rounds):
            for agents, each in costs.items():
                each.append(crawl(agents, options, words))
                say(f"{title}, {agents} agents: {each[-1].pages_per_second:,.0f} a second")
    if given.json:
        print(json.dumps(msgspec.to_builtins(found)))
    else:
        print("\n\n".join(show(title, costs) for title, costs in found.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
