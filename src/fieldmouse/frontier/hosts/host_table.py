"""Table of host states on disk, with the rows of its log.

A crawl may know millions of hosts and visits few at a time. So each host has a small
number, and memory holds only the place of its newest row in the log and the rows of
recently used hosts: some 40 bytes a host. A request for any other host reads its row.

Rows of changed hosts are written at each checkpoint; the latest wins. But a server
that said "come back in an hour" must be obeyed even if the crawler is killed a second
later, so a row that promises a longer wait than usual is passed to the operating
system at once. After a kill, only the waits of rows behind the last checkpoint
count: pages counted there will be fetched again.

Times are epoch seconds by a clock that an operator may set. So each row is known with the
moment at which it was true (its own, or the checkpoint's). If the clock shows an earlier time
on reading, the clock was set back, and all waits of that row are moved forward with it: a wait
never lasts longer than the rest of it when it was last seen.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from fieldmouse.frontier.seen.key_table import KeyNumbering
from fieldmouse.storage.log import Log, SupersededFiles, decode_record, read_records
from fieldmouse.types.host_state import HostState
from fieldmouse.url import Host

#: Place of a row that is not written yet.
NOT_WRITTEN = (1 << 64) - 1

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


def encoded_host_name(record: bytes) -> bytes:
    r"""Return the host of an encoded row, its length first, without decoding the rest.

    >>> encoded_host_name(msgspec.msgpack.encode(HostRow(Host("http://example.org"), HostState())))
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


#: Offset of a tag from the place of its row.
TAG_OFFSET = _FRAME + 1


def rewrite_rows(
    source: Log, places: NDArray[np.uint64], target: Log, seconds: float, now: float
) -> NDArray[np.uint64]:
    """Like `copy_rows`, when the clock was set back by `seconds`: every wait is rewritten."""
    moved = places.copy()
    for number, place in enumerate(places.tolist()):
        if place != NOT_WRITTEN:
            row = decode_row(source.read_record(place))
            state = with_earlier_waits(row.state, seconds)
            moved[number] = target.append(msgspec.msgpack.encode(HostRow(row.host, state, now)))
    return moved


def host_logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("hosts-*.log"), key=log_serial)


def promised_rows(directory: Path, state: HostTableState | None) -> Iterator[bytes]:
    """Yield the records behind the state's length, in that log and in later ones: promises to wait."""
    serial, length = (state.serial, state.length) if state is not None else (0, 0)
    for log in host_logs(directory):
        if log_serial(log) >= serial:
            for _, record in read_records(log, start=length if log_serial(log) == serial else 0):
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
        for _, record in read_records(directory / host_log_name(state.serial), length=state.length):
            if wanted is None or wanted == encoded_host_name(record):
                row = decode_row(record)
                states[row.host] = with_earlier_waits(row.state, clock_setback(state.at, now))
    for record in promised_rows(directory, state):
        if wanted is None or wanted == encoded_host_name(record):
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
        state, ready_at=max(0.0, state.ready_at - seconds), address_ready_at=max(0.0, state.address_ready_at - seconds)
    )


def host_log_name(serial: int) -> str:
    return f"hosts-{serial}.log"


def log_serial(path: Path) -> int:
    return int(path.stem.partition("-")[2])


_encode = msgspec.msgpack.Encoder().encode
_SLACK = 1.0  # seconds beyond the ordinary wait that are not worth a separate write
_REWRITE_AT = 1 << 20
_IN_MEMORY = 1 << 13  # rows


