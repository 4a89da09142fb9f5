"""State of the frontier in a checkpoint: its six durable parts, and the log of URLs that are online.

Each part consists of one or more logs and has its own state. Here they begin, are sealed and
are closed together.

A URL gets a ticket number when it goes online, and is struck out when its outcome
is durable. A ticket that comes and goes between two checkpoints never touches the
disk. When most rows of the log are obsolete it is rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fieldmouse.errors import UsageError
from fieldmouse.frontier.hosts.host_table import HostTable, HostTableState
from fieldmouse.frontier.hosts.site_limits import SitesState, SiteTable
from fieldmouse.frontier.queues.sieved_urls import SievedUrlQueue, SievedUrlQueueState
from fieldmouse.frontier.queues.virtualizer import Virtualizer, VirtualizerState
from fieldmouse.frontier.seen.sieve import DiskSieve, SieveState
from fieldmouse.policy.scope import SiteLimits
from fieldmouse.storage.checkpoint import Checkpoint, SealedPart
from fieldmouse.storage.log import Log, SupersededFiles, decode_record, delete_unnamed_files, read_records
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import Request

_encode = msgspec.msgpack.Encoder().encode
_decode_entry = msgspec.msgpack.Decoder(tuple[list[tuple[int, bytes]], list[int]]).decode
_REWRITE_AT = 1 << 20
_PART = 4096  # tickets per record
_LEAP = 1 << 24  # numbers given out after the last checkpoint are unknown: skip past them


class TicketLogState(msgspec.Struct, frozen=True, array_like=True):
    """Number and length of the log, and the number of the next ticket."""

    serial: int = 0
    length: int = 0
    snapshot: int = 0
    next_number: int = 1


class TicketLog:
    """Open tickets by number, each with its encoded link."""

    def __init__(self, directory: Path, state: TicketLogState | None = None):
        self._directory = directory
        self._leftovers = SupersededFiles()
        self._next = state.next_number + _LEAP if state else 1
        state = state or TicketLogState()
        self._serial, self._snapshot = state.serial, state.snapshot
        self.links_by_ticket = read_open_tickets(directory, state)
        self._log = Log(directory / _log_name(state.serial), state.length)
        self._fresh: dict[int, bytes] = {}
        self._gone: list[int] = []

    def roll_back_to_checkpoint(self) -> None:
        """Cut and delete everything written after the checkpoint."""
        delete_unnamed_files(self._directory, "front-*.log", [_log_name(self._serial)])
        self._log.roll_back_to_checkpoint()

    def __len__(self) -> int:
        return len(self.links_by_ticket)

    def add_url_tickets(self, links: Iterable[bytes]) -> list[int]:
        """Give each link a number unlike that of any open ticket, now or at any sealed state."""
        tickets = dict(enumerate(links, self._next))
        self._next += len(tickets)
        self.links_by_ticket.update(tickets)
        self._fresh.update(tickets)
        return list(tickets)

    def close_tickets(self, numbers: Iterable[int]) -> int:
        """Close these tickets; returns how many were open."""
        struck = 0
        for number in numbers:
            if self.links_by_ticket.pop(number, None) is not None:
                struck += 1
                if self._fresh.pop(number, None) is None:
                    self._gone.append(number)
        return struck

    def seal(self) -> tuple[TicketLogState, list[Path]]:
        if self._log.length > _REWRITE_AT + 4 * self._snapshot:
            self._leftovers.add([self._log.path])
            self._log.close()
            self._serial += 1
            self._log = Log(self._directory / _log_name(self._serial))
            self._fresh, self._gone = self.links_by_ticket, []
            self._write_changes()
            self._snapshot = self._log.length
        else:
            self._write_changes()
        self._fresh, self._gone = {}, []
        self._leftovers.seal()
        state = TicketLogState(self._serial, self._log.flush(), self._snapshot, self._next)
        return state, [self._log.path]

    def _write_changes(self) -> None:
        tickets = list(self._fresh.items())
        for start in range(0, len(tickets), _PART):
            self._log.append(_encode((tickets[start : start + _PART], [])))
        for start in range(0, len(self._gone), _PART):
            self._log.append(_encode(([], self._gone[start : start + _PART])))

    def on_checkpoint_committed(self) -> None:
        self._leftovers.on_checkpoint_committed()

    def close(self) -> None:
        self._log.close()


def read_open_tickets(directory: Path, state: TicketLogState) -> dict[int, bytes]:
    """Read the tickets that were open at that state; reads only."""
    live: dict[int, bytes] = {}
    path = directory / _log_name(state.serial)
    for _, record in read_records(path, length=state.length):
        tickets, gone = decode_record(path, _decode_entry, record)
        live.update(tickets)
        for number in gone:
            live.pop(number, None)
    return live


def _log_name(serial: int) -> str:
    return f"front-{serial}.log"


class FrontierState(msgspec.Struct, frozen=True):
    """Names and lengths of all files, and their totals."""

    sieve: SieveState
    ready: SievedUrlQueueState
    queues: VirtualizerState
    front: TicketLogState
    hosts: HostTableState
    done: int = 0
    width: int = 0
    seen: int = 0
    waiting: int = 0
    sites: SitesState | None = None  # None: written before sites were counted
    polls: int = 0  # known URLs that are to be fetched again
    shipments: Any = None  # not None: the crawl exchanged hosts with others, and cannot be resumed


def frontier_state_of(last: Checkpoint) -> FrontierState:
    """Read the frontier's state from a checkpoint."""
    return last.decode_part("frontier", FrontierState)


