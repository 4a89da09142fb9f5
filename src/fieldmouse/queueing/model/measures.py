"""Measures of a solved model: starvation, loss, obsolescence, active fetch workers, time in the system.

All rates are sums of events, never one minus the opposite: a loss of 1e-30
is as exact as one of a half. `lambda` is the controlled rate of the paper's (9),
so that a page is dropped, obsolete or served with the three probabilities of (8),
(14) and (15), which add up to one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmouse.queueing.model.model import Chain, Cost
from fieldmouse.queueing.model.validation import FloatArray, ModelError


@dataclass(frozen=True, eq=False)
class Measures:
    """`loss`, `obs` and `success` are probabilities of a page; `star` is the share of time the server idles.

    `sojourn_served` (V1) and `sojourn_obsolete` (V2, None when no page grows obsolete)
    are mean times of pages that end so; `sojourn` (V) is that of any page, a dropped one
    staying no time at all (the paper's (22)).
    """

    rate: float
    loss: float
    obs: float
    success: float
    star: float
    robots: float
    robots_distribution: dict[int, float]
    levels: FloatArray
    sojourn: float
    sojourn_served: float
    sojourn_obsolete: float | None
    method: str

    @property
    def mean_level(self) -> float:
        """L, the mean number of pages in the system; by Little's law rate x sojourn."""
        return float(np.arange(len(self.levels)) @ self.levels)


@dataclass(frozen=True, slots=True)
class StayTotals:
    """Of pages that end in one way: how many in a unit of time, and the sums of their times and squares."""

    rate: float
    time: float
    square: float

    @property
    def mean(self) -> float | None:
        return self.time / self.rate if self.rate > 0 else None

    @property
    def variance(self) -> float | None:
        return None if self.mean is None else self.square / self.rate - self.mean**2


def compute_measures(
    chain: Chain, share: FloatArray, fades: FloatArray, served: StayTotals, obsolete: StayTotals, method: str
) -> Measures:
    """`share` and `fades` by level, arrival phase and service phase; the stays in pages and their times."""
    by_phase = share.sum(axis=2)
    levels = by_phase.sum(axis=1)
    brought = float((by_phase * chain.arrivals.brought).sum())
    success = float((share[1:] @ chain.model.service.exit).sum()) / brought
    obs = float((share * fades).sum()) / brought
    if served.mean is None:
        raise ModelError("no page is ever served: every batch is larger than K and turned away")
    distribution = {r: float(levels[chain.robots == r].sum()) for r in map(int, np.unique(chain.robots))}
    return Measures(
        rate=brought,
        loss=float((by_phase * chain.arrivals.dropped).sum()) / brought,
        obs=obs,
        success=success,
        star=float(levels[0]),
        robots=sum(r * p for r, p in distribution.items()),
        robots_distribution=distribution,
        levels=levels,
        sojourn=(served.time + obsolete.time) / brought,
        sojourn_served=served.mean,
        sojourn_obsolete=obsolete.mean,
        method=method,
    )


def cost_of(found: Measures, weights: Cost) -> float:
    """The cost J of the measures."""
    return weights.total(
        dropped=found.rate * found.loss,
        obsolete=found.rate * found.obs,
        sojourn=found.sojourn_served,
        robots=found.robots,
        star=found.star,
    )