class HostTable:
    """`HostState` by host, and a number for each host, starting at 0."""

    def __init__(
        self,
        directory: Path,
        state: HostTableState | None,
        ordinary: Callable[[HostState], float],
        now: float = 0.0,
        seed: int = 0,
    ) -> None:
        """`ordinary` gives the delay in seconds after any visit to a host; `now` is the time by the clock.

        `seed` keys the hashes of names; it need not be the same each time.
        """
        self._directory, self._ordinary, self._now, self._seed = directory, ordinary, now, seed
        self._numbering = KeyNumbering()
        self._places = array("Q")  # of the newest row of each host; `NOT_WRITTEN` if only in memory
        self._rows: dict[int, tuple[Host, HostState]] = {}  # by number: changed rows, and some others
        self._recent: dict[Host, int] = {}  # numbers of the changed hosts
        self._changed: set[int] = set()
        self._begun = False
        # clock lag of rows that an earlier process wrote
        self._lag = clock_setback(state.at, now) if state else 0.0
        self._inherited = 0  # rows before this place were written by an earlier process
        self._quiet_from = 0.0  # when that process surely had stopped visiting; 0: there was none
        self.unknown = HostState()
        self._leftovers = SupersededFiles()
        old = host_logs(directory)
        self.resumed = bool(old)
        self._serial = log_serial(old[-1]) + 1 if old else 0
        self._log = Log(directory / host_log_name(self._serial))
        if state is not None:
            self._log = Log(directory / host_log_name(state.serial), state.length)
            self._index_newest_rows(state)
        for record in promised_rows(directory, state):
            self._apply_wait_logged_after_checkpoint(record)
        # Always a new log, which is the compaction; the old one stays complete until a checkpoint names the
        # new.
        self._leftovers.add(old)

    def _index_newest_rows(self, state: HostTableState) -> None:
        """Find the newest row of each host."""
        if not state.length:
            return
        key_of, seed, find, places = xxh3_64_intdigest, self._seed, self._numbering.find_number, self._places
        with self._log.path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            for offset, record in read_records(self._log.path, length=state.length):
                tag = encoded_host_name(record)
                key = key_of(tag, seed)
                number = find(key)
                if number >= 0 and not _row_has_name(content, places[number], tag):
                    number = next(
                        (n for n in self._numbering.numbers_of_key(key) if _row_has_name(content, places[n], tag)), -1
                    )
                if number < 0:
                    self._numbering.add_number(key)
                    places.append(offset)
                else:
                    places[number] = offset
        self._inherited = state.length

    def _apply_wait_logged_after_checkpoint(self, record: bytes) -> None:
        """Apply a promise to wait from behind the checkpoint."""
        row = decode_row(record)
        number = self.number_of(row.host)
        if number >= 0 and number not in self._changed and self._log.read_record(self._places[number]) == record:
            return  # a copy of a known row, from a log that no checkpoint named
        known = self._get_or_load_row(number)[1] if number >= 0 else _BLANK
        state = with_longer_waits(known, with_earlier_waits(row.state, clock_setback(row.at, self._now)))
        if number < 0 or state != known:
            self._set_state(row.host, number, state)

    def roll_back_to_checkpoint(self) -> None:
        """Start changing files, once everything else is open. The first write calls it implicitly."""
        if self._begun:
            return
        self._begun = True
        if self._log.path.name == host_log_name(self._serial):
            self._snapshot = 0  # no checkpoint has been made yet
        else:
            self._compact()
        self._write_changed_rows(self._now)

    def _compact(self) -> None:
        """Continue in a new log that has only the newest rows."""
        source, target = self._log, Log(self._directory / host_log_name(self._serial))
        target.roll_back_to_checkpoint()
        places = np.array(self._places, np.uint64)
        if self._lag:
            moved = rewrite_rows(source, places, target, self._lag, self._now)
        else:
            moved = copy_rows(source.path, places, target)
        self._snapshot = target.flush()
        ours = moved[(places >= self._inherited) & (places != np.uint64(NOT_WRITTEN))]
        self._inherited = int(ours.min()) if ours.size else self._snapshot
        self._places = array("Q", moved.tobytes())
        self._lag = 0.0
        source.close()
        self._log = target

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, host: Host) -> bool:
        return self.number_of(host) >= 0

    def __iter__(self) -> Iterator[tuple[Host, HostState]]:
        return ((self._rows.get(number) or self._read_row(number)) for number in range(len(self._places)))

    def number_of(self, host: Host) -> int:
        """Number of a host; -1 if unknown."""
        number = self._recent.get(host)
        if number is not None:
            return number
        tag = _encode(host)
        key = xxh3_64_intdigest(tag, self._seed)
        number = self._numbering.find_number(key)
        if number < 0 or self._has_name(number, host, tag):
            return number
        return next((n for n in self._numbering.numbers_of_key(key) if self._has_name(n, host, tag)), -1)

    def _has_name(self, number: int, host: Host, tag: bytes) -> bool:
        row = self._rows.get(number)
        if row is not None:
            return row[0] == host
        return self._log.read_unchecked(self._places[number] + TAG_OFFSET, len(tag)) == tag

    def host_at(self, number: int) -> Host:
        return self._get_or_load_row(number)[0]

    def get_or_add_number(self, host: Host) -> int:
        """Number of a host, which is added if unknown."""
        number = self._recent.get(host)
        if number is None:
            number = self.number_of(host)
            if number < 0:
                return self._set_state(host, number, self.unknown)
            self._get_or_load_row(number)
        return number

    def get(self, host: Host) -> HostState:
        number = self._recent.get(host)
        if number is not None:
            return self._rows[number][1]
        number = self.number_of(host)
        return self._get_or_load_row(number)[1] if number >= 0 else self.unknown

    def get_or_add(self, host: Host) -> HostState:
        """State of a host, which is added if unknown."""
        number = self.get_or_add_number(host)
        return self._rows[number][1]

    def _get_or_load_row(self, number: int) -> tuple[Host, HostState]:
        row = self._rows.get(number)
        if row is None:
            row = self._read_row(number)
            self._cache_row(number, row)
        return row

    def _read_row(self, number: int) -> tuple[Host, HostState]:
        place = self._places[number]
        row = decode_record(self._log.path, decode_row, self._log.read_record(place))
        if place >= self._inherited:
            return row.host, row.state
        return row.host, self.state_with_restarted_delay(with_earlier_waits(row.state, self._lag))

    def _cache_row(self, number: int, row: tuple[Host, HostState]) -> None:
        if len(self._rows) >= _IN_MEMORY + len(self._changed):
            self._rows = {changed: self._rows[changed] for changed in self._changed}
            self._recent = {host: changed for changed, (host, _) in self._rows.items()}
        self._rows[number] = row
        self._recent[row[0]] = number

    def _set_state(self, host: Host, number: int, state: HostState) -> int:
        """Change the state of a host; `number` -1: a new host."""
        if number < 0:
            number = self._numbering.add_number(xxh3_64_intdigest(_encode(host), self._seed))
            self._places.append(NOT_WRITTEN)
        if self._begun and len(self._changed) >= _IN_MEMORY:
            self._write_changed_rows(self._now)
        self._cache_row(number, (host, state))
        self._changed.add(number)
        return number

    def put(self, host: Host, state: HostState, now: float) -> None:
        self._now = now
        number = self._recent.get(host, -1)
        if number >= 0:
            before = self._rows[number][1]
            self._rows[number] = host, state
            self._changed.add(number)
        else:
            number = self.number_of(host)
            before = self._get_or_load_row(number)[1] if number >= 0 else _BLANK
            number = self._set_state(host, number, state)
        wait = max(state.ready_at, state.address_ready_at) - now
        if (
            before.failures != state.failures
            or before.crawl_delay != state.crawl_delay
            or wait > self._ordinary(state) + _SLACK
        ):
            self.roll_back_to_checkpoint()
            self._places[number] = self._log.append(_encode(HostRow(host, state, now)))
            self._changed.discard(number)
            self._log.flush()

    def restart_all_delays(self, now: float) -> float:
        """Give every host its full delay again, because visits after the last checkpoint are unknown.

        Returns the time from which an unknown host may be visited. Rows on disk are not changed: from
        now on they are read with that delay.
        """
        self._quiet_from = now
        self._inherited = self._log.length
        for number, (host, state) in self._rows.items():
            self._rows[number] = host, self.state_with_restarted_delay(state)
        until = now + self._ordinary(_BLANK)
        self.unknown = HostState(ready_at=until, address_ready_at=until)
        return until

    def state_with_restarted_delay(self, state: HostState) -> HostState:
        """Return the state with its full delay since this process began: earlier visits are unknown."""
        if not self._quiet_from:
            return state
        return with_earliest_visit(state, self._quiet_from + self._ordinary(state))

    def _write_changed_rows(self, now: float) -> None:
        """Write the changed rows."""
        for number in sorted(self._changed):
            host, state = self._rows[number]
            self._places[number] = self._log.append(_encode(HostRow(host, state, now)))
        self._changed.clear()

    def seal(self, now: float = 0.0) -> tuple[HostTableState, list[Path]]:
        self._now = now or self._now
        self.roll_back_to_checkpoint()
        self._write_changed_rows(now)
        self._log.flush()
        if self._log.length > _REWRITE_AT + 4 * self._snapshot:
            self._leftovers.add([self._log.path])
            self._serial += 1
            self._compact()
        self._leftovers.seal()
        return HostTableState(self._serial, self._log.flush(), now), [self._log.path]

    def on_checkpoint_committed(self) -> None:
        self._leftovers.on_checkpoint_committed()

    def close(self) -> None:
        self._log.close()


def _row_has_name(content: mmap.mmap, place: int, tag: bytes) -> bool:
    return content[place + TAG_OFFSET : place + TAG_OFFSET + len(tag)] == tag
