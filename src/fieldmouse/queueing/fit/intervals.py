"""From moments of arrival to intervals between batches, mode by mode.

Three things stand between a trace and a sample. Pages that come at practically the
same moment are one batch. A stop of the whole crawl is no interval. And a mode that
ends before the next batch cuts an interval short: such intervals are kept as cut,
since without them long intervals would be missing and the rest would look regular.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldmouse.queueing.fit.trace import Trace
from fieldmouse.queueing.model.entries import FloatArray, IntArray

PAUSE_FACTOR = 10.0
"""A pause is this many times as long as the longest interval that is none."""

PAUSES_AT_MOST = 0.01
"""Share of intervals that may be pauses: what happens more often belongs to the process."""

BATCHED_AT_LEAST = 0.02
"""Share of intervals that must be short to count as batches."""


@dataclass(frozen=True, eq=False)
class ArrivalStream:
    """Observed batches of one mode."""

    robots: int
    whole: FloatArray  # intervals from batch to batch, all in this mode
    runs: IntArray  # for each of them, its run: intervals of one run followed each other
    cut: FloatArray  # intervals that began in this mode and saw it end
    sizes: IntArray  # pages in each batch that came in this mode
    seconds: float  # time in this mode, without pauses
    counted: int  # batches that came within these seconds

    @property
    def rate(self) -> float:
        """Batches in a second."""
        return self.counted / self.seconds if self.seconds > 0 else 0.0

    @property
    def cut_share(self) -> float:
        return len(self.cut) / max(len(self.cut) + len(self.whole), 1)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Time cut at every batch and every switch, pauses left out."""

    lengths: FloatArray
    modes: IntArray
    batch: IntArray  # 1 where the piece ends with a batch


@dataclass(frozen=True, eq=False)
class Seen:
    """The streams by mode, how modes took turns, and what lengths were taken for batches and pauses."""

    streams: dict[int, ArrivalStream]
    pieces: Pieces
    gap: float
    pause: float
    pauses: int


def streams(
    trace: Trace, gap: float | None = None, pause: float | None = None, longest_gap: float = np.inf
) -> Seen:
    """Cut the arrivals of a trace into batches and intervals.

    `gap` and `pause` are in seconds, both found from the trace unless given:
    pages at most `gap` apart are of one batch, intervals above `pause` are none.
    A gap that is found is never above `longest_gap`.
    """
    arrived = trace.arrived
    if len(arrived) == 0:
        none = np.empty(0, np.int64)
        return Seen({}, Pieces(np.empty(0), none, none), gap or 0.0, pause or np.inf, 0)
    steps = np.diff(arrived)
    gap = batch_gap(steps, longest_gap) if gap is None else gap
    first = np.concatenate(([0], np.flatnonzero(steps > gap) + 1))
    last = np.concatenate((first[1:] - 1, [len(arrived) - 1]))
    at, sizes = arrived[first], last - first + 1
    intervals = np.diff(at)
    pause = pause_length(intervals) if pause is None else pause

    switched, modes = trace.switches()
    # The loop tells its robots a moment after the batch that changed the level: put that switch on the batch.
    batch = np.maximum(np.searchsorted(at, switched, side="right") - 1, 0)
    late = (switched >= at[batch]) & (switched - arrived[last[batch]] <= max(gap, 0.01 * _mean(intervals)))
    switched = np.maximum.accumulate(np.where(late, at[batch], switched))
    before = np.maximum(np.searchsorted(switched, at, side="left") - 1, 0)
    after = np.maximum(np.searchsorted(switched, at, side="right") - 1, 0)

    idle = intervals > pause
    whole = (after[:-1] == before[1:]) & ~idle
    ends = np.concatenate((switched, [np.inf]))[after[:-1] + 1]
    cut = np.where(whole | idle, 0.0, np.minimum(ends - at[:-1], intervals))
    of = modes[after[:-1]]
    follows = whole[1:] & whole[:-1] & (of[1:] == of[:-1])
    runs = np.cumsum(np.concatenate(([True], ~follows)))[: len(whole)]
    pieces = _pieces(trace, at, switched, modes, idle, pause)
    counts = np.concatenate(([at[0] > switched[0]], ~idle))
    came = modes[before]

    found: dict[int, ArrivalStream] = {}
    for mode in np.unique(modes):
        mine = whole & (of == mode)
        found[int(mode)] = ArrivalStream(
            int(mode),
            intervals[mine],
            runs[mine],
            cut[(cut > 0) & (of == mode)],
            sizes[came == mode],
            float(pieces.lengths[pieces.modes == mode].sum()),
            int((counts & (came == mode)).sum()),
        )
    return Seen(found, pieces, gap, pause, int(idle.sum()))


