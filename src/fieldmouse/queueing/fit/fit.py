"""Fit of a buffer model to the trace of a crawl, with a report on its quality.

    fitted = fit(trace, capacity=200)
    fitted.model                    # to be solved, simulated, optimised
    fitted.report.sentences()       # caveats and missing data

It needs only numpy and takes a fraction of a second, so that a crawl can repeat the fit
every few minutes. Only `draws`, a parametric bootstrap, takes
longer and is meant for people.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from fieldmouse.queueing.fit.arrivals import (
    CUT_OFTEN,
    LAGS,
    ArrivalStream,
    ObservedArrivals,
    Unseen,
    WorkerCountFit,
    fit_mode,
    fit_modes,
    split_arrivals_by_mode,
    workers_text,
)
from fieldmouse.queueing.fit.goodness import (
    NOTICEABLE,
    FitReport,
    FittedPart,
    Moments,
    bootstrap_p_value,
    compare_distributions,
    ks_distance,
    ks_p_value,
    ljung_box_p_value,
)
from fieldmouse.queueing.fit.phase_type_fit import FitError, FittedDistribution, Method, fit_law
from fieldmouse.queueing.fit.trace import Trace
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import Admission, Model
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray

#: Ways in which a full buffer can have aged, above which lifetimes are kept exponential, to be solvable.
LARGEST_ORDERED = 100_000

_STRONG = 6.0  # by which a lifetime's criterion must fall before exponential is given up


@dataclass(frozen=True, eq=False)
class FittedModel:
    """`rates` are pages per second by number of fetch workers, for the numbers that were active."""

    model: Model
    report: FitReport
    rates: dict[int, float]


def fit(
    trace: Trace,
    capacity: int,
    *,
    modes: Collection[int] | None = None,
    admission: Admission = "partial",
    gap: float | None = None,
    pause: float | None = None,
    service: Method = "auto",
    lifetime: Method = "auto",
    unseen: Unseen = "trend",
    remembered: Mapping[int, float] | None = None,
    phases: int = 6,
    draws: int = 0,
    rng: np.random.Generator | None = None,
) -> FittedModel:
    """The model that fits this trace best.

    `modes` are the wanted numbers of fetch workers (None: all that were seen for long
    enough). `gap` and `pause`, in seconds, define a batch and a stop;
    both are estimated when not given. `remembered` are `rates` of earlier fits, for modes
    that are missing in this trace. `phases` limits the phases of a service time.
    """
    if len(trace.service) == 0:
        raise FitError("no page was served in this trace", "let the crawl run longer, or look why none is indexed")
    served = fit_law(trace.service, service, phases, rng=rng)
    seen = split_arrivals_by_mode(trace, gap, pause, longest_gap=served.times.mean / 2)
    arrivals, fits, remarks = fit_modes(seen, modes, unseen, remembered or {})
    dice = rng if draws else None
    parts = [_arrivals_part(fits[mode], arrivals[mode], draws, dice) for mode in fits]
    parts.append(_service_part(served, trace.service, service, phases, draws, dice))
    lives, said = _fit_lifetime(trace, lifetime, phases, capacity)
    remarks = [*_trace_remarks(seen), *remarks, *said]
    if lives is not None:
        parts.append(_lifetime_part(lives, trace))
    model = Model(capacity, arrivals, served.times, lives.times if lives is not None else PhaseType.never(), admission)
    if len(trace.switched) == 0 and any(mode.stream.censored_interval_share > CUT_OFTEN for mode in fits.values()):
        remarks.append("the trace does not tell when modes changed: the rates of modes are rough")
    rates = {mode: arrivals[mode].rate for mode in fits}
    return FittedModel(model, FitReport(tuple(parts), tuple(remarks)), rates)


def _trace_remarks(seen: ObservedArrivals) -> list[str]:
    said = []
    if seen.gap > 0:
        said.append(f"pages at most {seen.gap:.3g} seconds apart were taken for one batch")
    if seen.pauses:
        said.append(f"{seen.pauses} intervals above {seen.pause:.3g} seconds were taken for pauses and left out")
    return said


def _fit_lifetime(
    trace: Trace, method: Method, phases: int, capacity: int
) -> tuple[FittedDistribution | None, list[str]]:
    """The law of lifetimes; None when no page grew obsolete. Not exponential only on strong evidence."""
    if len(trace.expired) == 0:
        return None, ["no page grew obsolete in the buffer: lifetimes are taken to be endless"]
    plain = fit_law(trace.expired, "exponential", outlived=trace.outlived)
    if method in ("exponential", "moments"):
        return plain, []
    if len(trace.expired) < 30:
        return plain, [f"only {len(trace.expired)} pages grew obsolete: lifetimes are taken for exponential"]
    if method == "auto" and 2.0 ** (capacity - 1) > LARGEST_ORDERED:
        apart = ks_distance(compare_distributions(trace.expired, plain.times, trace.outlived), len(trace.expired))
        if apart < 2 * NOTICEABLE:
            return plain, []
        return plain, [
            f"lifetimes are {apart:.2f} away from exponential ones, but with room for {capacity} pages no "
            "others can be solved: taken for exponential ones with which as many pages grow obsolete"
        ]
    likely = fit_law(trace.expired, "likelihood" if method == "auto" else method, phases, trace.outlived)
    solvable = likely.times.order ** float(capacity - 1) <= LARGEST_ORDERED
    if method == "auto" and (likely.criterion > plain.criterion - _STRONG or not solvable):
        return plain, []
    return likely, []


def _service_part(
    law: FittedDistribution, times: FloatArray, method: Method, phases: int, draws: int, rng: np.random.Generator | None
) -> FittedPart:
    found = compare_distributions(times, law.times)
    apart = ks_distance(found, len(times))

    def again() -> float:
        assert rng is not None
        drawn = law.times.sample(rng, len(times))
        return ks_distance(compare_distributions(drawn, fit_law(drawn, method, phases, rng=rng).times), len(drawn))

    chance = bootstrap_p_value(apart, draws, again) if rng else ks_p_value(apart, len(times))
    data, fitted = Moments.of_sample(times), _moments_of_law(law.times)
    remarks = law.misses
    if len(times) >= 100 and not 0.6 < (fitted.scv + 0.05) / (data.scv + 0.05) < 1.6:
        remarks = (*remarks, f"the times have scv {data.scv:.3g}, the fit {fitted.scv:.3g}")
    name, drawn = f"{law.name} (by {law.by})", rng is not None
    return FittedPart("service", name, len(times), 0, data, fitted, apart, chance, drawn, found, remarks=remarks)


def _lifetime_part(law: FittedDistribution, trace: Trace) -> FittedPart:
    found = compare_distributions(trace.expired, law.times, trace.outlived)
    sample, name = len(trace.expired), f"{law.name} (by likelihood)"
    data, apart = Moments.of_sample(trace.expired), ks_distance(found, sample)
    seen = "lifetime", name, sample, len(trace.outlived), data
    return FittedPart(*seen, _moments_of_law(law.times), apart, None, False, found, remarks=law.misses)


def _arrivals_part(
    mode: WorkerCountFit, arrivals: BatchArrivals, draws: int, rng: np.random.Generator | None
) -> FittedPart:
    stream, law = mode.stream, arrivals.intervals
    rescaled = mode.expected is not None
    if mode.expected is not None:
        # Intervals by a clock that runs as fast as batches are expected: exponential, if the fit is true.
        sample, found = len(mode.expected), compare_distributions(mode.expected, PhaseType.exponential(1.0))
    else:
        sample, found = len(stream.whole), compare_distributions(stream.whole, law, stream.cut)
    apart = ks_distance(found, max(sample, 1))

    def again() -> float:
        assert rng is not None
        drawn = np.diff(arrivals.sample(rng, sample + 1).times)
        runs, sizes, seconds = np.zeros(sample, np.int64), np.ones(sample, np.int64), float(drawn.sum())
        fresh = ArrivalStream(stream.robots, drawn, runs, np.empty(0), sizes, seconds, sample)
        return ks_distance(compare_distributions(drawn, fit_mode(fresh).arrivals().intervals), sample)

    chance: float | None = None
    few = stream.censored_interval_share <= CUT_OFTEN
    played = few and not rescaled and sample > 0 and rng is not None
    if played:
        chance = bootstrap_p_value(apart, draws, again)
    elif rescaled or (few and ljung_box_p_value(mode.correlations, sample) > 0.01):
        chance = ks_p_value(apart, max(sample, 1))
    name, data = f"arrivals with {workers_text(stream.robots)}", Moments.of_sample(stream.whole)
    seen = name, mode.law, sample, len(stream.cut), data, _moments_of_law(law), apart, chance, played, found
    if rescaled:
        return FittedPart(*seen, remarks=mode.remarks, rescaled=True)
    fitted = tuple(arrivals.lag_correlation(k) for k in range(1, LAGS + 1))
    return FittedPart(*seen, tuple(mode.correlations.tolist()), fitted, mode.remarks)


def _moments_of_law(law: PhaseType) -> Moments:
    return Moments(law.mean, law.scv, law.moment(3))
