"""Exact means of the urn game, computed without playing it.

Without an offline side the game is a closed network of queues (Buijsrogge 2014, section 4.1): K balls, one
queue per host, every non-empty queue served at the same rate, every served ball sent to host i with
probability p_i. Its stationary law is a product form, prod p_i^q_i / G_K with G_k = [z^k] prod 1 / (1 -
p_i z), for *any* p; the thesis solves the uniform case by a mean-field argument and leaves the others
open. The game is the jump chain of that network, so there are two means: over time, where a state lasts 1
/ (number of colours), and over steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldmouse.errors import UsageError

Reals = npt.NDArray[np.float64]

#: Largest K; the stationary means take time proportional to the square of K.
MOST_PLACES = 100_000


def initial_colours(p: Reals, capacity: int) -> float:
    """(3.1): expected number of colours among the first K balls."""
    with np.errstate(divide="ignore"):
        return float(-np.expm1(capacity * np.log1p(-p)).sum())


@dataclass(frozen=True, slots=True)
class StationaryMeans:
    """Mean number of colours online, over time and over steps."""

    per_time: float
    per_step: float


def stationary_means(p: Reals, capacity: int) -> StationaryMeans:
    """Exact means for any probabilities p.

    A colour is present with probability p_i G_(K-1) / G_K and two of them with p_i p_j G_(K-2) / G_K. The
    sum over i is the mean of the number of colours D over time. Over steps a state counts once each time
    it is left, so the mean is E[D^2] / E[D].
    """
    if capacity > MOST_PLACES:
        raise UsageError(
            f"the exact mean for {capacity:,} places would take hours",
            f"ask for {MOST_PLACES:,} at most, or play the game",
        )
    before, last = _ratios(p, capacity)
    return StationaryMeans(per_time=last, per_step=1.0 + (1.0 - float(p @ p)) * before)


def _ratios(p: Reals, capacity: int) -> tuple[float, float]:
    """G_(K-2) / G_(K-1) and G_(K-1) / G_K.

    k G_k = sum over j of P_j G_(k-j), with P_j = sum over i of p_i^j (Newton). All terms
    are positive, so nothing cancels. With p measured in units of its largest entry G
    never falls, and the ratios to the newest G stay between 0 and 1.
    """
    largest = float(p.max())
    powers = _power_sums(p / largest, capacity)
    shares = np.zeros(capacity + 1)  # shares[j] = G_(k-1-j) / G_(k-1)
    shares[0] = 1.0
    before = last = 0.0
    for k in range(1, capacity + 1):
        growth = float(powers[:k] @ shares[:k]) / k  # G_k / G_(k-1)
        shares[1 : k + 1] = shares[:k] / growth
        shares[0] = 1.0
        before, last = last, 1.0 / (largest * growth)
    return before, last


def _power_sums(x: Reals, most: int) -> Reals:
    """sum x^j for j = 1 to `most`, where 0 <= x <= 1; entries are dropped once they are negligible."""
    values, counts = np.unique(x[x > 0.0], return_counts=True)
    values, weights = values[::-1].copy(), counts[::-1].astype(np.float64)
    raised = values.copy()
    sums = np.empty(most)
    for j in range(most):
        sums[j] = raised @ weights
        raised *= values
        if j % 16 == 15:
            # Sorted, smallest last: together the dropped ones add less than the last bit of the first, which
            # stays 1.
            count = int(np.searchsorted(-raised, -1e-18 / len(x)))
            if count < len(raised):
                raised, values, weights = raised[:count].copy(), values[:count].copy(), weights[:count].copy()
    return sums


def min_draws_per_step(p: Reals, distinct: float) -> float:
    """Smallest number of draws per step with which any strategy can keep `distinct` colours online.

    On average a host leaves at most once in `distinct` steps, and at most as often as it is drawn, so 1 <=
    sum min(d p_i, 1 / distinct). Infinite if there are too few hosts.
    """
    shares = np.sort(p[p > 0.0])[::-1]
    # For each m: the m largest contribute their maximum, the others all their draws.
    rest = np.concatenate((np.cumsum(shares[::-1])[::-1], [0.0]))
    wanted = 1.0 - np.arange(len(shares) + 1) / distinct
    if wanted[-1] > 1e-12:
        return float("inf")
    return float((wanted[:-1] / rest[:-1]).max())


def mean_field_colours(hosts: int, capacity: int) -> float:
    """Theorem 4.2.1: colours online for uniform p. It is the exact mean over time."""
    return capacity * hosts / (capacity + hosts - 1)


def mean_field_new_probability(hosts: int, capacity: int) -> float:
    """Theorem 4.2.1: P_new for uniform p, the probability that a drawn colour is not online."""
    return (hosts - 1) / (capacity + hosts - 1)