def _pieces(
    trace: Trace, at: FloatArray, switched: FloatArray, modes: IntArray, idle: NDArray[np.bool_], pause: float
) -> Pieces:
    end = float(trace.arrived[-1])
    if len(trace.switched):
        end = max(end, min(float(trace.switched[0]) + trace.span, end + pause))
    marks = np.unique(np.concatenate((at, switched, [end])))
    marks = marks[(marks >= switched[0]) & (marks <= end)]
    mode = modes[np.searchsorted(switched, marks[:-1], side="right") - 1]
    interval = np.searchsorted(at, marks[:-1], side="right") - 1
    awake = ~np.concatenate((idle, [False]))[interval] | (interval < 0)
    batch = np.isin(marks[1:], at)
    return Pieces(np.diff(marks)[awake], mode[awake], batch[awake].astype(np.int64))


def _mean(intervals: FloatArray) -> float:
    return float(intervals.mean()) if len(intervals) else 0.0


def pause_length(intervals: FloatArray) -> float:
    """The length above which an interval is a pause; infinite when there is none.

    Sorted by length, the longest intervals are pauses when each is more than
    `PAUSE_FACTOR` times as long as all that remain, and they are few.
    """
    ordered = np.sort(intervals[intervals > 0])
    few = max(1, int(PAUSES_AT_MOST * len(ordered)))
    if len(ordered) < 20:
        return np.inf
    top = ordered[-few - 1 :]
    jumps = np.flatnonzero(top[1:] > PAUSE_FACTOR * top[:-1])
    if len(jumps) == 0:
        return np.inf
    return float(np.sqrt(top[jumps[0]] * top[jumps[0] + 1]))


def batch_gap(steps: FloatArray, longest: float = np.inf) -> float:
    """The valley between steps within batches and steps between them; 0 when there is none.

    The steps are counted by their logarithm, in windows of half a decade. A valley
    is a window with a third of the count of a window on either side of it, beyond
    what chance would do, below a tenth of the mean of the longer steps, and with
    enough steps below it. Exponential steps alone have one hill and no valley.
    """
    positive = steps[steps > 0]
    if len(positive) < 50:
        return 0.0
    logs = np.log10(positive)
    low = float(logs.min())
    counts = np.bincount(((logs - low) * 10).astype(np.int64))
    windows = np.convolve(np.concatenate((np.zeros(5), counts, np.zeros(5))), np.ones(5), mode="same")[5:-5]
    left, right = np.maximum.accumulate(windows), np.maximum.accumulate(windows[::-1])[::-1]
    floor = 3 * windows + 3 * np.sqrt(windows + 1) + 5
    edges = 10.0 ** (low + (np.arange(len(windows)) + 0.5) / 10)
    below = np.searchsorted(np.sort(positive), edges)
    above = len(positive) - below
    beyond = (positive.sum() - np.concatenate(([0.0], np.cumsum(np.sort(positive))))[below]) / np.maximum(
        above, 1
    )
    good = (left >= floor) & (right >= floor) & (below >= BATCHED_AT_LEAST * len(steps))
    good &= (edges <= beyond / 10) & (edges <= longest)
    if not good.any():
        return 0.0
    depth = np.where(good, np.minimum(left, right) / (windows + 1), 0.0)
    best = np.flatnonzero(depth >= depth.max() * (1 - 1e-9))
    return float(edges[best[len(best) // 2]])


def lag_correlations(stream: ArrivalStream, lags: int) -> FloatArray:
    """Correlations between whole intervals 1, 2, ... lags apart, over pairs within one run."""
    x, runs = stream.whole, stream.runs
    found = np.zeros(lags)
    variance = float(x.var()) if len(x) else 0.0
    if variance == 0:
        return found
    centred = x - x.mean()
    for lag in range(1, min(lags, len(x) - 1) + 1):
        together = runs[lag:] == runs[:-lag]
        pairs = int(together.sum())
        if pairs > 1:
            found[lag - 1] = float((centred[lag:] * centred[:-lag])[together].sum()) / pairs / variance
    return found
