"""Service times and lifetimes: from a sample, or from a few moments, to a phase type.

By moments: two branches for times that vary more than exponential ones, as many as
possible equal steps for times that vary less. By likelihood: the best mixture of
Erlang times among the small ones. Which is kept decides Schwarz's criterion (BIC):
the likelihood, less what each further parameter must earn. Few times, ten or less,
say nothing about shape, and are taken for exponential.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from fieldmouse.errors import FieldmouseError
from fieldmouse.queueing.fit.hypererlang import HyperErlang, climb, condensed
from fieldmouse.queueing.fit.mapfit import means_of_phases
from fieldmouse.queueing.fit.phem import most_likely
from fieldmouse.queueing.model.entries import FloatArray
from fieldmouse.queueing.model.ph import PhaseType

Method: TypeAlias = Literal["auto", "exponential", "moments", "likelihood", "general"]

FEWEST = 10
"""Times below which only the mean is learned."""

_NONE: FloatArray = np.empty(0)


class FitError(FieldmouseError):
    """A sample from which this cannot be learned."""


@dataclass(frozen=True, eq=False)
class Law:
    """The law, how it was found, Schwarz's criterion of it, and a sentence for each wish it does not meet."""

    times: PhaseType
    name: str
    by: Literal["mean", "moments", "likelihood"]
    criterion: float
    misses: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Matched:
    """A mixture with given moments, or nearly."""

    times: HyperErlang
    misses: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Sample:
    """A few points with counts in the place of many times, and the same of those known only to be longer."""

    times: FloatArray
    counts: FloatArray
    outlived: FloatArray
    outlived_counts: FloatArray

    def criterion(self, law: HyperErlang) -> float:
        likelihood = law.log_likelihood(self.times, self.counts)
        with np.errstate(divide="ignore"):
            likelihood += float(self.outlived_counts @ np.log(law.survival(self.outlived)))
        return self.charge(law.parameters) - 2 * likelihood

    def charge(self, parameters: int) -> float:
        return parameters * float(np.log(self.counts.sum()))

    def climb(self, steps: tuple[int, ...], rounds: int, start: HyperErlang | None = None) -> HyperErlang:
        law, _ = climb(steps, self.times, self.counts, self.outlived, self.outlived_counts, rounds, start)
        return law


def by_moments(mean: float, scv: float, third: float | None = None, phases: int = 8) -> Matched:
    """The mixture with these moments; the third may be None, and is used for times that vary much.

    >>> round(by_moments(mean=2.0, scv=0.4).times.scv, 9)
    0.4
    """
    assert mean > 0, "times have a mean"
    if abs(scv - 1) < 1e-9:
        return Matched(_exponential(mean))
    if scv < 1:
        return _steady(mean, max(scv, 0.0), phases)
    misses: tuple[str, ...] = ()
    # Bound and formula as for arrivals: two phases, the slow one drawn with a probability.
    if third is not None and third > 1.5 * mean**3 * (1 + scv) ** 2 * (1 + 1e-9):
        slow, fast = means_of_phases(mean, scv, third)
        share = (mean - fast) / (slow - fast)
        return Matched(HyperErlang.of([share, 1 - share], [1, 1], [1 / slow, 1 / fast]))
    if third is not None:
        misses = (
            f"a third moment of {third:.4g} cannot go with two branches; both take the same time in all",
        )
    share = (1 + np.sqrt((scv - 1) / (scv + 1))) / 2
    rates = [2 * (1 - share) / mean, 2 * share / mean]
    return Matched(HyperErlang.of([1 - share, share], [1, 1], rates), misses)


def _steady(mean: float, scv: float, phases: int) -> Matched:
    """k or k - 1 equal steps, with 1 / k <= scv < 1 / (k - 1) (Tijms 1994)."""
    if scv * phases <= 1:
        low = scv * phases < 1 - 1e-9
        misses = (f"the times vary less (scv {scv:.3g}) than {phases} phases can",) if low else ()
        return Matched(HyperErlang.of([1.0], [phases], [phases / mean]), misses)
    k = int(np.ceil(1 / scv - 1e-12))
    short = (k * scv - np.sqrt(max(k * (1 + scv) - k * k * scv, 0.0))) / (1 + scv)
    rate = (k - short) / mean
    if short < 1e-12 or k == 1:
        return Matched(HyperErlang.of([1.0], [k], [k / mean]))
    return Matched(HyperErlang.of([short, 1 - short], [k - 1, k], [rate, rate]))


def law_of(
    times: FloatArray,
    method: Method = "auto",
    phases: int = 6,
    outlived: FloatArray = _NONE,
    rng: np.random.Generator | None = None,
) -> Law:
    """The law of a sample; of the times `outlived` only a lower bound is known.

    "auto" keeps the law that earns its parameters: exponential, by moments, or the most likely
    mixture. "general" is the most likely phase type of exactly `phases` phases, and needs
    a random generator to start from. Moments are those of the whole times, so they do not apply to a
    sample with bounds.
    """
    if len(times) == 0:
        raise FitError("there is no time to learn from", "let the crawl run longer")
    seconds = float(times.sum() + outlived.sum())
    if seconds <= 0:
        raise FitError("all times are zero", "the clock that took them is too coarse")
    sample = _Sample(*condensed(np.maximum(times, 1e-9 * seconds / len(times))), *condensed(outlived))

    def law(mixture: HyperErlang, by: Literal["mean", "moments", "likelihood"], *misses: str) -> Law:
        return Law(mixture.phase_type(), mixture.name, by, sample.criterion(mixture), misses)

    plain = law(_exponential(seconds / len(times)), "mean")
    if method == "exponential":
        return plain
    if len(times) < FEWEST:
        return replace(plain, misses=(f"only {len(times)} times were seen: taken for exponential",))
    if method == "general":
        return _general(times, phases, outlived, rng, sample.charge(2 * phases - 1))
    mean = float(times.mean())
    matched = by_moments(mean, float(times.var()) / mean**2, float((times**3).mean()), phases)
    moments = law(matched.times, "moments", *matched.misses)
    if method == "moments":
        return moments
    likely = law(_likeliest(sample, phases), "likelihood")
    if method == "likelihood":
        return likely
    known = [plain, likely] if len(outlived) else [plain, moments, likely]
    return min(known, key=lambda law: law.criterion)


def _general(
    times: FloatArray, phases: int, outlived: FloatArray, rng: np.random.Generator | None, charge: float
) -> Law:
    """However many rates there are, a law of n phases has at most 2 n - 1 free parameters."""
    found, likelihood = most_likely(times, phases, rng or np.random.default_rng(0), outlived)
    return Law(found, f"phase type of {phases} phases", "likelihood", charge - 2 * likelihood)


def _likeliest(sample: _Sample, phases: int) -> HyperErlang:
    """A short climb from everywhere, then a long one from the best three."""
    begun = sorted((sample.climb(steps, 20) for steps in _shapes(phases)), key=sample.criterion)
    return min((sample.climb((), 300, law) for law in begun[:3]), key=sample.criterion)


def _shapes(phases: int) -> Iterator[tuple[int, ...]]:
    """Numbers of steps of up to three branches, with at most `phases` phases in all."""
    for one in range(1, phases + 1):
        yield (one,)
        for two in range(1, min(one, phases - one) + 1):
            yield (one, two)
            for three in range(1, min(two, phases - one - two) + 1):
                yield (one, two, three)


def _exponential(mean: float) -> HyperErlang:
    return HyperErlang.of([1.0], [1], [1 / mean])
