"""Conversion of the page trace of a crawl to the trace that a queueing model is fitted to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fieldmouse.control.buffer_trace import BufferEvent, Rows
from fieldmouse.queueing.fit.trace import Trace
from fieldmouse.queueing.model.validation import FloatArray, IntArray

_TOGETHER = 1e-6  # precision of epoch seconds
_NO_MODE = 0
_NO_PAGE = (BufferEvent.SWITCHED, BufferEvent.BEGAN)


def trace_from_rows(rows: Rows, since: float = 0.0, settling: float | None = None) -> Trace:
    """The trace of the time after `since` (epoch seconds); runs of a crawl are joined without gaps.

    Times in the trace begin at 0. `settling` is the time in seconds after a change of mode
    in which arrivals are ignored; None means the average time a fetch worker takes for a page.
    """
    cuts = np.flatnonzero(rows["fate"] == BufferEvent.BEGAN)
    pieces = [piece for piece in np.split(rows, cuts) if len(piece)]
    runs = [run for piece in pieces if (run := _trace_of_run(piece, since)) is not None]
    if not runs:
        return Trace(arrived=np.empty(0), robots=np.empty(0, np.int64))
    shifts = np.concatenate(([0.0], np.cumsum([run.span for run in runs])))
    return exclude_settling_time(
        Trace(
            arrived=np.concatenate([run.arrived + at for run, at in zip(runs, shifts, strict=False)]),
            robots=np.concatenate([run.robots for run in runs]),
            service=np.concatenate([run.service for run in runs]),
            expired=np.concatenate([run.expired for run in runs]),
            outlived=np.concatenate([run.outlived for run in runs]),
            span=float(shifts[-1]),
            switched=np.concatenate([run.switched + at for run, at in zip(runs, shifts, strict=False)]),
            mode=np.concatenate([run.mode for run in runs]),
        ),
        settling,
    )


def exclude_settling_time(trace: Trace, settling: float | None = None) -> Trace:
    """The trace with the time after each change of mode assigned to mode 0, which is never fitted."""
    spent = np.diff(trace.switched, append=trace.span)
    if settling is None:
        settling = float(spent @ trace.mode) / len(trace.arrived) if len(trace.arrived) else 0.0
    changed = np.diff(trace.mode, prepend=trace.mode[:1]) != 0
    if not settling or not changed.any():
        return trace
    ready = trace.switched + settling
    again = changed & (ready < np.append(trace.switched[1:], trace.span))
    switched = np.concatenate((trace.switched, ready[again]))
    mode = np.concatenate((np.where(changed, _NO_MODE, trace.mode), trace.mode[again]))
    order = np.argsort(switched, kind="stable")
    switched, mode = switched[order], mode[order]
    at = np.searchsorted(switched, trace.arrived, side="left") - 1
    return replace(trace, switched=switched, mode=mode, robots=mode[np.maximum(at, 0)])


def _trace_of_run(rows: Rows, since: float) -> Trace | None:
    """One run of a crawl, or the part of it in the rows; None if there is too little."""
    known = rows["at"] + rows["stay"]
    start = max(float(known[0]), since)
    pages = rows[~np.isin(rows["fate"], _NO_PAGE)]
    served = pages[pages["fate"] == BufferEvent.SERVED]
    if not len(served):
        return None
    # In order of arrival, the last served page is about the last before which all fates are known.
    end = float(served["at"].max())
    pages = pages[(pages["at"] >= start) & (pages["at"] <= end)]
    if end <= start or not len(pages):
        return None
    pages = pages[np.argsort(pages["at"], kind="stable")]
    switched, mode = _mode_switches(rows, pages, start, end)
    stays = served[(served["at"] + served["stay"] >= start) & (served["at"] <= end)]
    return Trace(
        arrived=pages["at"] - start,
        robots=pages["robots"].astype(np.int64),
        service=service_times(stays["at"], stays["at"] + stays["stay"]),
        expired=pages["wait"][pages["fate"] == BufferEvent.OBSOLETE].astype(np.float64),
        outlived=pages["wait"][pages["fate"] == BufferEvent.SERVED].astype(np.float64),
        span=end - start,
        switched=switched - start,
        mode=mode,
    )


def _mode_switches(rows: Rows, pages: Rows, start: float, end: float) -> tuple[FloatArray, IntArray]:
    """Times at which the number of active fetch workers changed; the first is the start."""
    turns = rows[np.isin(rows["fate"], _NO_PAGE)]
    before = turns[turns["at"] <= start]
    within = turns[(turns["at"] > start) & (turns["at"] <= end)]
    first = before["robots"][-1] if len(before) else pages["robots"][0]
    return (np.concatenate(([start], within["at"])), np.concatenate(([first], within["robots"])).astype(np.int64))


def service_times(arrived: FloatArray, left: FloatArray) -> FloatArray:
    """Times between departures while the server was busy, in order of departure, the first left out.

    Answers that come together are taken to have been worked on evenly since the last.

    >>> service_times(np.array([0.0, 1.0, 9.0]), np.array([2.0, 5.0, 10.0])).tolist()
    [3.0, 1.0]
    """
    order = np.argsort(left, kind="stable")
    arrived, left = arrived[order], left[order]
    first = np.flatnonzero(np.diff(left, prepend=-np.inf) > _TOGETHER)
    if len(first) < 2:
        return np.empty(0)
    ends, together = left[first], np.diff(first, append=len(left))
    # The earliest arrival among the pages that leave from now on: since then the server had work.
    there = np.minimum.accumulate(arrived[::-1])[::-1][first]
    spent = ends[1:] - np.maximum(ends[:-1], there[1:])
    return np.repeat(spent / together[1:], together[1:])
