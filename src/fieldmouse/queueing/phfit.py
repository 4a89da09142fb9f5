"""Service times and lifetimes: from a sample, or from a few moments, to a phase type.

By moments: two branches for times that vary more than exponential ones, as many as
possible equal steps for times that vary less. By likelihood: the best mixture of
Erlang times among the small ones. Which is kept decides Schwarz's criterion (BIC):
the likelihood, less what each further parameter must earn. Few times, ten or less,
say nothing about shape, and are taken for exponential.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from fieldmouse.errors import FieldmouseError
from fieldmouse.queueing.entries import FloatArray
from fieldmouse.queueing.hypererlang import HyperErlang, climb, condensed
from fieldmouse.queueing.mapfit import means_of_phases

Method: TypeAlias = Literal["auto", "exponential", "moments", "likelihood"]

FEWEST = 10
"""Times below which only the mean is learned."""

_NONE: FloatArray = np.empty(0)


class FitError(FieldmouseError):
    """A sample from which this cannot be learned."""


@dataclass(frozen=True, eq=False)
class Law:
    """The law, how it was found, and a sentence for each wish that it does not meet."""

    times: HyperErlang
    by: Literal["mean", "moments", "likelihood"]
    misses: tuple[str, ...] = ()


def by_moments(mean: float, scv: float, third: float | None = None, phases: int = 8) -> Law:
    """The mixture with these moments; the third may be None, and is used for times that vary much.

    >>> round(by_moments(mean=2.0, scv=0.4).times.scv, 9)
    0.4
    """
    assert mean > 0, "times have a mean"
    if abs(scv - 1) < 1e-9:
        return Law(_exponential(mean), "moments")
    if scv < 1:
        return _steady(mean, max(scv, 0.0), phases)
    misses: tuple[str, ...] = ()
    # Bound and formula as for arrivals: two phases, the slow one drawn with a probability.
    if third is not None and third > 1.5 * mean**3 * (1 + scv) ** 2 * (1 + 1e-9):
        slow, fast = means_of_phases(mean, scv, third)
        share = (mean - fast) / (slow - fast)
        return Law(HyperErlang.of([share, 1 - share], [1, 1], [1 / slow, 1 / fast]), "moments")
    if third is not None:
        misses = (
            f"a third moment of {third:.4g} cannot go with two branches; both take the same time in all",
        )
    share = (1 + np.sqrt((scv - 1) / (scv + 1))) / 2
    return Law(
        HyperErlang.of([1 - share, share], [1, 1], [2 * (1 - share) / mean, 2 * share / mean]),
        "moments",
        misses,
    )


def _steady(mean: float, scv: float, phases: int) -> Law:
    """k or k - 1 equal steps, with 1 / k <= scv < 1 / (k - 1) (Tijms 1994)."""
    if scv * phases <= 1:
        low = scv * phases < 1 - 1e-9
        misses = (f"the times vary less (scv {scv:.3g}) than {phases} phases can",) if low else ()
        return Law(HyperErlang.of([1.0], [phases], [phases / mean]), "moments", misses)
    k = int(np.ceil(1 / scv - 1e-12))
    short = (k * scv - np.sqrt(max(k * (1 + scv) - k * k * scv, 0.0))) / (1 + scv)
    rate = (k - short) / mean
    if short < 1e-12 or k == 1:
        return Law(HyperErlang.of([1.0], [k], [k / mean]), "moments")
    return Law(HyperErlang.of([short, 1 - short], [k - 1, k], [rate, rate]), "moments")


def law_of(times: FloatArray, method: Method = "auto", phases: int = 6, outlived: FloatArray = _NONE) -> Law:
    """The law of a sample; of the times `outlived` only a lower bound is known.

    Moments are those of the whole times, so a sample with many bounds is fitted
    by likelihood.
    """
    if len(times) == 0:
        raise FitError("there is no time to learn from", "let the crawl run longer")
    seconds = float(times.sum() + outlived.sum())
    if seconds <= 0:
        raise FitError("all times are zero", "the clock that took them is too coarse")
    exponential = _exponential(seconds / len(times))
    if method == "exponential":
        return Law(exponential, "mean")
    if len(times) < FEWEST:
        return Law(exponential, "mean", (f"only {len(times)} times were seen: taken for exponential",))
    mean = float(times.mean())
    moments = by_moments(mean, float(times.var()) / mean**2, float((times**3).mean()), phases)
    if method == "moments":
        return moments
    points, counts = condensed(np.maximum(times, 1e-9 * mean))
    bounds, bound_counts = condensed(outlived)
    likely = _likeliest(points, counts, bounds, bound_counts, phases)
    if method == "likelihood":
        return likely
    known = [Law(exponential, "mean"), likely]
    if len(outlived) == 0:
        known.append(moments)
    return min(known, key=lambda law: criterion(law.times, points, counts, bounds, bound_counts))


def criterion(
    law: HyperErlang, times: FloatArray, counts: FloatArray, outlived: FloatArray, outlived_counts: FloatArray
) -> float:
    """Schwarz's criterion of a law: the lower, the better it earns its parameters."""
    likelihood = law.log_likelihood(times, counts)
    with np.errstate(divide="ignore"):
        likelihood += float(outlived_counts @ np.log(law.survival(outlived)))
    return law.parameters * float(np.log(counts.sum())) - 2 * likelihood


def _likeliest(
    times: FloatArray, counts: FloatArray, outlived: FloatArray, outlived_counts: FloatArray, phases: int
) -> Law:
    """A short climb from everywhere, then a long one from the best three."""
    begun: list[tuple[float, HyperErlang]] = []
    for steps in _shapes(phases):
        law, _ = climb(steps, times, counts, outlived, outlived_counts, rounds=20)
        begun.append((criterion(law, times, counts, outlived, outlived_counts), law))
    begun.sort(key=lambda pair: pair[0])
    ended: list[tuple[float, HyperErlang]] = []
    for _, law in begun[:3]:
        better, _ = climb((), times, counts, outlived, outlived_counts, rounds=300, start=law)
        ended.append((criterion(better, times, counts, outlived, outlived_counts), better))
    return Law(min(ended, key=lambda pair: pair[0])[1], "likelihood")


def _shapes(phases: int) -> Iterator[tuple[int, ...]]:
    """Numbers of steps of up to three branches, in all at most so many phases."""
    for one in range(1, phases + 1):
        yield (one,)
        for two in range(1, min(one, phases - one) + 1):
            yield (one, two)
            for three in range(1, min(two, phases - one - two) + 1):
                yield (one, two, three)


def _exponential(mean: float) -> HyperErlang:
    return HyperErlang.of([1.0], [1], [1 / mean])
