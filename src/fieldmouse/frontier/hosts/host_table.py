"""Table of host states on disk, with promises to wait that survive a kill.

A crawl may know millions of hosts and visits few at a time. So each host has a small
number, and memory holds only the place of its newest row in the log and the rows of
recently used hosts: some 40 bytes a host. A request for any other host reads its row.

Rows of changed hosts are written at each checkpoint; the latest wins. But a server
that said "come back in an hour" must be obeyed even if the crawler is killed a second
later, so a row that promises a longer wait than usual is passed to the operating
system at once. After a kill, only the waits of rows behind the last checkpoint
count: pages counted there will be fetched again.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from fieldmouse.frontier.hosts import host_rows
from fieldmouse.frontier.hosts.host_rows import (
    NOT_WRITTEN,
    TAG_OFFSET,
    HostRow,
    HostTableState,
    decode_row,
    with_earlier_waits,
)
from fieldmouse.frontier.hosts.numbering import KeyNumbering
from fieldmouse.storage.log import Log, decode_record, records
from fieldmouse.storage.superseded_files import SupersededFiles
from fieldmouse.types.host import HostState
from fieldmouse.url import Host

_encode = msgspec.msgpack.Encoder().encode
_SLACK = 1.0  # seconds beyond the ordinary wait that are not worth a separate write
_REWRITE_AT = 1 << 20
_IN_MEMORY = 1 << 13  # rows
_BLANK = HostState()


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
        self._lag = host_rows.clock_setback(state.at, now) if state else 0.0
        self._inherited = 0  # rows before this place were written by an earlier process
        self._quiet_from = 0.0  # when that process surely had stopped visiting; 0: there was none
        self.unknown = HostState()
        self._leftovers = SupersededFiles()
        old = host_rows.host_logs(directory)
        self.resumed = bool(old)
        self._serial = host_rows.serial_of(old[-1]) + 1 if old else 0
        self._log = Log(directory / host_rows.log_name(self._serial))
        if state is not None:
            self._log = Log(directory / host_rows.log_name(state.serial), state.length)
            self._read_log(state)
        for record in host_rows.promised_rows(directory, state):
            self._apply_promise(record)
        # Always a new log, which is the compaction; the old one stays complete until a checkpoint names the
        # new.
        self._leftovers.add(old)

    def _read_log(self, state: HostTableState) -> None:
        """Find the newest row of each host."""
        if not state.length:
            return
        key_of, seed, find, places = xxh3_64_intdigest, self._seed, self._numbering.find, self._places
        with self._log.path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            for offset, record in records(self._log.path, length=state.length):
                tag = host_rows.host_tag(record)
                key = key_of(tag, seed)
                number = find(key)
                if number >= 0 and not _tagged(content, places[number], tag):
                    number = next(
                        (n for n in self._numbering.find_all(key) if _tagged(content, places[n], tag)), -1
                    )
                if number < 0:
                    self._numbering.add(key)
                    places.append(offset)
                else:
                    places[number] = offset
        self._inherited = state.length

    def _apply_promise(self, record: bytes) -> None:
        """Apply a promise to wait from behind the checkpoint."""
        row = decode_row(record)
        number = self.number_of(row.host)
        if number >= 0 and number not in self._changed and self._log.read(self._places[number]) == record:
            return  # a copy of a known row, from a log that no checkpoint named
        known = self._row(number)[1] if number >= 0 else _BLANK
        state = host_rows.with_longer_waits(
            known, with_earlier_waits(row.state, host_rows.clock_setback(row.at, self._now))
        )
        if number < 0 or state != known:
            self._set(row.host, number, state)

    def begin(self) -> None:
        """Start changing files, once everything else is open. The first write calls it implicitly."""
        if self._begun:
            return
        self._begun = True
        if self._log.path.name == host_rows.log_name(self._serial):
            self._snapshot = 0  # no checkpoint has been made yet
        else:
            self._compact()
        self._spill(self._now)

    def _compact(self) -> None:
        """Continue in a new log that has only the newest rows."""
        source, target = self._log, Log(self._directory / host_rows.log_name(self._serial))
        target.begin()
        places = np.array(self._places, np.uint64)
        if self._lag:
            moved = host_rows.rewrite_rows(source, places, target, self._lag, self._now)
        else:
            moved = host_rows.copy_rows(source.path, places, target)
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
        return ((self._rows.get(number) or self._read(number)) for number in range(len(self._places)))

    def number_of(self, host: Host) -> int:
        """Number of a host; -1 if unknown."""
        number = self._recent.get(host)
        if number is not None:
            return number
        tag = _encode(host)
        key = xxh3_64_intdigest(tag, self._seed)
        number = self._numbering.find(key)
        if number < 0 or self._is(number, host, tag):
            return number
        return next((n for n in self._numbering.find_all(key) if self._is(n, host, tag)), -1)

    def _is(self, number: int, host: Host, tag: bytes) -> bool:
        row = self._rows.get(number)
        if row is not None:
            return row[0] == host
        return self._log.read_unchecked(self._places[number] + TAG_OFFSET, len(tag)) == tag

    def host_at(self, number: int) -> Host:
        return self._row(number)[0]

    def get_or_add_number(self, host: Host) -> int:
        """Number of a host, which is added if unknown."""
        number = self._recent.get(host)
        if number is None:
            number = self.number_of(host)
            if number < 0:
                return self._set(host, number, self.unknown)
            self._row(number)
        return number

    def get(self, host: Host) -> HostState:
        number = self._recent.get(host)
        if number is not None:
            return self._rows[number][1]
        number = self.number_of(host)
        return self._row(number)[1] if number >= 0 else self.unknown

    def get_or_add(self, host: Host) -> HostState:
        """State of a host, which is added if unknown."""
        number = self.get_or_add_number(host)
        return self._rows[number][1]

    def _row(self, number: int) -> tuple[Host, HostState]:
        row = self._rows.get(number)
        if row is None:
            row = self._read(number)
            self._keep(number, row)
        return row

    def _read(self, number: int) -> tuple[Host, HostState]:
        place = self._places[number]
        row = decode_record(self._log.path, decode_row, self._log.read(place))
        if place >= self._inherited:
            return row.host, row.state
        return row.host, self.with_full_delay(with_earlier_waits(row.state, self._lag))

    def _keep(self, number: int, row: tuple[Host, HostState]) -> None:
        if len(self._rows) >= _IN_MEMORY + len(self._changed):
            self._rows = {changed: self._rows[changed] for changed in self._changed}
            self._recent = {host: changed for changed, (host, _) in self._rows.items()}
        self._rows[number] = row
        self._recent[row[0]] = number

    def _set(self, host: Host, number: int, state: HostState) -> int:
        """Change the state of a host; `number` -1: a new host."""
        if number < 0:
            number = self._numbering.add(xxh3_64_intdigest(_encode(host), self._seed))
            self._places.append(NOT_WRITTEN)
        if self._begun and len(self._changed) >= _IN_MEMORY:
            self._spill(self._now)
        self._keep(number, (host, state))
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
            before = self._row(number)[1] if number >= 0 else _BLANK
            number = self._set(host, number, state)
        wait = max(state.ready_at, state.address_ready_at) - now
        if (
            before.failures != state.failures
            or before.crawl_delay != state.crawl_delay
            or wait > self._ordinary(state) + _SLACK
        ):
            self.begin()
            self._places[number] = self._log.append(_encode(HostRow(host, state, now)))
            self._changed.discard(number)
            self._log.flush()

    def restart_delays(self, now: float) -> float:
        """Give every host its full delay again, because visits after the last checkpoint are unknown.

        Returns the time from which an unknown host may be visited. Rows on disk are not changed: from
        now on they are read with that delay.
        """
        self._quiet_from = now
        self._inherited = self._log.length
        for number, (host, state) in self._rows.items():
            self._rows[number] = host, self.with_full_delay(state)
        until = now + self._ordinary(_BLANK)
        self.unknown = HostState(ready_at=until, address_ready_at=until)
        return until

    def with_full_delay(self, state: HostState) -> HostState:
        """Return the state with its full delay since this process began: earlier visits are unknown."""
        if not self._quiet_from:
            return state
        return host_rows.with_earliest_visit(state, self._quiet_from + self._ordinary(state))

    def _spill(self, now: float) -> None:
        """Write the changed rows."""
        for number in sorted(self._changed):
            host, state = self._rows[number]
            self._places[number] = self._log.append(_encode(HostRow(host, state, now)))
        self._changed.clear()

    def seal(self, now: float = 0.0) -> tuple[HostTableState, list[Path]]:
        self._now = now or self._now
        self.begin()
        self._spill(now)
        self._log.flush()
        if self._log.length > _REWRITE_AT + 4 * self._snapshot:
            self._leftovers.add([self._log.path])
            self._serial += 1
            self._compact()
        self._leftovers.seal()
        return HostTableState(self._serial, self._log.flush(), now), [self._log.path]

    def committed(self) -> None:
        self._leftovers.committed()

    def close(self) -> None:
        self._log.close()


def _tagged(content: mmap.mmap, place: int, tag: bytes) -> bool:
    return content[place + TAG_OFFSET : place + TAG_OFFSET + len(tag)] == tag
