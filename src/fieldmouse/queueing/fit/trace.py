"""Trace of a crawl's buffer: arrivals, service times and ages of obsolete pages.

A model is fitted to a trace. The owner of the page rows makes the trace;
here it is only arrays, in seconds from any origin.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fieldmouse.errors import FieldmouseError
from fieldmouse.queueing.model.validation import FloatArray, IntArray


class TraceError(FieldmouseError):
    """A trace that contradicts itself, or from which nothing can be learned."""


def _no_times() -> FloatArray:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class Trace:
    """Arrivals with the mode they met, services, and lifetimes, some of them cut short by service.

    The mode is the number of fetch workers allowed. It may change between two arrivals, when a
    page leaves; `switched` and `mode` say when and to what, so that the time spent in a
    mode is known and not estimated from the arrivals in it (which would favour
    short intervals). Both are empty if they were not recorded: a switch between two arrivals
    is then assumed half-way.
    """

    arrived: FloatArray  # ascending: every page that came to the buffer, those it had no room for too
    robots: IntArray  # allowed just before that moment
    service: FloatArray = field(default_factory=_no_times)  # one per page served
    expired: FloatArray = field(default_factory=_no_times)  # ages of pages that grew obsolete
    outlived: FloatArray = field(default_factory=_no_times)  # ages at which pages were taken into service
    span: float = 0.0  # from the first moment watched to the last
    switched: FloatArray = field(default_factory=_no_times)  # ascending; the first is when watching began
    mode: IntArray = field(default_factory=lambda: np.empty(0, np.int64))  # fetch workers allowed from then on

    def __post_init__(self) -> None:
        for name in ("arrived", "service", "expired", "outlived", "switched"):
            seconds = np.asarray(getattr(self, name), dtype=np.float64)
            _check_times(name, seconds)
            object.__setattr__(self, name, seconds)
        for name in ("robots", "mode"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.int64))
        _check_modes("arrived", self.arrived, "robots", self.robots)
        _check_modes("switched", self.switched, "mode", self.mode)
        if not (np.isfinite(self.span) and self.span >= 0):
            raise TraceError(f"the trace spans {self.span} seconds", "`span` is a finite time, not negative")

    def mode_switches(self) -> tuple[FloatArray, IntArray]:
        """When each mode began, and which it was; the first began with or before the first arrival."""
        if len(self.arrived) == 0 or (len(self.switched) and self.switched[0] < self.arrived[0]):
            at, modes = self.switched, self.mode
        elif len(self.switched):
            at = np.concatenate((self.arrived[:1], self.switched))
            modes = np.concatenate((self.robots[:1], self.mode))
        else:
            change = np.flatnonzero(np.diff(self.robots))
            at = np.concatenate((self.arrived[:1], (self.arrived[change] + self.arrived[change + 1]) / 2))
            modes = np.concatenate((self.robots[:1], self.robots[change + 1]))
        new = np.concatenate(([True], np.diff(modes) != 0)) if len(modes) else np.empty(0, np.bool_)
        return at[new], modes[new]


def _check_times(name: str, seconds: FloatArray) -> None:
    if seconds.ndim != 1:
        raise TraceError(f"`{name}` of the trace is not a plain list of numbers")
    bad = ~np.isfinite(seconds)
    if name in ("service", "expired", "outlived"):
        bad |= seconds < 0
    if np.any(bad):
        where = int(np.argmax(bad))
        raise TraceError(f"`{name}`[{where}] of the trace is {seconds[where]}, which is no length of time")


def _check_modes(times: str, at: FloatArray, counts: str, robots: IntArray) -> None:
    if len(at) != len(robots):
        raise TraceError(
            f"the trace has {len(at)} times in `{times}` and {len(robots)} numbers in `{counts}`",
            "each of the times needs the number of robots allowed then",
        )
    if np.any(np.diff(at) < 0):
        where = int(np.argmax(np.diff(at) < 0)) + 1
        raise TraceError(f"`{times}`[{where}] of the trace lies before the time it follows", "sort the times")
    if np.any(robots < 0):
        raise TraceError(f"`{counts}` of the trace counts robots, and {int(robots.min())} is fewer than none")
