"""Fit of the arrivals of a single mode.

The rate of a mode is its number of arrivals divided by its duration. The shape
comes from its intervals, and where many were cut short, from a likelihood that
accounts for it. Arrivals that cannot be distinguished from a Poisson stream are fitted as one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmouse.queueing.fit.goodness import Moments, portmanteau
from fieldmouse.queueing.fit.hypererlang import HyperErlang, climb, condensed
from fieldmouse.queueing.fit.intervals import ArrivalStream, lag_correlations
from fieldmouse.queueing.fit.mapfit import LEAST_SCV, decay_of, means_of_phases, order_two, third_moment_range
from fieldmouse.queueing.model.bmap import BatchArrivals
from fieldmouse.queueing.model.entries import FloatArray, IntArray

FEWEST = 30
"""Intervals below which only the rate of a mode is learned."""

LAGS = 10
LARGEST_BATCH = 64

_TRACE = 1e-9  # the least share of a phase

CUT_OFTEN = 0.05
"""Share of cut intervals above which plain moments would mislead."""


@dataclass(frozen=True, eq=False)
class ModeFit:
    """One mode: batches as a process, how many pages each brings, and what to say about it."""

    stream: ArrivalStream
    D0: FloatArray
    D1: FloatArray
    shares: FloatArray  # shares[k - 1] of the batches bring k pages
    law: str
    correlations: FloatArray
    remarks: tuple[str, ...]
    expected: FloatArray | None = (
        None  # where modes were fitted together: batches expected from one to the next
    )

    def arrivals(self, start: FloatArray | None = None) -> BatchArrivals:
        """The process; one of a single phase spread over the phases that other modes `start` with."""
        D0, D1 = self.D0, self.D1
        if start is not None and len(D0) < len(start):
            # Some patterns begin every interval in one phase; yet each phase must lead to every other.
            start = np.maximum(start, _TRACE) / np.maximum(start, _TRACE).sum()
            D0, D1 = np.eye(len(start)) * D0[0, 0], D1[0, 0] * np.tile(start, (len(start), 1))
        return BatchArrivals((D0, *(share * D1 for share in self.shares)))


def fit_mode(stream: ArrivalStream) -> ModeFit:
    """The process of one mode that was seen."""
    remarks: list[str] = []
    shares, lumped = batch_shares(stream.sizes)
    if lumped:
        remarks.append(f"{lumped} batches of more than {LARGEST_BATCH} pages count as {LARGEST_BATCH}")
    rate, sample = stream.rate, len(stream.whole)
    poisson = np.array([[-rate]]), np.array([[rate]])
    nothing = np.zeros(LAGS)
    if sample < FEWEST:
        remarks.append(f"only {sample} whole intervals were seen: taken for a Poisson stream")
        return ModeFit(stream, *poisson, shares, "Poisson", nothing, tuple(remarks))
    if stream.cut_share > CUT_OFTEN:
        remarks.append(
            f"{stream.cut_share:.0%} of the intervals were cut short by a change of mode: "
            "how they hang together was not looked at"
        )
        moments, correlations = _uncut(stream), nothing
    else:
        moments, correlations = Moments.of(stream.whole), lag_correlations(stream, LAGS)
    together = portmanteau(correlations, sample) < 0.01
    if abs(moments.scv - 1) < 5 / np.sqrt(sample) and not together:  # 2.5 deviations of an exponential sample
        return ModeFit(stream, *poisson, shares, "Poisson", correlations, tuple(remarks))
    decay = decay_of(correlations.tolist(), moments.scv) if together else 0.0
    found = order_two(1 / rate, moments.scv, _likeliest_third(stream, moments) / rate**3, decay)
    remarks += found.misses
    if together and abs(found.first_correlation - correlations[0]) > 0.1:
        remarks.append(
            f"successive intervals correlate by {correlations[0]:.2f}, and two phases with this variance "
            f"only by {found.first_correlation:.2f}"
        )
    law = f"Markovian arrivals of order 2, correlations decaying by {found.decay:.3g}"
    return ModeFit(stream, found.D0, found.D1, shares, law, correlations, tuple(remarks))


def _likeliest_third(stream: ArrivalStream, moments: Moments) -> float:
    """The third moment, of intervals of mean 1, with which two phases tell the intervals best.

    That of the sample hangs on a few longest intervals; it is only one of those tried.
    """
    scv, sample = moments.scv, moments.third / moments.mean**3
    if scv < LEAST_SCV or abs(scv - 1) < 1e-6:
        return sample
    least, most = third_moment_range(1.0, scv)
    tried = np.linspace(least, most, 9) if scv < 1 else least * np.geomspace(1.001, 30.0, 25)
    tried = np.append(tried, np.clip(sample, least, most))
    points, counts = condensed(stream.whole / moments.mean, 80)

    def worth(third: float) -> float:
        if scv > 1:
            slow, fast = means_of_phases(1.0, scv, third)
            share = (1 - fast) / (slow - fast)
            return HyperErlang.of([share, 1 - share], [1, 1], [1 / slow, 1 / fast]).log_likelihood(
                points, counts
            )
        found = order_two(1.0, scv, third)
        law = BatchArrivals((found.D0, found.D1)).intervals
        return float(counts @ np.log(np.maximum(law.pdf(points), 1e-300)))

    return float(max(tried.tolist(), key=worth))


def _uncut(stream: ArrivalStream) -> Moments:
    """Moments of the intervals as they would be if no mode ended: one or two branches, as the data earn."""
    whole, counts = condensed(np.maximum(stream.whole, 1e-9 * stream.whole.mean()))
    cut, cut_counts = condensed(stream.cut)
    best, least = None, np.inf
    for steps in ((1,), (1, 1), (2,), (3,), (2, 1)):
        law, likelihood = climb(steps, whole, counts, cut, cut_counts)
        worth = law.parameters * np.log(len(stream.whole)) - 2 * likelihood
        if worth < least:
            best, least = law, worth
    assert best is not None
    return Moments(best.mean, best.scv, best.moment(3))


def batch_shares(sizes: IntArray) -> tuple[FloatArray, int]:
    """The share of batches with 1, 2, ... pages, and how many were larger than we count."""
    if len(sizes) == 0:
        return np.ones(1), 0
    counts = np.bincount(np.minimum(sizes, LARGEST_BATCH))[1:]
    return counts / counts.sum(), int((sizes > LARGEST_BATCH).sum())
