"""State of the frontier in a checkpoint, and the six durable parts that make it up.

Each part consists of one or more logs and has its own state. Here they begin, are sealed and
are closed together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from fieldmouse.errors import UsageError
from fieldmouse.frontier.front_log import FrontLog, FrontLogState
from fieldmouse.frontier.hosts.host_rows import HostTableState
from fieldmouse.frontier.hosts.host_table import HostTable
from fieldmouse.frontier.hosts.sites import SitesState, SiteTable
from fieldmouse.frontier.queues.ready import ReadyQueue, ReadyState
from fieldmouse.frontier.queues.virtualizer import Virtualizer, VirtualizerState
from fieldmouse.frontier.seen.sieve import DiskSieve, SieveState
from fieldmouse.policy.site_limits import SiteLimits
from fieldmouse.storage.checkpoint import Checkpoint
from fieldmouse.types.host import HostState
from fieldmouse.types.request import Request


class FrontierState(msgspec.Struct, frozen=True):
    """Names and lengths of all files, and their totals."""

    sieve: SieveState
    ready: ReadyState
    queues: VirtualizerState
    front: FrontLogState
    hosts: HostTableState
    done: int = 0
    width: int = 0
    seen: int = 0
    waiting: int = 0
    sites: SitesState | None = None  # None: written before sites were counted
    polls: int = 0  # known URLs that are to be fetched again
    shipments: Any = None  # not None: the crawl exchanged hosts with others, and cannot be resumed


def sealed_frontier(last: Checkpoint) -> FrontierState:
    """Read the frontier's state from a checkpoint."""
    return last.state("frontier", FrontierState)


class FrontierPart(Protocol):
    """Operations of a part beside `seal`."""

    def begin(self) -> None: ...

    def committed(self) -> None: ...

    def close(self) -> None: ...


B = TypeVar("B", bound=FrontierPart)


class FrontierCounts(NamedTuple):
    """Counts of a frontier at one moment."""

    done: int
    width: int
    seen: int
    waiting: int
    polls: int


@dataclass(frozen=True, slots=True)
class FrontierParts:
    """All parts of a frontier that a checkpoint holds."""

    directory: Path
    sieve: DiskSieve[Request]
    ready: ReadyQueue
    queues: Virtualizer
    front: FrontLog
    hosts: HostTable
    sites: SiteTable

    def __iter__(self) -> Iterator[FrontierPart]:
        return iter((self.sieve, self.ready, self.queues, self.front, self.hosts, self.sites))

    @property
    def waiting(self) -> int:
        """Number of URLs that are owed an outcome, polls included."""
        return len(self.ready) + len(self.queues) + len(self.front)

    @property
    def seen(self) -> int:
        """Number of URLs that were accepted."""
        return self.sieve.seen

    def seal(self, now: float, books: FrontierCounts) -> tuple[FrontierState, list[Path]]:
        """Write all files; returns the state, and the files to sync before it counts."""
        sieve, keys = self.sieve.seal()
        ready, waiting = self.ready.seal()
        queues, offline = self.queues.seal()
        front, online = self.front.seal()
        hosts, known = self.hosts.seal(now)
        sites, counted = self.sites.seal()
        state = FrontierState(sieve, ready, queues, front, hosts, sites=sites, **books._asdict())
        return state, [*keys, *waiting, *offline, *online, *known, *counted]


def open_parts(
    directory: Path,
    state: FrontierState | None,
    limits: SiteLimits | None = None,
    *,
    key_seed: int,
    now: float,
    resumed_delay: Callable[[HostState], float],
    run_size: int,
) -> FrontierParts:
    """Open the parts at `state`; nothing on disk changes."""
    if state is not None and state.shipments is not None:
        raise UsageError(
            f"hosts were exchanged by the crawl in `{directory.parent}`, so it cannot be resumed",
            "this version of fieldmouse exchanges no hosts: crawl on several machines with a server",
        )
    with ExitStack() as opened:  # if one cannot be opened, those before it are closed

        def keep(part: B) -> B:
            opened.callback(part.close)
            return part

        sieve: DiskSieve[Request] = keep(
            DiskSieve(directory, state.sieve if state else None, run_size=run_size)
        )
        ready = keep(ReadyQueue(directory, state.ready if state else None))
        front = keep(FrontLog(directory, state.front if state else None))
        hosts = keep(HostTable(directory, state.hosts if state else None, resumed_delay, now, key_seed))
        queues = keep(Virtualizer(directory, state.queues if state else None, hosts))
        sites = keep(
            SiteTable(directory, state.sites if state else None, limits or SiteLimits(), hosts, key_seed)
        )
        if state and state.sites is None:
            sites.count_hosts(host for host, _ in hosts)
        opened.pop_all()
    return FrontierParts(directory, sieve, ready, queues, front, hosts, sites)
