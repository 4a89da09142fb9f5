"""Gain from a second machine, and balance of work between agents, with real agents and default settings.

There are a Redis server, a synthetic web, and agents limited to one core each (`taskset`), so that two
agents have twice the CPU of one. First one agent crawls alone for a while, then the requested number, of
which all but the first join late. Pages are those in the agents' adverts, from some time after the last
agent joined.

    .venv/bin/python benchmarks/late_agent.py [--agents 2] [--hosts 300] [--seconds 60] [--late 8] [--watch]
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from table import aligned, say

from fieldmouse.api import cluster_admin
from fieldmouse.errors import CoordinatorError
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.serve import meadow_process
from fieldmouse_lab.network.live_trial import _board

Stored = dict[str, int]


@contextmanager
def agent(folder: Path, name: str, core: int, board: str, words: Sequence[str]) -> Iterator[None]:
    """Run an agent on one core during the context."""
    command = [sys.executable, "-m", "fieldmouse", "agent", str(folder / name), "--coordinator", board]
    command += ["--allow-private", *words]
    if shutil.which("taskset") is not None:
        command = ["taskset", "-c", str(core % (os.cpu_count() or 1)), *command]
    with (
        (folder / f"{name}.err").open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True) as process,
    ):
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def standing(board: str) -> dict[str, cluster_admin.AgentSummary]:
    with suppress(CoordinatorError):
        return {Path(its.directory).name: its for its in cluster_admin.cluster_status([board], "fieldmouse").agents}
    return {}


def crawl(asked: argparse.Namespace, agents: int, folder: Path) -> Stored:
    """Pages that each agent stored in the measured time."""
    folder.mkdir()
    options = MeadowOptions(
        hosts=asked.hosts,
        pages=asked.pages,
        gamma=0.0,
        seed=asked.seed,
        port=0,
        listen="127.20.0.0/16",
        page_kb=asked.page_kb,
        latency=asked.latency,
        follow_parent=True,
    )
    names = [f"agent{number}" for number in range(1, agents + 1)]
    with _board(folder) as board, meadow_process(options) as meadow:
        first = [word for seed in meadow.seeds for word in ("--seed", seed)]
        first += ["--scope", "web", "--delay", asked.delay]
        crews = []
        try:
            for number, name in enumerate(names):
                if number:
                    watch(asked, board, asked.late)
                crews.append(agent(folder, name, number, board, () if number else first))
                crews[-1].__enter__()
            watch(asked, board, asked.late if agents == 1 else 0.0)
            watch(asked, board, asked.settle)
            before = {name: its.pages for name, its in standing(board).items()}
            watch(asked, board, asked.seconds)
            after = {name: its.pages for name, its in standing(board).items()}
        finally:
            for crew in reversed(crews):
                crew.__exit__(None, None, None)
    return {name: after.get(name, 0) - before.get(name, 0) for name in names}


def watch(asked: argparse.Namespace, board: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 5.0))
        if asked.watch:
            for name, its in sorted(standing(board).items()):
                doing = f"{its.robots} fetching, backlog {its.backlog}"
                say(f"{name}: {its.hosts} hosts, {its.pages} pages, {doing}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=300)
    parser.add_argument("--pages", type=int, default=200_000, help="more than can be crawled in that time")
    parser.add_argument("--page-kb", type=float, default=30.0)
    parser.add_argument("--latency", type=float, default=0.05, help="mean seconds of an answer")
    parser.add_argument("--delay", default="1s", help="between two requests to a host")
    parser.add_argument("--late", type=float, default=8.0, help="seconds between two agents that join")
    parser.add_argument("--settle", type=float, default=20.0, help="seconds that are not counted then")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds that are counted")
    parser.add_argument("--seed", type=int, default=771)
    parser.add_argument("--watch", action="store_true", help="say every five seconds how agents stand")
    asked = parser.parse_args()
    say(f"load of this machine: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    rows, alone = [], 0.0
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for agents in (1, asked.agents):
            stored = crawl(asked, agents, Path(folder) / str(agents))
            pace = sum(stored.values()) / asked.seconds
            alone = alone or pace
            share = max(stored.values()) / max(1, min(stored.values()))
            each = " ".join(map(str, stored.values()))
            rows.append([str(agents), f"{pace:.1f}", f"{pace / max(alone, 0.1):.2f}", each, f"{share:.2f}"])
    say(f"load of this machine: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    print(aligned(["agents", "pages/s", "times one agent", "pages of each", "most over least"], rows))


if __name__ == "__main__":
    main()