@dataclass(frozen=True, slots=True)
class FrontierParts:
    """All parts of a frontier that a checkpoint holds."""

    directory: Path
    sieve: DiskSieve[Request]
    ready: SievedUrlQueue
    queues: Virtualizer
    front: TicketLog
    hosts: HostTable
    sites: SiteTable

    def __iter__(
        self,
    ) -> Iterator[DiskSieve[Request] | SievedUrlQueue | Virtualizer | TicketLog | HostTable | SiteTable]:
        return iter((self.sieve, self.ready, self.queues, self.front, self.hosts, self.sites))

    @property
    def waiting_count(self) -> int:
        """Number of URLs that are owed an outcome, polls included."""
        return len(self.ready) + len(self.queues) + len(self.front)

    def seal(self, now: float, **counts: int) -> SealedPart[FrontierState]:
        """Write all files; returns the state with these counts, and the files to sync before it counts."""
        sieve, keys = self.sieve.seal()
        ready, waiting = self.ready.seal()
        queues, offline = self.queues.seal()
        front, online = self.front.seal()
        hosts, known = self.hosts.seal(now)
        sites, counted = self.sites.seal()
        state = FrontierState(sieve, ready, queues, front, hosts, sites=sites, **counts)
        return SealedPart(state, [*keys, *waiting, *offline, *online, *known, *counted])


def open_frontier_parts(
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
        enter = opened.enter_context
        sieve: DiskSieve[Request] = DiskSieve(directory, state.sieve if state else None, run_size=run_size)
        enter(closing(sieve))
        ready = enter(closing(SievedUrlQueue(directory, state.ready if state else None)))
        front = enter(closing(TicketLog(directory, state.front if state else None)))
        hosts = enter(closing(HostTable(directory, state.hosts if state else None, resumed_delay, now, key_seed)))
        queues = enter(closing(Virtualizer(directory, state.queues if state else None, hosts)))
        site_limits = limits or SiteLimits()
        sites = enter(closing(SiteTable(directory, state.sites if state else None, site_limits, hosts, key_seed)))
        if state and state.sites is None:
            sites.count_existing_hosts(host for host, _ in hosts)
        opened.pop_all()
    return FrontierParts(directory, sieve, ready, queues, front, hosts, sites)
