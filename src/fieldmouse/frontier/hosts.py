"""What is remembered of every host, and how a promise to wait survives a kill.

Rows of changed hosts are written at each checkpoint, latest wins. But a server
that said "come back in an hour" must be believed even if we are killed a second
later; so a row that promises a longer wait than usual is handed to the operating
system at once. After a kill the rows behind the last checkpoint are believed as
far as waiting goes, and no further: pages counted there will be fetched again.

Times are epoch seconds by a clock that its keeper may set. So each row is known with
the moment it was true (its own, or the checkpoint's), and if the clock shows an earlier
time on reading, the clock was set back and all waits of that row come forward with it: a wait
never lasts longer than was left of it when it was last seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from fieldmouse.crawldir import Log, records
from fieldmouse.frontier.leftovers import Leftovers
from fieldmouse.records import HostState
from fieldmouse.url import Host

_encode = msgspec.msgpack.Encoder().encode
_SLACK = 1.0  # seconds beyond the ordinary wait that are not worth a write of their own
_REWRITE_AT = 1 << 20
_BLANK = HostState()


class HostRow(msgspec.Struct, frozen=True, array_like=True):
    """One host as it is written."""

    host: Host
    state: HostState
    at: float = 0.0  # when this was true; 0 if it was not noted (older crawls)


_decode = msgspec.msgpack.Decoder(HostRow).decode


class HostsState(msgspec.Struct, frozen=True, array_like=True):
    """Which log, and its length at the checkpoint; what follows is read too, but differently."""

    serial: int = 0
    length: int = 0
    at: float = 0.0  # when it was sealed; 0 if it was not noted (older crawls)


class HostTable:
    """`HostState` by host."""

    def __init__(
        self,
        directory: Path,
        state: HostsState | None,
        ordinary: Callable[[HostState], float],
        now: float = 0.0,
    ) -> None:
        """`ordinary` is the delay in seconds that a host gets after any visit; `now` is by the clock."""
        self._directory = directory
        self._ordinary = ordinary
        self._leftovers = Leftovers()
        self._states = read_hosts(directory, state, now)
        self._changed: set[Host] = set()
        self.unknown = HostState()
        old = sorted(directory.glob("hosts-*.log"), key=_serial_of)
        self.resumed = bool(old)
        self._serial = _serial_of(old[-1]) + 1 if old else 0
        # Always a new log: it is the compaction, and the old one stays whole until a checkpoint names this.
        self._leftovers.add(old)
        self._log = Log(self._directory / _name(self._serial))
        self._opened_at = now
        self._begun = False

    def begin(self) -> None:
        """Everything else has opened: from here on files change. Called by itself before the first write."""
        if not self._begun:
            self._begun = True
            self._write_snapshot(self._opened_at)

    def _write_snapshot(self, now: float) -> None:
        for host, state in self._states.items():
            self._log.append(_encode(HostRow(host, state, now)))
        self._snapshot = self._log.flush()

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, host: Host) -> bool:
        return host in self._states

    def __iter__(self) -> Iterator[tuple[Host, HostState]]:
        return iter(self._states.items())

    def get(self, host: Host) -> HostState:
        return self._states.get(host, self.unknown)

    def meet(self, host: Host) -> HostState:
        """What is known of a host, which counts as known from now on."""
        state = self._states.get(host)
        if state is None:
            state = self._states[host] = self.unknown
            self._changed.add(host)
        return state

    def put(self, host: Host, state: HostState, now: float) -> None:
        before = self._states.get(host, _BLANK)
        self._states[host] = state
        self._changed.add(host)
        wait = max(state.ready_at, state.address_ready_at) - now
        if (
            before.failures != state.failures
            or before.crawl_delay != state.crawl_delay
            or wait > self._ordinary(state) + _SLACK
        ):
            self.begin()
            self._log.append(_encode(HostRow(host, state, now)))
            self._log.flush()

    def quieten(self, now: float) -> float:
        """Give every host its full delay again: visits after the last checkpoint are not known.

        Returns when a host we know nothing of may be asked.
        """
        for host, state in self._states.items():
            until = now + self._ordinary(state)
            if state.ready_at < until or state.address_ready_at < until:
                self._states[host] = msgspec.structs.replace(
                    state,
                    ready_at=max(state.ready_at, until),
                    address_ready_at=max(state.address_ready_at, until),
                )
        until = now + self._ordinary(_BLANK)
        self.unknown = HostState(ready_at=until, address_ready_at=until)
        return until

    def seal(self, now: float = 0.0) -> tuple[HostsState, list[Path]]:
        self.begin()
        if self._log.length > _REWRITE_AT + 4 * self._snapshot:
            self._leftovers.add([self._log.path])
            self._log.close()
            self._serial += 1
            self._log = Log(self._directory / _name(self._serial))
            self._write_snapshot(now)
        else:
            for host in self._changed:
                self._log.append(_encode(HostRow(host, self._states[host], now)))
        self._changed.clear()
        self._leftovers.seal()
        return HostsState(self._serial, self._log.flush(), now), [self._log.path]

    def committed(self) -> None:
        self._leftovers.committed()

    def close(self) -> None:
        self._log.close()


def read_hosts(directory: Path, state: HostsState | None, now: float = 0.0) -> dict[Host, HostState]:
    """Every host as it stood at that state, with the waits promised since; reads only.

    With `now`, waits come forward if the clock was set back; without, they are as they were written.
    """
    states: dict[Host, HostState] = {}
    serial = length = 0
    if state is not None:
        serial, length = state.serial, state.length
        for _, record in records(directory / _name(serial), length=length):
            row = _decode(record)
            states[row.host] = brought_forward(row.state, lag(state.at, now))
    logs = sorted(directory.glob("hosts-*.log"), key=_serial_of)
    for log in [log for log in logs if _serial_of(log) >= serial]:
        for _, record in records(log, start=length if _serial_of(log) == serial else 0):
            row = _decode(record)
            told = brought_forward(row.state, lag(row.at, now))
            known = states.get(row.host, _BLANK)
            states[row.host] = msgspec.structs.replace(
                known,
                ready_at=max(known.ready_at, told.ready_at),
                address_ready_at=max(known.address_ready_at, told.address_ready_at),
                crawl_delay=told.crawl_delay,
                failures=told.failures,
            )
    return states


def lag(at: float, now: float) -> float:
    """Seconds by which the clock was set back since it showed `at`; 0 if it was not, or nobody knows.

    A wait until `t` that is brought forward by it lasts, from now on, the smaller of what was left of it
    at that time (`t - at`) and what is left of it by the clock (`t - now`).

    >>> lag(at=1000.0, now=400.0), lag(at=1000.0, now=1001.0), lag(at=0.0, now=400.0)
    (600.0, 0.0, 0.0)
    """
    return max(0.0, at - now) if now else 0.0


def brought_forward(state: HostState, seconds: float) -> HostState:
    if not seconds:
        return state
    return msgspec.structs.replace(
        state,
        ready_at=max(0.0, state.ready_at - seconds),
        address_ready_at=max(0.0, state.address_ready_at - seconds),
    )


def _name(serial: int) -> str:
    return f"hosts-{serial}.log"


def _serial_of(path: Path) -> int:
    return int(path.stem.partition("-")[2])
