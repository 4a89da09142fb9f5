"""Memory of one agent of a cluster against its fetched pages: it must not grow with the seen URLs.

A real agent with a separate Redis server crawls a large synthetic web of small pages on many hosts, and is
stopped while many URLs still wait. Its processes are sampled every few seconds: the agent itself, which
has the fetch workers, and its worker processes, which parse, archive and index. Mapped files (the index)
are listed separately, because the system reclaims them when it needs memory. The slopes are those of
straight lines through the samples after the warm-up (least squares), in bytes per page. Some caches are
bounded and fill slowly: 20,000 robots.txt files, 65,536 host names; so a slope counts only with more hosts
than that, or with few from the start.

    .venv/bin/python benchmarks/agent_memory.py [--pages 60000] [--hosts 30000] [--minutes 12]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
import timed_run
from bench_setup import NO_TRAPS, fresh_meadow
from coordinator_server import a_server
from table import aligned, say

from fieldmouse.cluster.coordinator import CrawlTotals
from fieldmouse.cluster.redis.coordinator import RedisCoordinator
from fieldmouse.errors import CoordinatorDataLost

COMMAND = str(Path(sys.executable).with_name("fieldmouse"))
EVERY = 2.0
WARM = 0.4
"""Share of pages after which the lines begin."""


class Memory(msgspec.Struct, frozen=True):
    """Memory of some processes, in MB."""

    own: float
    files: float

    @classmethod
    def of(cls, pids: list[int]) -> Memory:
        own, files = 0, 0
        for pid in pids:
            try:
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:
                continue  # it has ended
            told = {name: int(kb) for name, kb in re.findall(r"^(Pss_\w+):\s+(\d+) kB", text, re.MULTILINE)}
            own += told.get("Pss_Anon", 0) + told.get("Pss_Shmem", 0)
            files += told.get("Pss_File", 0)
        return cls(own / 1024, files / 1024)


class Sample(msgspec.Struct, frozen=True):
    seconds: float
    pages: int
    settled: int
    seen: int
    hosts: int
    agent: Memory
    workers: Memory
    board_mb: float


def watch(pages: int, hosts: int, minutes: float) -> list[Sample]:
    meadow = {"hosts": hosts, "pages": pages + pages // 4, "links": 30, "page_kb": 3.0, "gamma": 0.5}
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        a_server() as client,
        fresh_meadow(**meadow, **NO_TRAPS) as ground,
    ):
        url = "unix://" + client.connection_pool.connection_kwargs["path"]
        manners = ["--scope", "web", "--delay", "10ms", "--allow-private", "--pages", str(pages), "--json"]
        words = [COMMAND, "agent", f"{folder}/a", "--coordinator", url, "--seed", ground.seed, *manners]
        samples, most = list[Sample](), 0
        with (Path(folder) / "told").open("wb") as told:
            agent = subprocess.Popen(words, stdout=told, stderr=subprocess.STDOUT)
            begun = time.monotonic()
            while agent.poll() is None:
                time.sleep(EVERY)
                seconds = time.monotonic() - begun
                tree = timed_run.tree(agent.pid)
                books = asyncio.run(books_of(url))
                used = client.info("memory")["used_memory"] / 2**20
                most = max(most, len(tree))
                if agent.poll() is None and books.started and len(tree) == most:  # none has ended yet
                    samples.append(
                        Sample(
                            seconds,
                            books.kinds.get("page", 0),
                            books.settled,
                            books.seen,
                            books.hosts,
                            Memory.of(tree[:1]),
                            Memory.of(tree[1:]),
                            used,
                        )
                    )
                if seconds > 60 * minutes:
                    agent.send_signal(signal.SIGTERM)
                    agent.wait(120)
        if agent.returncode not in (0, 3, 130):
            sys.exit(f"the agent failed:\n{(Path(folder) / 'told').read_text()[-2000:]}")
    return samples


async def books_of(url: str) -> CrawlTotals:
    board = RedisCoordinator(url)
    try:
        return await board.totals()
    except CoordinatorDataLost:
        return CrawlTotals()  # the agent has not founded it yet
    finally:
        await board.close()


def slope(pages: list[int], mb: list[float]) -> tuple[float, float]:
    """Bytes per page, and their standard error if samples were independent."""
    x, y = np.array(pages, float), np.array(mb) * 2**20
    (a, _), covariance = np.polyfit(x, y, 1, cov=True)
    return float(a), float(np.sqrt(covariance[0, 0]))


def show(samples: list[Sample]) -> str:
    last = samples[-1].pages
    rows = []
    for tenth in range(1, 11):
        at = next(sample for sample in samples if sample.pages >= last * tenth / 10)
        counts = [f"{count:,}" for count in (at.pages, at.seen, at.hosts)]
        sizes = (at.agent.own, at.agent.files, at.workers.own, at.workers.files, at.board_mb)
        rows.append([f"{10 * tenth} %", *counts, *(f"{mb:,.1f}" for mb in sizes)])
    header = ["", "pages", "URLs", "hosts", "agent MB", "its files", "workers MB", "their files", "board MB"]
    warm = [sample for sample in samples if sample.pages >= WARM * last]
    lines = []
    for name, mb in (
        ("agent", [sample.agent.own for sample in warm]),
        ("workers", [sample.workers.own for sample in warm]),
        ("both", [sample.agent.own + sample.workers.own for sample in warm]),
    ):
        bytes_a_page, error = slope([sample.pages for sample in warm], mb)
        lines.append([name, f"{bytes_a_page:.0f}", f"{error:.0f}", f"{min(mb):.0f}", f"{max(mb):.0f}"])
    slopes = aligned([f"after {WARM:.0%}", "bytes a page", "error", "least MB", "most MB"], lines)
    return f"{aligned(header, rows)}\n\n{slopes}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--pages", type=int, default=60_000)
    options.add_argument("--hosts", type=int, default=30_000)
    options.add_argument("--minutes", type=float, default=12.0, help="the longest it may take")
    options.add_argument("--quick", action="store_true", help="2,000 pages of 1,000 hosts")
    options.add_argument("--json", action="store_true", help="print all that was seen as JSON")
    given = options.parse_args()
    if given.quick:
        given.pages, given.hosts = 2_000, 1_000
    say(f"one agent, {given.pages:,} pages of {given.hosts:,} hosts")
    samples = watch(given.pages, given.hosts, given.minutes)
    print(json.dumps(msgspec.to_builtins(samples)) if given.json else show(samples))


if __name__ == "__main__":
    main()
