"""Estimators of Cho and Garcia-Molina (Estimating frequency of change, 2003): change rates from counts.

n polls at even gaps found x changes. The naive estimator divides changes by time, and misses all but one
change between two polls. The second corrects this, with a half added so that it is nearly unbiased and
stays finite. The third maximises the likelihood for uneven gaps. They serve as a comparison for the
beliefs of this package: each knows one page only, and forgets nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

_STEPS = 100


def naive(looks: npt.ArrayLike, changes: npt.ArrayLike, gap: npt.ArrayLike = 1.0) -> Reals:
    """
    >>> float(naive(10, 5, gap=2.0))
    0.25
    """
    return np.asarray(np.asarray(changes, np.float64) / (np.asarray(looks) * np.asarray(gap)))


def reduced_bias(looks: npt.ArrayLike, changes: npt.ArrayLike, gap: npt.ArrayLike = 1.0) -> Reals:
    """
    >>> round(float(reduced_bias(10, 5)), 4), round(float(reduced_bias(10, 10)), 4)
    (0.6466, 3.0445)
    """
    n, x = np.asarray(looks, np.float64), np.asarray(changes, np.float64)
    return np.asarray(-np.log((n - x + 0.5) / (n + 0.5)) / np.asarray(gap))


def maximum_likelihood(gaps: npt.ArrayLike, changed: npt.ArrayLike) -> float:
    """Most likely rate for the polls of one page; 0 without changes, infinite if all polls found one.

    >>> round(maximum_likelihood([1.0] * 10, [True] * 5 + [False] * 5), 6)  # even gaps: -log(1 - 5/10)
    0.693147
    """
    spans, bits = np.asarray(gaps, np.float64), np.asarray(changed, bool)
    if not bits.any():
        return 0.0
    if bits.all():
        return float("inf")
    still, stirred = float(spans[~bits].sum()), spans[bits]
    # Where the two sides of sum(g / (exp(r g) - 1)) = still meet; the left one falls with r.
    low, high = 0.0, 1.0 / float(stirred.min())
    while _pull(stirred, high) > still:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _pull(stirred, middle) > still else (low, middle)
    return (low + high) / 2


def _pull(gaps: Reals, rate: float) -> float:
    if rate <= 0:
        return float("inf")
    return float((gaps / np.expm1(np.minimum(rate * gaps, 700.0))).sum())
