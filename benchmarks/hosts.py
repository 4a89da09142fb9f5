"""Cost of a host: memory, time and the opening of a crawl, up to a million hosts with one URL each.

Every host is found once, visited, and turns out to be at an address that already has too many hosts; its
URL then waits offline, in a separate queue, with the state of the host. One wildcard domain can do this to
a crawl. The frontier is a real one on disk, with checkpoints as in a crawl. Memory is the growth of the
process (RSS), caches included; times are processor times.

    .venv/bin/python benchmarks/hosts.py [--hosts 1000000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import msgspec

from fieldmouse.frontier.durable_parts import FrontierState
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.policy.distribution.one_place_per_host import OnePlacePerHostPolicy
from fieldmouse.storage.log import FileSyncer
from fieldmouse.testing.virtual_time import VirtualClock, VirtualTimeLoop
from fieldmouse.types.request import Request
from fieldmouse.url import Url

BATCH = 10_000  # hosts found between two checkpoints
NOW = 1_700_000_000.0
NEVER = NOW + 1e8


def resident() -> int:
    """Resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def url_of(number: int) -> Url:
    return Url(f"http://{number * 2654435761 % 2**32:08x}.wildcard.example/")


def opened(directory: Path, state: FrontierState | None) -> Frontier:
    frontier = Frontier(
        directory,
        key_seed=7,
        clock=VirtualClock(VirtualTimeLoop(), NOW),
        policy=OnePlacePerHostPolicy(depth=16),
        state=state,
        resumed_delay=lambda _: 1.0,
    )
    frontier.roll_back_to_checkpoint()
    return frontier


def meet(frontier: Frontier, first: int, last: int) -> None:
    """Find these hosts and visit each once; their address is crowded, so they must wait."""
    frontier.discover([Request(url_of(number), 1, "http://wildcard.example/") for number in range(first, last)])
    while (visit := frontier.take_visit(NOW)) is not None:
        state = msgspec.structs.replace(visit.state, address="192.0.2.1", address_ready_at=NEVER)
        frontier.end_visit(visit, state, visit.tickets)


def play(hosts: int, directory: Path) -> None:
    stops = [stop for stop in (10**4, 10**5, 10**6, 10**7) if stop < hosts] + [hosts]
    frontier, state = opened(directory, None), None
    meet(frontier, 0, 100)
    before, met, spent = resident(), 100, 0.0
    print(f"{'hosts':>10} {'bytes/host':>11} {'us/host':>9} {'longest seal':>13} {'disk, bytes/host':>17}")
    for stop in stops:
        slowest = spent = 0.0
        since, syncing = met, FileSyncer()
        while met < stop:
            more = min(BATCH, stop - met)
            begun = time.process_time()
            meet(frontier, met, met + more)
            sealing = time.process_time()
            state, paths = frontier.seal()
            slowest = max(slowest, time.process_time() - sealing)
            syncing.sync(paths, directory)
            frontier.on_checkpoint_committed()
            spent += time.process_time() - begun
            met += more
        assert frontier.waiting_count == frontier.total_hosts == met, "a host was lost"
        disk = sum(path.stat().st_size for path in directory.iterdir())
        print(
            f"{met:>10,} {(resident() - before) / met:>11.0f} {spent / (met - since) * 1e6:>9.1f}"
            f" {slowest * 1e3:>10.0f} ms {disk / met:>17.0f}",
            flush=True,
        )
    frontier.close()
    del frontier
    begun = time.process_time()
    again = opened(directory, state)
    print(f"\nopened in {time.process_time() - begun:.1f} s: {again.waiting_count:,} URLs, {again.total_hosts:,} hosts")
    again.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--hosts", type=int, default=1_000_000)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        play(given.hosts, Path(directory))


if __name__ == "__main__":
    main()
