"""From rows of pages to the `Trace` that a model is fitted to.

Rows are in the order in which fates became known, so a window of them is whole only
in its middle: pages that came before it may be missing, and so are pages that are
still inside when it ends. Both ends are cut back to where every arrival is known.
What the indexer is to the model is one server: a service is the time between two
departures while anybody is there, however many workers share the work.

In the model a robot that is sent out brings pages at its usual rate at once, and one
that is called home brings none. Real ones have their first fetch before them, or their
last one on the way. So the time of one fetch after each change of their number is set
aside, as time in which nobody in particular was at work: rates are those of robots
that are at work.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fieldmouse.control.pagetrace import Fate, Rows
from fieldmouse.queueing.fit.trace import Trace
from fieldmouse.queueing.model.entries import FloatArray, IntArray

_TOGETHER = 1e-6  # epoch seconds have no more digits than this
_NOBODY = 0
_NO_PAGE = (Fate.SWITCHED, Fate.BEGAN)


def trace_of(rows: Rows, since: float = 0.0, settling: float | None = None) -> Trace:
    """What the rows tell of the time after `since` (epoch seconds); runs of a crawl are joined without gaps.

    Times in the trace begin at 0. `settling` is how long, in seconds, arrivals are not
    told after a change of mode; None for as long as a robot takes for a page on average.
    """
    cuts = np.flatnonzero(rows["fate"] == Fate.BEGAN)
    pieces = [piece for piece in np.split(rows, cuts) if len(piece)]
    runs = [run for piece in pieces if (run := _run(piece, since)) is not None]
    if not runs:
        return Trace(arrived=np.empty(0), robots=np.empty(0, np.int64))
    shifts = np.concatenate(([0.0], np.cumsum([run.span for run in runs])))
    return without_settling(
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


def without_settling(trace: Trace, settling: float | None = None) -> Trace:
    """The trace with the time after each change of mode given to mode 0, which nobody fits."""
    spent = np.diff(trace.switched, append=trace.span)
    if settling is None:
        settling = float(spent @ trace.mode) / len(trace.arrived) if len(trace.arrived) else 0.0
    changed = np.diff(trace.mode, prepend=trace.mode[:1]) != 0
    if not settling or not changed.any():
        return trace
    ready = trace.switched + settling
    again = changed & (ready < np.append(trace.switched[1:], trace.span))
    switched = np.concatenate((trace.switched, ready[again]))
    mode = np.concatenate((np.where(changed, _NOBODY, trace.mode), trace.mode[again]))
    order = np.argsort(switched, kind="stable")
    switched, mode = switched[order], mode[order]
    at = np.searchsorted(switched, trace.arrived, side="left") - 1
    return replace(trace, switched=switched, mode=mode, robots=mode[np.maximum(at, 0)])


def _run(rows: Rows, since: float) -> Trace | None:
    """One run of a crawl, or the part of it that the rows hold; None if nothing can be said."""
    known = rows["at"] + rows["stay"]
    start = max(float(known[0]), since)
    pages = rows[~np.isin(rows["fate"], _NO_PAGE)]
    served = pages[pages["fate"] == Fate.SERVED]
    if not len(served):
        return None
    # In order of arrival the last page served is about the last whose elders' fates are all known.
    end = float(served["at"].max())
    pages = pages[(pages["at"] >= start) & (pages["at"] <= end)]
    if end <= start or not len(pages):
        return None
    pages = pages[np.argsort(pages["at"], kind="stable")]
    switched, mode = _modes(rows, pages, start, end)
    stays = served[(served["at"] + served["stay"] >= start) & (served["at"] <= end)]
    return Trace(
        arrived=pages["at"] - start,
        robots=pages["robots"].astype(np.int64),
        service=services(stays["at"], stays["at"] + stays["stay"]),
        expired=pages["wait"][pages["fate"] == Fate.OBSOLETE].astype(np.float64),
        outlived=pages["wait"][pages["fate"] == Fate.SERVED].astype(np.float64),
        span=end - start,
        switched=switched - start,
        mode=mode,
    )


def _modes(rows: Rows, pages: Rows, start: float, end: float) -> tuple[FloatArray, IntArray]:
    """When the number of robots at work changed; the first is the one at the start."""
    turns = rows[np.isin(rows["fate"], _NO_PAGE)]
    before = turns[turns["at"] <= start]
    within = turns[(turns["at"] > start) & (turns["at"] <= end)]
    first = before["robots"][-1] if len(before) else pages["robots"][0]
    return (
        np.concatenate(([start], within["at"])),
        np.concatenate(([first], within["robots"])).astype(np.int64),
    )


def services(arrived: FloatArray, left: FloatArray) -> FloatArray:
    """Times between departures while the server was busy, in order of departure, the first left out.

    Answers that come together are taken to have been worked on evenly since the last.

    >>> services(np.array([0.0, 1.0, 9.0]), np.array([2.0, 5.0, 10.0])).tolist()
    [3.0, 1.0]
    """
    order = np.argsort(left, kind="stable")
    arrived, left = arrived[order], left[order]
    first = np.flatnonzero(np.diff(left, prepend=-np.inf) > _TOGETHER)
    if len(first) < 2:
        return np.empty(0)
    ends, together = left[first], np.diff(first, append=len(left))
    # Whoever leaves from now on was there first at this time: from then the server had work.
    there = np.minimum.accumulate(arrived[::-1])[::-1][first]
    spent = ends[1:] - np.maximum(ends[:-1], there[1:])
    return np.repeat(spent / together[1:], together[1:])
