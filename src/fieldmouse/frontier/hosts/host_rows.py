"""Rows of the host log: one for each change of a host; the latest wins.

Times are epoch seconds by a clock that an operator may set. So each row is known with the
moment at which it was true (its own, or the checkpoint's). If the clock shows an earlier time
on reading, the clock was set back, and all waits of that row are moved forward with it: a wait
never lasts longer than the rest of it when it was last seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from fieldmouse.storage.log import Log, records
from fieldmouse.types.host import HostState
from fieldmouse.url import Host

NOT_WRITTEN = (1 << 64) - 1
"""Place of a row that is not written yet."""

_FRAME = 8  # bytes before each record: its size and its checksum
_PART = 1 << 16  # rows copied in one batch
_BLANK = HostState()


class HostRow(msgspec.Struct, frozen=True, array_like=True):
    """State of one host as it is written."""

    host: Host
    state: HostState
    at: float = 0.0  # when this was true; 0: not noted (older crawls)


class HostTableState(msgspec.Struct, frozen=True, array_like=True):
    """Number of the log, and its length at the checkpoint; rows behind it are promises to wait."""

    serial: int = 0
    length: int = 0
    at: float = 0.0  # when it was sealed; 0: not noted (older crawls)


decode_row = msgspec.msgpack.Decoder(HostRow).decode


def host_tag(record: bytes) -> bytes:
    r"""Return the host of an encoded row, its length first, without decoding the rest.

    >>> host_tag(msgspec.msgpack.encode(HostRow(Host("http://example.org"), HostState())))
    b'\xb2http://example.org'
    """
    head = record[1]
    if 0xA0 <= head < 0xC0:
        return record[1 : 2 + (head & 0x1F)]
    if head == 0xD9:
        return record[1 : 3 + record[2]]
    return msgspec.msgpack.encode(decode_row(record).host)


def copy_rows(path: Path, places: NDArray[np.uint64], target: Log) -> NDArray[np.uint64]:
    """Append the rows at these places of a log to another, in their order; returns the new places.

    Bytes are copied without decoding: a million rows take a fraction of a second.
    """
    moved = np.full(places.size, NOT_WRITTEN, np.uint64)
    there = np.flatnonzero(places != np.uint64(NOT_WRITTEN))
    if not there.size:
        return moved
    order = there[np.argsort(places[there])]
    content = np.memmap(path, np.uint8, "r")
    for at in range(0, order.size, _PART):
        part = order[at : at + _PART]
        starts = places[part].astype(np.intp)
        sizes = sum(content[starts + byte].astype(np.intp) << (8 * byte) for byte in range(4)) + _FRAME
        ends = starts + sizes
        first, last = int(starts[0]), int(ends[-1])
        edges = np.zeros(last - first + 1, np.int8)
        edges[starts - first] += 1
        edges[ends - first] -= 1
        kept = np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)
        offset = target.append_framed(content[first:last][kept].tobytes())
        moved[part] = (offset + np.cumsum(sizes) - sizes).astype(np.uint64)
    return moved


TAG_OFFSET = _FRAME + 1
"""Offset of a tag from the place of its row."""


def rewrite_rows(
    source: Log, places: NDArray[np.uint64], target: Log, seconds: float, now: float
) -> NDArray[np.uint64]:
    """Like `copy_rows`, when the clock was set back by `seconds`: every wait is rewritten."""
    moved = places.copy()
    for number, place in enumerate(places.tolist()):
        if place != NOT_WRITTEN:
            row = decode_row(source.read(place))
            state = with_earlier_waits(row.state, seconds)
            moved[number] = target.append(msgspec.msgpack.encode(HostRow(row.host, state, now)))
    return moved


def host_logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("hosts-*.log"), key=serial_of)


def promised_rows(directory: Path, state: HostTableState | None) -> Iterator[bytes]:
    """Yield the records behind the state's length, in that log and in later ones: promises to wait."""
    serial, length = (state.serial, state.length) if state is not None else (0, 0)
    for log in host_logs(directory):
        if serial_of(log) >= serial:
            for _, record in records(log, start=length if serial_of(log) == serial else 0):
                yield record


def read_hosts(
    directory: Path, state: HostTableState | None, now: float = 0.0, only: Host | None = None
) -> dict[Host, HostState]:
    """Read every host (or `only` one) at that state, with the waits promised since; reads only.

    With `now`, waits are moved forward if the clock was set back; without, they are as written.
    """
    states: dict[Host, HostState] = {}
    wanted = None if only is None else msgspec.msgpack.encode(only)
    if state is not None:
        for _, record in records(directory / log_name(state.serial), length=state.length):
            if wanted is None or wanted == host_tag(record):
                row = decode_row(record)
                states[row.host] = with_earlier_waits(row.state, clock_setback(state.at, now))
    for record in promised_rows(directory, state):
        if wanted is None or wanted == host_tag(record):
            row = decode_row(record)
            told = with_earlier_waits(row.state, clock_setback(row.at, now))
            states[row.host] = with_longer_waits(states.get(row.host, _BLANK), told)
    return states


def with_longer_waits(known: HostState, told: HostState) -> HostState:
    """Return `known` with the waits that were promised since, and no other change."""
    return msgspec.structs.replace(
        known,
        ready_at=max(known.ready_at, told.ready_at),
        address_ready_at=max(known.address_ready_at, told.address_ready_at),
        crawl_delay=told.crawl_delay,
        failures=told.failures,
        asked=told.asked,
        asked_beyond=told.asked_beyond,
    )


def with_earliest_visit(state: HostState, until: float) -> HostState:
    """Return the state with no request to the host or its address before that time."""
    if state.ready_at >= until and state.address_ready_at >= until:
        return state
    return msgspec.structs.replace(
        state, ready_at=max(state.ready_at, until), address_ready_at=max(state.address_ready_at, until)
    )


def clock_setback(at: float, now: float) -> float:
    """Seconds by which the clock was set back since it showed `at`; 0 if it was not, or `at` is unknown.

    A wait until `t` that is moved forward by it lasts, from now on, the smaller of its rest
    at that time (`t - at`) and its rest by the clock (`t - now`).

    >>> clock_setback(at=1000.0, now=400.0)
    600.0
    >>> clock_setback(at=1000.0, now=1001.0), clock_setback(at=0.0, now=400.0)
    (0.0, 0.0)
    """
    return max(0.0, at - now) if now else 0.0


def with_earlier_waits(state: HostState, seconds: float) -> HostState:
    if not seconds:
        return state
    return msgspec.structs.replace(
        state,
        ready_at=max(0.0, state.ready_at - seconds),
        address_ready_at=max(0.0, state.address_ready_at - seconds),
    )


def log_name(serial: int) -> str:
    return f"hosts-{serial}.log"


def serial_of(path: Path) -> int:
    return int(path.stem.partition("-")[2])
