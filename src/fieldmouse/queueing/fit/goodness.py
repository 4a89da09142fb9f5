"""Goodness of fit of a model against its trace.

For each part: moments and correlations beside each other, and the largest distance
between the distribution of the data and that of the fit (Kolmogorov and Smirnov).
The distribution of that distance under chance is found by bootstrap: samples of the same size
are drawn from the fit and fitted again, which accounts for the fit having used the
data. Without a bootstrap the textbook value is given, as if the law had
been known in advance: mostly too large, and never a reason to trust the fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fieldmouse.queueing.model.validation import FloatArray

#: Chance at which a part is said not to hold.
DOUBTFUL = 0.01

#: Distance below which a misfit, however certain, is too small to matter.
NOTICEABLE = 0.05

_POINTS = 1000  # of the sample at which a distribution is compared; misses less than 1/1000 of the distance
_NONE: FloatArray = np.empty(0)


class HasCdf(Protocol):
    def cdf(self, t: ArrayLike) -> FloatArray: ...


@dataclass(frozen=True, slots=True)
class Moments:
    mean: float
    scv: float  # squared coefficient of variation
    third: float  # E[X^3]

    @classmethod
    def of_sample(cls, times: FloatArray) -> Moments:
        if len(times) == 0 or times.mean() == 0:
            return cls(0.0, 0.0, 0.0)
        mean = float(times.mean())
        return cls(mean, float(times.var()) / mean**2, float((times**3).mean()))


@dataclass(frozen=True, eq=False, slots=True)
class DistributionCurves:
    """A distribution function of the data and of the fit at the same times."""

    times: FloatArray
    data: FloatArray
    fit: FloatArray


@dataclass(frozen=True, eq=False, slots=True)
class FittedPart:
    """One fitted part beside its data.

    `chance` is how often a true model would be this far off; `played` says whether
    it was played out or is only the textbook's. It is None where neither is known:
    for times of which many were cut short.
    """

    name: str
    law: str
    sample: int
    cut: int  # times of which only a lower bound was seen
    data: Moments
    fit: Moments
    distance: float
    chance: float | None
    played: bool
    curve: DistributionCurves
    correlations: tuple[float, ...] = ()
    fitted_correlations: tuple[float, ...] = ()
    remarks: tuple[str, ...] = ()
    rescaled: bool = False  # the curve counts batches expected since the last, not seconds

    @property
    def is_acceptable(self) -> bool:
        """A true model that is hard to fit may often be far off; the fit is then no better for it."""
        if self.distance < NOTICEABLE or self.sample == 0:
            return True
        textbook = ks_p_value(self.distance, self.sample)
        return min(textbook, 1.0 if self.chance is None else self.chance) > DOUBTFUL

    def to_row(self) -> dict[str, Any]:
        return {
            "part": self.name,
            "law": self.law,
            "sample": self.sample,
            "cut": self.cut,
            "data": {"mean": self.data.mean, "scv": self.data.scv, "third": self.data.third},
            "fit": {"mean": self.fit.mean, "scv": self.fit.scv, "third": self.fit.third},
            "distance": self.distance,
            "chance": self.chance,
            "played": self.played,
            "holds": self.is_acceptable,
            "correlations": list(self.correlations),
            "fitted_correlations": list(self.fitted_correlations),
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, eq=False, slots=True)
class FitReport:
    parts: tuple[FittedPart, ...]
    remarks: tuple[str, ...] = ()  # changes made to the trace, and data missing in it

    @property
    def is_acceptable(self) -> bool:
        return all(part.is_acceptable for part in self.parts)

    def warnings(self) -> list[str]:
        """All that a reader should know before trusting the model."""
        said = list(self.remarks)
        for part in self.parts:
            said += [f"{part.name}: {remark}" for remark in part.remarks]
            if not part.is_acceptable:
                said.append(
                    f"{part.name}: {part.law} does not tell the data well: "
                    f"the distributions are {part.distance:.3f} apart"
                )
        return said

    def to_dict(self) -> dict[str, Any]:
        return {
            "holds": self.is_acceptable,
            "parts": [part.to_row() for part in self.parts],
            "remarks": self.warnings(),
        }


def compare_distributions(times: FloatArray, law: HasCdf, cut: FloatArray = _NONE) -> DistributionCurves:
    """Data and fit at the times of the sample (at most 1000 of them); cut ones after Kaplan and Meier."""
    ordered = np.sort(times)
    if len(cut):
        at_risk = len(times) + len(cut) - np.searchsorted(ordered, ordered, side="left")
        at_risk = at_risk - np.searchsorted(np.sort(cut), ordered, side="left")
        # One factor per time; ties multiply to the same as one factor for all of them.
        rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered, side="left")
        data = 1 - np.cumprod(1 - 1 / (at_risk - rank))
    else:
        data = np.arange(1, len(ordered) + 1) / max(len(ordered), 1)
    chosen = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), _POINTS)).astype(np.int64))
    at = ordered[chosen]
    return DistributionCurves(at, np.asarray(data[chosen], np.float64), np.asarray(law.cdf(at)))


def ks_distance(found: DistributionCurves, sample: int) -> float:
    """The largest difference of the two distributions, just before and at each time."""
    if len(found.times) == 0:
        return 0.0
    before = np.maximum(found.data - 1 / sample, 0.0)
    return float(max(np.abs(found.data - found.fit).max(), np.abs(before - found.fit).max()))


def ks_p_value(apart: float, sample: int) -> float:
    """P(distance of `sample` independent times from their own law >= apart), after Kolmogorov.

    >>> round(ks_p_value(1.36 / 10, 100), 2)
    0.04
    """
    reach = (np.sqrt(sample) + 0.12 + 0.11 / np.sqrt(sample)) * apart  # Stephens (1970): good for small samples
    if reach < 0.2:
        return 1.0
    k = np.arange(1, 101)
    return float(np.clip(2 * np.sum((-1.0) ** (k - 1) * np.exp(-2 * (k * reach) ** 2)), 0.0, 1.0))


def bootstrap_p_value(apart: float, draws: int, again: Callable[[], float]) -> float:
    """How often a model that is true, fitted again, is as far off; `again` draws, fits and measures once.

    Once ten draws were as far off the rest is not played: the answer is clear (Besag and Clifford 1991).
    """
    worse = 0
    for played in range(1, draws + 1):
        worse += again() >= apart
        if worse == 10:
            return worse / played
    return (worse + 1) / (draws + 1)


def ljung_box_p_value(correlations: FloatArray, sample: int) -> float:
    """P(correlations this large at all these lags | there are none), after Ljung and Box (1978).

    The number of lags must be even: then chi-squared needs no special function.
    """
    lags = len(correlations)
    assert lags % 2 == 0, "an even number of lags"
    if sample <= lags + 1:
        return 1.0
    total = sample * (sample + 2) * float((correlations**2 / (sample - np.arange(1, lags + 1))).sum())
    half = min(total / 2, 700.0)
    terms = np.cumprod(np.concatenate(([1.0], half / np.arange(1, lags // 2))))
    return float(min(np.exp(-half) * terms.sum(), 1.0))
