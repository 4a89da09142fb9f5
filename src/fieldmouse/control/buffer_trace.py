"""Trace of pages at the buffer, measured performance, and conversion to the input of a model fit.

One row per page, written when its fate is known, and one row per change of the number of active
fetch workers. The newest rows stay in memory; all rows go to `pages.trace`. Nothing depends
on this file: a torn tail is cut.

The gauge gets every change of level or rule and the fate of every page. It keeps
running totals; the difference of two totals is exact for the time between them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from fieldmouse.backpressure_state import BackpressureState
from fieldmouse.clock import Clock
from fieldmouse.storage.log import BestEffortLog, read_records

if TYPE_CHECKING:
    from fieldmouse.queueing.model.model import CostWeights, Measures


class BufferTotals(msgspec.Struct, frozen=True):
    """Sums since a crawl began; the difference of two describes the time between them."""

    seconds: float = 0.0
    idle: float = 0.0  # seconds in which the indexer had nothing to do
    robot_seconds: float = 0.0  # of active fetch workers: those allowed, or more while some still finish
    page_seconds: float = 0.0  # of pages in the buffer and in service
    fetch_seconds: float = 0.0  # of fetch workers on a host visit, without those that wait for room
    arrived: int = 0
    dropped: int = 0
    obsolete: int = 0
    served: int = 0
    served_seconds: float = 0.0  # from arrival to answer, of pages served

    def since(self, before: BufferTotals) -> BufferTotals:
        return BufferTotals(*(getattr(self, name) - getattr(before, name) for name in BufferTotals.__struct_fields__))

    def plus(self, later: BufferTotals) -> BufferTotals:
        return BufferTotals.sum((self, later))

    @classmethod
    def sum(cls, parts: Iterable[BufferTotals]) -> BufferTotals:
        return cls(*map(sum, zip(*map(msgspec.structs.astuple, parts), strict=True)))


class BufferMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Performance of a buffer, predicted or measured; shares are of pages that arrived."""

    rate: float  # pages per second
    loss: float
    obsolete: float
    starvation: float  # share of time
    robots: float  # active, on average
    level: float
    response: float  # seconds from arrival to answer

    @classmethod
    def predicted(cls, found: Measures) -> BufferMetrics:
        return cls(
            rate=found.rate,
            loss=found.loss,
            obsolete=found.obs,
            starvation=found.star,
            robots=found.robots,
            level=found.mean_level,
            response=found.sojourn_served,
        )

    @classmethod
    def measured(cls, totals: BufferTotals) -> BufferMetrics:
        time, pages = totals.seconds or 1.0, totals.arrived or 1
        return cls(
            rate=totals.arrived / time,
            loss=totals.dropped / pages,
            obsolete=totals.obsolete / pages,
            starvation=totals.idle / time,
            robots=totals.robot_seconds / time,
            level=totals.page_seconds / time,
            response=totals.served_seconds / (totals.served or 1),
        )

    def cost(self, weights: CostWeights) -> float:
        return weights.total(
            dropped=self.rate * self.loss,
            obsolete=self.rate * self.obsolete,
            sojourn=self.response,
            robots=self.robots,
            star=self.starvation,
        )


class BufferTotalsCounter:
    """Running totals. Times passed to it never decrease."""

    def __init__(self, now: float):
        self._at = now
        self.level = 0
        self.robots = 0
        self.visits = 0
        self.seconds = self.idle = self.robot_seconds = self.page_seconds = self.served_seconds = 0.0
        self.fetch_seconds = 0.0
        self.arrived = self.dropped = self.obsolete = self.served = 0

    def set_level(self, now: float, level: int, robots: int, visits: int) -> None:
        """Set the level, the number of active fetch workers, and that of workers on a visit, from now on."""
        self._advance_to(now)
        self.level, self.robots, self.visits = level, robots, visits

    def _advance_to(self, now: float) -> None:
        time = now - self._at
        self._at = now
        self.seconds += time
        self.robot_seconds += time * self.robots
        self.fetch_seconds += time * self.visits
        if self.level:
            self.page_seconds += time * self.level
        else:
            self.idle += time

    def totals(self, now: float) -> BufferTotals:
        self._advance_to(now)
        return BufferTotals(*(getattr(self, name) for name in BufferTotals.__struct_fields__))


_ROW = Struct("<ddfIHHB")
ROW = np.dtype(
    [
        ("at", "<f8"),  # arrival at the buffer, epoch seconds; or the time of a switch or start
        ("stay", "<f8"),  # seconds until it was acknowledged
        ("wait", "<f4"),  # seconds until a shard took the page, or until it was too old
        ("level", "<u4"),  # pages in buffer and service at its arrival
        ("robots", "<u2"),  # active at its arrival; after a switch, from then on
        ("allowed", "<u2"),  # by the rule; fewer while fetch workers still finish
        ("fate", "u1"),
    ]
)
assert _ROW.size == ROW.itemsize

Rows = NDArray[np.void]

_BLOCK = 256  # rows per block
_MOST = 0xFFFF


class BufferEvent(IntEnum):
    SERVED = 0
    DROPPED = 1  # there was no room
    OBSOLETE = 2
    SWITCHED = 3  # not a page: the number of active fetch workers changed
    BEGAN = 4  # not a page: the crawl was started or resumed
    UNDONE = 5  # its worker died; it is fetched again and counts then


class TraceFileWriter:
    """`pages.trace` and its predecessor; `most` bytes together, 0 to write none."""

    def __init__(self, path: Path, most: int):
        self._path, self._half = path, most // 2
        self._log = BestEffortLog(path) if most else None

    def append(self, block: bytes) -> None:
        if self._log is None:
            return
        if self._log.length and self._log.length + len(block) > self._half:
            self._log.close()
            os.replace(self._path, previous_trace_path(self._path))
            self._log = BestEffortLog(self._path)
        self._log.append(block)

    def flush(self) -> None:
        if self._log is not None:
            self._log.flush()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()


