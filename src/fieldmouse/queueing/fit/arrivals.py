"""Arrival processes fitted to a trace, for every number of fetch workers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fieldmouse.jit import HAS_NUMBA
from fieldmouse.queueing.fit.goodness import Moments, ljung_box_p_value
from fieldmouse.queueing.fit.map_fit import (
    LEAST_SCV,
    PerModeMapFit,
    fit_decay,
    fit_maps_per_mode,
    match_order_two_map,
    means_of_phases,
    third_moment_range,
)
from fieldmouse.queueing.fit.phase_type_fit import (
    CensoredSample,
    FitError,
    HyperErlang,
    condense_sample,
    maximise_likelihood,
)
from fieldmouse.queueing.fit.trace import Trace
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.validation import FloatArray, IntArray

#: A pause is this many times as long as the longest interval that is none.
PAUSE_FACTOR = 10.0

#: Share of intervals that may be pauses: what happens more often belongs to the process.
PAUSES_AT_MOST = 0.01

#: Share of intervals that must be short to count as batches.
BATCHED_AT_LEAST = 0.02


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
    def batch_rate(self) -> float:
        """Batches in a second."""
        return self.counted / self.seconds if self.seconds > 0 else 0.0

    @property
    def censored_interval_share(self) -> float:
        return len(self.cut) / max(len(self.cut) + len(self.whole), 1)


@dataclass(frozen=True, eq=False)
class TimePieces:
    """Time cut at every batch and every switch, pauses left out."""

    lengths: FloatArray
    modes: IntArray
    batch: IntArray  # 1 where the piece ends with a batch


@dataclass(frozen=True, eq=False)
class ObservedArrivals:
    """The streams by mode, how modes took turns, and what lengths were taken for batches and pauses."""

    streams: dict[int, ArrivalStream]
    pieces: TimePieces
    gap: float
    pause: float
    pauses: int


def split_arrivals_by_mode(
    trace: Trace, gap: float | None = None, pause: float | None = None, longest_gap: float = np.inf
) -> ObservedArrivals:
    """Cut the arrivals of a trace into batches and intervals.

    `gap` and `pause` are in seconds, both found from the trace unless given:
    pages at most `gap` apart are of one batch, intervals above `pause` are none.
    A gap that is found is never above `longest_gap`.
    """
    arrived = trace.arrived
    if len(arrived) == 0:
        none = np.empty(0, np.int64)
        return ObservedArrivals({}, TimePieces(np.empty(0), none, none), gap or 0.0, pause or np.inf, 0)
    steps = np.diff(arrived)
    gap = find_batch_gap(steps, longest_gap) if gap is None else gap
    first = np.concatenate(([0], np.flatnonzero(steps > gap) + 1))
    last = np.concatenate((first[1:] - 1, [len(arrived) - 1]))
    at, sizes = arrived[first], last - first + 1
    intervals = np.diff(at)
    pause = find_pause_length(intervals) if pause is None else pause

    switched, modes = trace.mode_switches()
    # The crawler tells its fetch workers a moment after the batch that changed the level: put that switch on the batch.
    batch = np.maximum(np.searchsorted(at, switched, side="right") - 1, 0)
    moment = max(gap, 0.01 * float(intervals.mean())) if len(intervals) else gap
    late = (switched >= at[batch]) & (switched - arrived[last[batch]] <= moment)
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
    pieces = _time_pieces(trace, at, switched, modes, idle, pause)
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
    return ObservedArrivals(found, pieces, gap, pause, int(idle.sum()))


def _time_pieces(
    trace: Trace, at: FloatArray, switched: FloatArray, modes: IntArray, idle: NDArray[np.bool_], pause: float
) -> TimePieces:
    end = float(trace.arrived[-1])
    if len(trace.switched):
        end = max(end, min(float(trace.switched[0]) + trace.span, end + pause))
    marks = np.unique(np.concatenate((at, switched, [end])))
    marks = marks[(marks >= switched[0]) & (marks <= end)]
    mode = modes[np.searchsorted(switched, marks[:-1], side="right") - 1]
    interval = np.searchsorted(at, marks[:-1], side="right") - 1
    awake = ~np.concatenate((idle, [False]))[interval] | (interval < 0)
    batch = np.isin(marks[1:], at)
    return TimePieces(np.diff(marks)[awake], mode[awake], batch[awake].astype(np.int64))


def find_pause_length(intervals: FloatArray) -> float:
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


def find_batch_gap(steps: FloatArray, longest: float = np.inf) -> float:
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
    beyond = (positive.sum() - np.concatenate(([0.0], np.cumsum(np.sort(positive))))[below]) / np.maximum(above, 1)
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


#: Intervals below which only the rate of a mode is learned.
FEWEST = 30

LAGS = 10
LARGEST_BATCH = 64

_TRACE = 1e-9  # the least share of a phase

#: Share of cut intervals above which plain moments would mislead.
CUT_OFTEN = 0.05


@dataclass(frozen=True, eq=False)
class WorkerCountFit:
    """One mode: batches as a process, how many pages each brings, and what to say about it."""

    stream: ArrivalStream
    D0: FloatArray
    D1: FloatArray
    shares: FloatArray  # shares[k - 1] of the batches bring k pages
    law: str
    correlations: FloatArray
    remarks: tuple[str, ...]
    expected: FloatArray | None = None  # where modes were fitted together: batches expected from one to the next

    def arrivals(self, start: FloatArray | None = None) -> BatchArrivals:
        """The process; one of a single phase spread over the phases that other modes `start` with."""
        D0, D1 = self.D0, self.D1
        if start is not None and len(D0) < len(start):
            # Some patterns begin every interval in one phase; yet each phase must lead to every other.
            start = np.maximum(start, _TRACE) / np.maximum(start, _TRACE).sum()
            D0, D1 = np.eye(len(start)) * D0[0, 0], D1[0, 0] * np.tile(start, (len(start), 1))
        return BatchArrivals((D0, *(share * D1 for share in self.shares)))


def fit_mode(stream: ArrivalStream) -> WorkerCountFit:
    """The process of one mode that was seen."""
    remarks: list[str] = []
    shares, lumped = batch_size_shares(stream.sizes)
    if lumped:
        remarks.append(f"{lumped} batches of more than {LARGEST_BATCH} pages count as {LARGEST_BATCH}")
    rate, sample = stream.batch_rate, len(stream.whole)
    poisson = np.array([[-rate]]), np.array([[rate]])
    nothing = np.zeros(LAGS)
    if sample < FEWEST:
        remarks.append(f"only {sample} whole intervals were seen: taken for a Poisson stream")
        return WorkerCountFit(stream, *poisson, shares, "Poisson", nothing, tuple(remarks))
    if stream.censored_interval_share > CUT_OFTEN:
        remarks.append(
            f"{stream.censored_interval_share:.0%} of the intervals were cut short by a change of mode: "
            "how they hang together was not looked at"
        )
        moments, correlations = _moments_without_cuts(stream), nothing
    else:
        moments, correlations = Moments.of_sample(stream.whole), lag_correlations(stream, LAGS)
    together = ljung_box_p_value(correlations, sample) < 0.01
    if abs(moments.scv - 1) < 5 / np.sqrt(sample) and not together:  # 2.5 deviations of an exponential sample
        return WorkerCountFit(stream, *poisson, shares, "Poisson", correlations, tuple(remarks))
    decay = fit_decay(correlations.tolist(), moments.scv) if together else 0.0
    found = match_order_two_map(1 / rate, moments.scv, _likeliest_third_moment(stream, moments) / rate**3, decay)
    remarks += found.misses
    if together and abs(found.first_correlation - correlations[0]) > 0.1:
        remarks.append(
            f"successive intervals correlate by {correlations[0]:.2f}, and two phases with this variance "
            f"only by {found.first_correlation:.2f}"
        )
    law = f"Markovian arrivals of order 2, correlations decaying by {found.decay:.3g}"
    return WorkerCountFit(stream, found.D0, found.D1, shares, law, correlations, tuple(remarks))


def _likeliest_third_moment(stream: ArrivalStream, moments: Moments) -> float:
    """The third moment, of intervals of mean 1, with which two phases tell the intervals best.

    That of the sample hangs on a few longest intervals; it is only one of those tried.
    """
    scv, sample = moments.scv, moments.third / moments.mean**3
    if scv < LEAST_SCV or abs(scv - 1) < 1e-6:
        return sample
    least, most = third_moment_range(1.0, scv)
    tried = np.linspace(least, most, 9) if scv < 1 else least * np.geomspace(1.001, 30.0, 25)
    tried = np.append(tried, np.clip(sample, least, most))
    points, counts = condense_sample(stream.whole / moments.mean, 80)

    def worth(third: float) -> float:
        if scv > 1:
            slow, fast = means_of_phases(1.0, scv, third)
            share = (1 - fast) / (slow - fast)
            mixture = HyperErlang.from_lists([share, 1 - share], [1, 1], [1 / slow, 1 / fast])
            return mixture.log_likelihood(points, counts)
        found = match_order_two_map(1.0, scv, third)
        law = BatchArrivals((found.D0, found.D1)).intervals
        return float(counts @ np.log(np.maximum(law.pdf(points), 1e-300)))

    return float(max(tried.tolist(), key=worth))


def _moments_without_cuts(stream: ArrivalStream) -> Moments:
    """Moments of the intervals as they would be if no mode ended: one or two branches, as the data earn."""
    whole = np.maximum(stream.whole, 1e-9 * stream.whole.mean())
    sample = CensoredSample(*condense_sample(whole), *condense_sample(stream.cut))
    climbs = [maximise_likelihood(steps, sample) for steps in ((1,), (1, 1), (2,), (3,), (2, 1))]
    best, _ = min(climbs, key=lambda climb: climb[0].parameter_count * np.log(len(stream.whole)) - 2 * climb[1])
    return Moments(best.mean, best.scv, best.moment(3))


def batch_size_shares(sizes: IntArray) -> tuple[FloatArray, int]:
    """The share of batches with 1, 2, ... pages, and how many were larger than we count."""
    if len(sizes) == 0:
        return np.ones(1), 0
    counts = np.bincount(np.minimum(sizes, LARGEST_BATCH))[1:]
    return counts / counts.sum(), int((sizes > LARGEST_BATCH).sum())


#: Pieces of time that are looked at, the latest: enough, and soon done.
LATEST = 8000

_SHAKEN = 0.05  # of the rate, added everywhere at the start: a rate of 0 would stay 0


def fit_modes_jointly(pieces: TimePieces, fits: Mapping[int, WorkerCountFit]) -> tuple[dict[int, WorkerCountFit], str]:
    """Fit all modes together; returns them with a remark for the report.

    Two phases per mode must earn their parameters, or all modes are Poisson.
    """
    if not HAS_NUMBA:
        return dict(fits), (
            "modes took turns quickly, and to fit them together takes the extra `fieldmouse[lab]`: "
            "fitted one by one, the mode of a full buffer seems faster than it is"
        )
    lengths, batch = pieces.lengths[-LATEST:], pieces.batch[-LATEST:]
    known, modes = np.unique(pieces.modes[-LATEST:], return_inverse=True)
    modes = modes.astype(np.int64)
    counts = np.bincount(modes, weights=batch, minlength=len(known))
    seconds = np.bincount(modes, weights=lengths, minlength=len(known))
    rates = np.maximum(counts, 0.5) / np.maximum(seconds, 1e-9)
    scale = rates[:, None, None]

    def begun(scv: float, decay: float) -> PerModeMapFit:
        pattern = match_order_two_map(1.0, scv, None, decay)
        D1 = pattern.D1 + _SHAKEN
        D0 = np.where(np.eye(2), 0.0, pattern.D0 + _SHAKEN)
        D0 -= np.diag(D0.sum(axis=1) + D1.sum(axis=1))
        return fit_maps_per_mode(D0 * scale, D1 * scale, lengths, modes, batch, rounds=6)

    shapes = {_starting_shape(fit) for fit in fits.values()} | {(2.0, 0.5)}
    best = max((begun(*shape) for shape in shapes), key=lambda begun: begun.likelihood)
    best = fit_maps_per_mode(best.D0, best.D1, lengths, modes, batch, rounds=40)
    plain = float((counts * np.log(rates) - rates * seconds).sum())
    earned = 2 * (best.likelihood - plain) > 3 * len(fits) * np.log(max(counts.sum(), 2))
    found = dict(fits)
    for mode, fit in fits.items():
        if not earned:
            rate = fit.stream.batch_rate
            found[mode] = replace(fit, D0=np.array([[-rate]]), D1=np.array([[rate]]), law="Poisson", remarks=())
        elif mode in known:
            place = int(np.searchsorted(known, mode))
            found[mode] = replace(
                fit,
                D0=best.D0[place],
                D1=best.D1[place],
                law="Markovian arrivals of order 2, fitted with all modes together",
                correlations=np.zeros(LAGS),
                expected=best.expected[place],
                remarks=(),
            )
    how = "of two phases each" if earned else "and need no phases"
    return found, f"modes took turns quickly: they were fitted together, {how}"


def _starting_shape(fit: WorkerCountFit) -> tuple[float, float]:
    """Variation and decay to start from, as the mode alone showed them."""
    law = fit.arrivals().intervals
    return round(min(max(law.scv, 0.5), 20.0), 1), 0.3 if law.scv > 1 else 0.0


Unseen: TypeAlias = Literal["trend", "ratio", "refuse"]


def fit_modes(
    seen: ObservedArrivals, modes: Collection[int] | None, unseen: Unseen, remembered: Mapping[int, float]
) -> tuple[dict[int, BatchArrivals], dict[int, WorkerCountFit], list[str]]:
    """Arrivals for each mode asked for (None: each seen well enough), the fits behind them, and remarks.

    An unseen mode is its nearest seen neighbour, made faster by the ratio of fetch workers
    ("ratio"), or by that ratio to a power that the seen modes tell ("trend": workers
    that share a full line bring less each). If its rate is `remembered`, it is as much
    faster or slower than that neighbour as it was then.
    """
    enough = {mode: stream for mode, stream in seen.streams.items() if mode > 0 and stream.counted >= FEWEST}
    if not enough:
        most = max((stream.counted for stream in seen.streams.values()), default=0)
        raise FitError(
            f"no number of robots brought more than {most} batches, and {FEWEST} are needed",
            "let the crawl run longer before a model is fitted to it",
        )
    asked = sorted(enough) if modes is None else sorted(set(modes))
    fits = {mode: fit_mode(stream) for mode, stream in enough.items()}
    remarks: list[str] = []
    if any(len(fit.D0) > 1 for fit in fits.values()) and any(
        fit.stream.censored_interval_share > CUT_OFTEN for fit in fits.values()
    ):
        fits, said = fit_modes_jointly(seen.pieces, fits)
        remarks.append(said)
    patterned = {mode: fit for mode, fit in fits.items() if len(fit.D0) > 1}
    known = {mode: fit.arrivals(_starting_phases(mode, patterned)) for mode, fit in fits.items()}
    rates = {mode: arrivals.rate for mode, arrivals in known.items()}
    power = rate_growth_exponent(rates) if unseen == "trend" else 1.0
    found: dict[int, BatchArrivals] = {}
    for mode in asked:
        if mode in known:
            found[mode] = known[mode]
            continue
        if unseen == "refuse":
            raise FitError(
                f"{workers_text(mode)} were never seen at work for long", f"seen were {', '.join(map(str, known))}"
            )
        near = _nearest_mode(mode, known)
        if mode in remembered:
            faster = remembered[mode] / remembered.get(near, rates[near])
            how = "not seen lately", ", as they were before"
        else:
            faster = (mode / near) ** power
            how = "hardly seen", ""
        found[mode] = known[near].scaled(faster)
        remarks.append(
            f"arrivals with {workers_text(mode)} were {how[0]}: taken for those with {near}, "
            f"{faster:.2f} times as fast{how[1]}"
        )
    return found, {mode: fit for mode, fit in fits.items() if mode in found}, remarks


def rate_growth_exponent(rates: Mapping[int, float]) -> float:
    """The power of the number of fetch workers with which the rate grows, from 0 to 1; 1 when one number was seen.

    >>> round(rate_growth_exponent({1: 2.0, 4: 4.0}), 3)
    0.5
    """
    if len(rates) < 2:
        return 1.0
    slope = np.polyfit(np.log(list(rates)), np.log(list(rates.values())), 1)[0]
    return float(np.clip(slope, 0.0, 1.0))


def workers_text(mode: int) -> str:
    return "1 robot" if mode == 1 else f"{mode} robots"


def _nearest_mode(mode: int, known: Mapping[int, object]) -> int:
    return min(known, key=lambda other: (abs(np.log(mode / other)), other))


def _starting_phases(mode: int, patterned: Mapping[int, WorkerCountFit]) -> FloatArray | None:
    """How a Poisson mode spreads over two phases: as the nearest mode that needs two begins its intervals."""
    if not patterned:
        return None
    return BatchArrivals((patterned[(near := _nearest_mode(mode, patterned))].D0, patterned[near].D1)).intervals.alpha
