"""Trial of agents in several places on real processes: visits per host and place, and the speed of the crawl.

It starts a Redis server, a synthetic web whose responses take longer between places, and an agent in each
place, all on loopback. The result is read from the requests that arrived at the meadow.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from fieldmouse.errors import FieldmouseError
from fieldmouse.testing.meadow.addresses import place_of_client
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.plan import MeadowPlan
from fieldmouse.testing.meadow.serve import meadow_process
from fieldmouse.testing.meadow.server import Arrival, read_arrivals

#: Source addresses of agents; the last number is the place.
AGENT_ADDRESSES = "127.9.0"
_HOSTS = "127.20.0.0/16"
_WAIT = 60.0  # seconds for a server to start


@dataclass(frozen=True, slots=True)
class RegionSetup:
    """Distances between hosts and agents, and the limits of the crawl."""

    hosts: int = 24
    pages: int = 2_400
    places: int = 4
    near: float = 0.005
    far: float = 0.5
    delay: float = 0.2
    robots: int = 100  # per agent

    def options(self, seed: int, folder: Path) -> MeadowOptions:
        """Options with hosts of equal size, so that none is left for the end, and without errors."""
        return MeadowOptions(
            hosts=self.hosts,
            pages=self.pages,
            gamma=0.0,
            seed=seed,
            port=0,
            listen=_HOSTS,
            places=self.places,
            near=self.near,
            far=self.far,
            page_kb=2.0,
            links=20,
            busy=0.0,
            traps=0.0,
            server_error=0.0,
            arrivals=folder / "arrivals.jsonl",
            follow_parent=True,
        )

    def settings(self, policy: str) -> dict[str, str]:
        return {"cluster.policy": policy, "cluster.lease": "10s", "cluster.heartbeat": "1s"}


@dataclass(frozen=True, slots=True)
class RegionTrialResult:
    """Requests of a crawl under one policy, as the server saw them."""

    times: Sequence[float]  # of each request, since the first
    near: Sequence[bool]  # whether it came from the host's place
    moves: int  # requests from another place than the previous request to that host
    hosts: int

    @property
    def pace(self) -> float:
        """Requests per second over the middle 80 %, without start and end."""
        first, last = len(self.times) // 10, 9 * len(self.times) // 10
        return (last - first) / (self.times[last] - self.times[first])

    def near_share(self, since: float = 0.5) -> float:
        """Share of nearby requests among the requests after the fraction `since`."""
        late = self.near[int(since * len(self.near)) :]
        return sum(late) / len(late)

    @property
    def moves_a_request(self) -> float:
        return self.moves / len(self.times)


def run_live_trial(land: RegionSetup, policy: str, folder: Path, seed: int) -> RegionTrialResult:
    """Crawl the meadow of a seed with an agent in each place."""
    folder.mkdir()
    options = land.options(seed, folder)
    with ExitStack() as stack:
        board = stack.enter_context(_board(folder))
        ready = stack.enter_context(meadow_process(options))
        agents = [stack.enter_context(_agent(land, policy, folder, board, ready.seeds, 1))]
        agents += [
            stack.enter_context(_agent(land, policy, folder, board, (), place)) for place in range(2, land.places + 1)
        ]
        for agent in agents:
            if agent.wait():
                raise FieldmouseError(f"an agent ended with exit code {agent.returncode}", _words(folder))
    return result_from_arrivals(MeadowPlan(options, ready.port), read_arrivals(folder / "arrivals.jsonl"))


def result_from_arrivals(plan: MeadowPlan, arrivals: Sequence[Arrival]) -> RegionTrialResult:
    """Compute the result from the arrivals at the meadow."""
    places = [place_of_client(arrival.client, plan.options.places) for arrival in arrivals]
    near = [plan.by_address[arrival.address].place == place for arrival, place in zip(arrivals, places, strict=True)]
    visits: dict[str, list[int]] = {}
    for arrival, place in zip(arrivals, places, strict=True):
        visits.setdefault(arrival.address, []).append(place)
    moves = sum(before != after for each in visits.values() for before, after in pairwise(each))
    began = arrivals[0].t
    return RegionTrialResult([arrival.t - began for arrival in arrivals], near, moves, len(visits))


@contextmanager
def _process(words: Sequence[str], talk: Path) -> Iterator[subprocess.Popen[bytes]]:
    with talk.open("wb") as errors, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


@contextmanager
def _board(folder: Path) -> Iterator[str]:
    server = shutil.which("redis-server") or shutil.which("valkey-server")
    if server is None:
        raise FieldmouseError("there is no Redis server on this machine", "`apt install redis-server`")
    socket = folder / "board.sock"
    words = [server, "--port", "0", "--unixsocket", str(socket), "--dir", str(folder), "--save", ""]
    words += ["--appendonly", "yes", "--logfile", str(folder / "board.log")]
    with _process(words, folder / "board.err"):
        until = time.monotonic() + _WAIT
        while not socket.exists():
            if time.monotonic() > until:
                raise FieldmouseError(f"`{server}` did not start", f"see `{folder / 'board.log'}`")
            time.sleep(0.05)
        yield f"unix://{socket}"


@contextmanager
def _agent(
    land: RegionSetup, policy: str, folder: Path, board: str, seeds: Sequence[str], place: int
) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-m", "fieldmouse", "agent", str(folder / f"place{place}")]
    words += ["--coordinator", board, "--allow-private"]
    settings = {"network.source": f"{AGENT_ADDRESSES}.{place}", "fetch.concurrency": str(land.robots)}
    if seeds:
        words += [word for seed in seeds for word in ("--seed", seed)]
        words += ["--scope", "web", "--delay", f"{land.delay:g}s"]
        settings |= land.settings(policy)
    words += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with _process([*words, "--json"], folder / f"place{place}.err") as process:
        yield process


def _words(folder: Path) -> str:
    said = (path.read_text(errors="replace").strip() for path in sorted(folder.glob("*.err")))
    return "; ".join(line for line in said if line) or "it said nothing"