class BufferTrace:
    """Recorder of pages that arrive, are served and leave; reads the back-pressure after each change."""

    def __init__(self, *, clock: Clock, file: TraceFileWriter, meter: BackpressureState, newest: int = 20_000):
        self._clock, self._file, self._meter = clock, file, meter
        self._inside: dict[int, list[float]] = {}  # ticket to arrival, level, fetch workers, allowed, taken
        self._ticketless: deque[list[float]] = deque()  # robots.txt files, acknowledged in order
        self._block = bytearray()
        self._newest: deque[bytes] = deque()
        self._newest_bytes, self._most_bytes = 0, newest * _ROW.size
        self.gauge = BufferTotalsCounter(clock.now())

    def record_start(self) -> None:
        """Start the trace of a crawl, with an empty buffer."""
        now = self._clock.now()
        self.gauge = BufferTotalsCounter(now)
        self.gauge.set_level(now, self._meter.level, self._meter.max_of_allowed_and_active, self._meter.active_visits)
        self._write(now, 0.0, 0.0, 0, self.gauge.robots, self._meter.concurrency, BufferEvent.BEGAN)

    def page_arrived(self, number: int, now: float, *, dropped: bool = False, waited: float = 0.0) -> None:
        """Record that a page arrived; it is in the buffer unless it was `dropped`.

        `waited` is the time in seconds for which its fetch worker waited for room.
        """
        gauge = self.gauge
        gauge.fetch_seconds -= waited
        gauge.arrived += 1
        gauge.dropped += dropped
        level, robots, allowed = gauge.level, gauge.robots, self._meter.concurrency
        if dropped:
            self._write(now, 0.0, 0.0, level, robots, allowed, BufferEvent.DROPPED)
            return
        page = [now, level, robots, allowed, now]
        if number:
            self._inside[number] = page
        else:
            self._ticketless.append(page)
        self.record_level(now)

    def page_taken(self, number: int, now: float) -> None:
        """Record that a shard took the page."""
        page = self._inside.get(number)
        if page is not None:
            page[4] = now

    def record_pages_served(self, numbers: Iterable[int]) -> None:
        now = self._clock.now()
        for number in numbers:
            page = self._remove_page(number)
            if page is not None:
                self.gauge.served += 1
                self.gauge.served_seconds += now - page[0]
                self._write_page(page, page[4] - page[0], now - page[0], BufferEvent.SERVED)
        self.record_level(now)

    def page_expired(self, number: int, now: float) -> None:
        page = self._remove_page(number)
        if page is not None:
            self.gauge.obsolete += 1
            self._write_page(page, now - page[0], now - page[0], BufferEvent.OBSOLETE)
        self.record_level(now)

    def record_pages_of_dead_worker(self, numbers: Iterable[int]) -> None:
        """Record that a worker died with these pages; its share of the robots.txt files is unknown."""
        now = self._clock.now()
        for number in numbers:
            page = self._remove_page(number)
            if page is not None:
                self._write_page(page, page[4] - page[0], now - page[0], BufferEvent.UNDONE)
        self._ticketless.clear()
        self.record_level(now)

    def record_level(self, now: float | None = None) -> None:
        """Record the level and the number of active fetch workers, which may have changed."""
        if now is None:
            now = self._clock.now()
        gauge, meter = self.gauge, self._meter
        robots, level = meter.max_of_allowed_and_active, meter.level
        if robots != gauge.robots:
            self._write(now, 0.0, 0.0, level, robots, meter.concurrency, BufferEvent.SWITCHED)
        gauge.set_level(now, level, robots, meter.active_visits)

    def totals(self) -> BufferTotals:
        return self.gauge.totals(self._clock.now())

    def rows(self) -> Rows:
        """The newest rows, in the order in which fates became known."""
        return np.frombuffer(b"".join(self._newest) + bytes(self._block), ROW)

    def flush(self) -> None:
        """Hand all rows to the operating system."""
        self._seal_block()
        self._file.flush()

    def close(self) -> None:
        self._seal_block()
        self._file.close()

    def _remove_page(self, number: int) -> list[float] | None:
        if number:
            return self._inside.pop(number, None)
        return self._ticketless.popleft() if self._ticketless else None

    def _write_page(self, page: list[float], wait: float, stay: float, fate: BufferEvent) -> None:
        self._write(page[0], wait, stay, int(page[1]), int(page[2]), int(page[3]), fate)

    def _write(
        self, at: float, wait: float, stay: float, level: int, robots: int, allowed: int, fate: BufferEvent
    ) -> None:
        self._block += _ROW.pack(at, stay, wait, level, min(robots, _MOST), min(allowed, _MOST), fate)
        if len(self._block) >= _BLOCK * _ROW.size:
            self._seal_block()

    def _seal_block(self) -> None:
        if self._block:
            block = bytes(self._block)
            self._block.clear()
            self._newest.append(block)
            self._newest_bytes += len(block)
            # Counted in rows, not in blocks: a slow crawl's blocks are cut short by every checkpoint.
            while self._newest_bytes - len(self._newest[0]) >= self._most_bytes:
                self._newest_bytes -= len(self._newest.popleft())
            self._file.append(block)


def previous_trace_path(path: Path) -> Path:
    return path.with_name(path.name + ".old")


def read_trace_rows(path: Path) -> Rows:
    """All rows of `pages.trace` and its predecessor, oldest first."""
    blocks = [record for half in (previous_trace_path(path), path) if half.exists() for _, record in read_records(half)]
    return np.frombuffer(b"".join(blocks), ROW)
