"""What the urn game does on average, without playing it.

Without an offline side the game is a closed network of queues (Buijsrogge 2014,
section 4.1): K balls, one queue per host, every queue that is not empty served at
the same rate, every ball served sent to host i with probability p_i. Its stationary
law is a product form, prod p_i^q_i / G_K with G_k = [z^k] prod 1 / (1 - p_i z), for
*any* p; the thesis solves the uniform case by a mean-field argument and leaves the
others open. The game is the jump chain of that network, so there are two means:
over time, where a state lasts 1 / (number of colours), and over steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldmouse.errors import UsageError

Reals = npt.NDArray[np.float64]

MOST_PLACES = 100_000
"""The stationary means take time in proportion to the square of K."""


def initial_mean(p: Reals, capacity: int) -> float:
    """(3.1): colours among the first K balls."""
    with np.errstate(divide="ignore"):
        return float(-np.expm1(capacity * np.log1p(-p)).sum())


@dataclass(frozen=True, slots=True)
class Stationary:
    """Mean number of colours online, where time passes and where steps are counted."""

    per_time: float
    per_step: float


def stationary(p: Reals, capacity: int) -> Stationary:
    """The exact means for any probabilities p.

    A colour is present with probability p_i G_(K-1) / G_K and two of them with
    p_i p_j G_(K-2) / G_K. Summed over i, that is the mean D of the number of colours
    over time; over steps a state counts as often as it is left, so it is E[D^2] / E[D].
    """
    if capacity > MOST_PLACES:
        raise UsageError(
            f"the exact mean for {capacity:,} places would take hours",
            f"ask for {MOST_PLACES:,} at most, or play the game",
        )
    before, last = _ratios(p, capacity)
    return Stationary(per_time=last, per_step=1.0 + (1.0 - float(p @ p)) * before)


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
    """sum x^j for j = 1 to `most`, where 0 <= x <= 1; entries are left out once they no longer count."""
    values, counts = np.unique(x[x > 0.0], return_counts=True)
    values, weights = values[::-1].copy(), counts[::-1].astype(np.float64)
    raised = values.copy()
    sums = np.empty(most)
    for j in range(most):
        sums[j] = raised @ weights
        raised *= values
        if j % 16 == 15:
            # Sorted, the smallest last: together they add less than the last bit of the first, which stays 1.
            count = int(np.searchsorted(-raised, -1e-18 / len(x)))
            if count < len(raised):
                raised, values, weights = raised[:count].copy(), values[:count].copy(), weights[:count].copy()
    return sums


def fewest_draws(p: Reals, distinct: float) -> float:
    """The smallest number of draws per step with which any strategy can keep so many colours online.

    A host leaves at most once in `distinct` steps on average, and no more often than it is
    drawn, so 1 <= sum min(d p_i, 1 / distinct). Infinite if there are too few hosts.
    """
    shares = np.sort(p[p > 0.0])[::-1]
    # For each m: the m largest give all they can, the others all that is drawn of them.
    rest = np.concatenate((np.cumsum(shares[::-1])[::-1], [0.0]))
    wanted = 1.0 - np.arange(len(shares) + 1) / distinct
    if wanted[-1] > 1e-12:
        return float("inf")
    return float((wanted[:-1] / rest[:-1]).max())


def mean_field(hosts: int, capacity: int) -> float:
    """Theorem 4.2.1: colours online for uniform p. It is the exact mean over time."""
    return capacity * hosts / (capacity + hosts - 1)


def mean_field_new(hosts: int, capacity: int) -> float:
    """Theorem 4.2.1: P_new for uniform p, the chance that a draw is of a colour that is not online."""
    return (hosts - 1) / (capacity + hosts - 1)
