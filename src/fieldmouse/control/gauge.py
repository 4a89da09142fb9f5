"""Measured performance of the buffer: the live counterpart of the predictions of `queueing`.

The gauge gets every change of level or rule and the fate of every page. It keeps
running totals; the difference of two totals is exact for the time between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from fieldmouse.queueing.model.measures import Measures
    from fieldmouse.queueing.model.model import Cost


class BufferTotals(msgspec.Struct, frozen=True):
    """Sums since a crawl began; the difference of two describes the time between them."""

    seconds: float = 0.0
    idle: float = 0.0  # seconds in which the indexer had nothing to do
    robot_seconds: float = 0.0  # of active fetch workers: those allowed, or more while some still finish
    page_seconds: float = 0.0  # of pages in the buffer and in service
    arrived: int = 0
    dropped: int = 0
    obsolete: int = 0
    served: int = 0
    served_seconds: float = 0.0  # from arrival to answer, of pages served

    def since(self, before: BufferTotals) -> BufferTotals:
        return BufferTotals(
            *(getattr(self, name) - getattr(before, name) for name in BufferTotals.__struct_fields__)
        )


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

    def cost(self, weights: Cost) -> float:
        return weights.total(
            dropped=self.rate * self.loss,
            obsolete=self.rate * self.obsolete,
            sojourn=self.response,
            robots=self.robots,
            star=self.starvation,
        )


class BufferGauge:
    """Running totals. Times passed to it never decrease."""

    def __init__(self, now: float):
        self._at = now
        self.level = 0
        self.robots = 0
        self._seconds = self._idle = self._worked = self._pages = self._stays = 0.0
        self.arrived = self.dropped = self.obsolete = self.served = 0

    def set_level(self, now: float, level: int, robots: int) -> None:
        """Set the level and the number of active fetch workers from now on."""
        self._pass(now)
        self.level, self.robots = level, robots

    def note_arrived(self, *, dropped: bool) -> None:
        self.arrived += 1
        self.dropped += dropped

    def note_obsolete(self) -> None:
        self.obsolete += 1

    def note_served(self, stay: float) -> None:
        self.served += 1
        self._stays += stay

    def _pass(self, now: float) -> None:
        time = now - self._at
        self._at = now
        self._seconds += time
        self._worked += time * self.robots
        if self.level:
            self._pages += time * self.level
        else:
            self._idle += time

    def totals(self, now: float) -> BufferTotals:
        self._pass(now)
        return BufferTotals(
            self._seconds,
            self._idle,
            self._worked,
            self._pages,
            self.arrived,
            self.dropped,
            self.obsolete,
            self.served,
            self._stays,
        )
