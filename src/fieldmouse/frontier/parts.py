"""What a frontier keeps on disk: six parts or seven, sealed at one moment.

Each is a log or several, with a state of its own; here they are one thing that begins,
is sealed, and is put away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from fieldmouse.errors import UsageError
from fieldmouse.frontier.disksieve import DiskSieve
from fieldmouse.frontier.frontlog import FrontLog
from fieldmouse.frontier.hosts import HostTable
from fieldmouse.frontier.moment import FrontierState
from fieldmouse.frontier.ready import ReadyQueue
from fieldmouse.frontier.shipments import Shipments
from fieldmouse.frontier.sites import SiteTable
from fieldmouse.frontier.virtualizer import Virtualizer
from fieldmouse.policy.sitelimits import SiteLimits
from fieldmouse.records import HostState, Link
from fieldmouse.url import Host


class Begun(Protocol):
    """What each of them can do beside being sealed."""

    def begin(self) -> None: ...

    def committed(self) -> None: ...

    def close(self) -> None: ...


B = TypeVar("B", bound=Begun)


class Books(NamedTuple):
    """What a frontier counts, at one moment."""

    done: int
    width: int
    seen: int
    waiting: int
    polls: int


@dataclass(frozen=True, slots=True)
class FrontierParts:
    """All that a checkpoint holds of a frontier."""

    directory: Path
    sieve: DiskSieve[Link]
    ready: ReadyQueue
    queues: Virtualizer
    front: FrontLog
    hosts: HostTable
    sites: SiteTable
    shipments: Shipments | None = None  # None: hosts neither come nor go

    def __iter__(self) -> Iterator[Begun]:
        parts = (self.sieve, self.ready, self.queues, self.front, self.hosts, self.sites)
        return iter(parts if self.shipments is None else (*parts, self.shipments))

    @property
    def waiting(self) -> int:
        """URLs that are owed an outcome, by whichever door they came."""
        owed = self.shipments.outbox.owed if self.shipments is not None else 0
        return len(self.ready) + len(self.queues) + len(self.front) + owed

    @property
    def seen(self) -> int:
        """URLs that were accepted, and are settled or waiting here."""
        foreign = self.shipments.foreign.count if self.shipments is not None else 0
        return self.sieve.seen - foreign

    def seal(self, now: float, books: Books) -> tuple[FrontierState, list[Path]]:
        """Hand everything to the operating system: the state, and the files to sync before it counts."""
        sieve, keys = self.sieve.seal()
        ready, waiting = self.ready.seal()
        queues, offline = self.queues.seal()
        front, online = self.front.seal()
        hosts, known = self.hosts.seal(now)
        sites, counted = self.sites.seal()
        shipments, moving = self.shipments.seal() if self.shipments is not None else (None, [])
        state = FrontierState(
            sieve, ready, queues, front, hosts, books.done, books.width, books.seen, books.waiting, sites,
            books.polls, shipments,
        )  # fmt: skip
        return state, [*keys, *waiting, *offline, *online, *known, *counted, *moving]


def open_parts(
    directory: Path,
    state: FrontierState | None,
    *,
    key_seed: int,
    now: float,
    resumed_delay: Callable[[HostState], float],
    run_size: int,
    limits: SiteLimits,
    ours: Callable[[Host], bool] | None = None,
) -> FrontierParts:
    """Open them at `state`; nothing on the disk changes. `ours`: see `Exchanging`; None: no host moves."""
    with ExitStack() as opened:  # if one cannot be opened, those before it are closed

        def keep(part: B) -> B:
            opened.callback(part.close)
            return part

        sieve: DiskSieve[Link] = keep(DiskSieve(directory, state.sieve if state else None, run_size=run_size))
        ready = keep(ReadyQueue(directory, state.ready if state else None))
        front = keep(FrontLog(directory, state.front if state else None))
        hosts = keep(HostTable(directory, state.hosts if state else None, resumed_delay, now, key_seed))
        queues = keep(Virtualizer(directory, state.queues if state else None, hosts))
        sites = keep(SiteTable(directory, state.sites if state else None, limits, hosts, key_seed))
        if state and state.sites is None:
            sites.count_hosts(host for host, _ in hosts)
        moves = state.shipments if state else None
        if ours is None and moves is not None:
            raise UsageError(
                f"hosts were exchanged by the crawl in `{directory.parent}`, so it cannot go on alone",
                "run it with the others it exchanges hosts with",
            )
        if ours is not None and state is not None and moves is None:
            raise UsageError(
                f"the crawl in `{directory.parent}` has not kept its keys by host, so no host can leave it",
                "hosts are exchanged between crawls that were made for it",
            )
        shipments = keep(Shipments(directory, moves, hosts, ours)) if ours is not None else None
        opened.pop_all()
    return FrontierParts(directory, sieve, ready, queues, front, hosts, sites, shipments)
