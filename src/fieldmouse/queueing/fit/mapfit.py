"""A Markovian arrival process of order two with given moments and a given decay of its correlations.

The intervals of any such process have correlations rho_k = decay^k (c2 - 1) / (2 c2),
where c2 is the squared coefficient of variation: three moments fix the law of one
interval, the decay how intervals hang together, and nothing is left to choose.
Where the intervals vary more than exponential ones and hang together, D0 is
diagonal, as in Diamond and Alfa (2000): a slow phase, a fast phase, and a coin
thrown at each arrival. Elsewhere the canonical forms of Bodrog, Heindl, Horvath
and Telek (2008) serve, which reach everything that order two can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldmouse.queueing.model.entries import FloatArray

LEAST_SCV = 0.5
"""Two phases cannot vary less than Erlang's."""

LONGEST_DECAY = 0.999
"""A phase that lasts longer than a thousand arrivals cannot be told from a trend."""

_ROOM = 0.01  # kept to the bound of the third moment beyond which a phase would take no time
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class OrderTwo:
    """The process, what of the wishes it meets, and a sentence for each that it does not."""

    D0: FloatArray
    D1: FloatArray
    mean: float
    scv: float
    third: float
    decay: float
    misses: tuple[str, ...] = ()

    @property
    def first_correlation(self) -> float:
        return self.decay * (self.scv - 1) / (2 * self.scv)

    def correlation(self, lag: int) -> float:
        return self.decay ** (lag - 1) * self.first_correlation


def order_two(mean: float, scv: float, third: float | None = None, decay: float = 0.0) -> OrderTwo:
    """The process with this mean, squared coefficient of variation, third moment and decay, or the nearest.

    Earlier arguments have priority over later ones. Without a third
    moment the two phases begin equally many intervals, or the slow one 1 / scv
    of them, if that is less.

    >>> poisson = order_two(mean=2.0, scv=1.0)
    >>> poisson.D1.sum(axis=1)
    array([0.5, 0.5])
    """
    assert mean > 0, "intervals have a mean"
    misses: list[str] = []
    if scv < LEAST_SCV:
        misses.append(f"intervals vary less (scv {scv:.3g}) than two phases can; {LEAST_SCV} is the least")
        scv = LEAST_SCV
    if abs(scv - 1) < 1e-6:
        if decay:
            misses.append("intervals that vary like exponential ones cannot hang together in two phases")
        return OrderTwo(
            np.eye(2) / -mean, np.full((2, 2), 0.5 / mean), mean, 1.0, 6 * mean**3, 0.0, tuple(misses)
        )
    least, most = third_moment_range(mean, scv)
    if third is None:
        third = (least + most) / 2 if scv < 1 else _evenly(mean, scv)
    elif not least <= third <= most:
        nearest = min(max(third, least), most)
        if abs(third - nearest) > 1e-3 * nearest:  # less is not worth a word
            misses.append(
                f"a third moment of {third:.4g} cannot go with this mean and variance;"
                f" {nearest:.4g} is nearest"
            )
        third = nearest
    slow, fast = means_of_phases(mean, scv, third)
    wanted, decay = decay, min(max(decay, -LONGEST_DECAY), LONGEST_DECAY)
    found = _matrices(mean, slow, fast, decay)
    if found is None:
        decay = _nearest_decay(mean, slow, fast, decay)
        found = _matrices(mean, slow, fast, decay)
        assert found is not None, "a process without correlations exists for every law of order two"
    if abs(decay - wanted) > 1e-6:
        misses.append(f"correlations that decay by {wanted:.3g} are out of reach; {decay:.3g} is nearest")
    D0, D1 = found
    return OrderTwo(D0, D1, mean, scv, third, decay, tuple(misses))


def third_moment_range(mean: float, scv: float) -> tuple[float, float]:
    """The third moments that two phases can have with this mean and scv (Telek and Heindl 2002)."""
    if scv > 1:
        return 1.5 * mean**3 * (1 + scv) ** 2 * (1 + _ROOM), np.inf
    return 3 * mean**3 * (3 * scv - 1 + np.sqrt(2) * (1 - scv) ** 1.5), 6 * mean**3 * scv


def _evenly(mean: float, scv: float) -> float:
    """The third moment when the slow phase takes as even a share of the intervals as it can with ease."""
    odds = min(1.0, 1 / (scv - 1))
    share, reach = odds / (1 + odds), np.sqrt((scv - 1) / 2)
    slow, fast = 1 + reach / np.sqrt(odds), 1 - reach * np.sqrt(odds)
    return float(6 * mean**3 * (share * slow**3 + (1 - share) * fast**3))


def means_of_phases(mean: float, scv: float, third: float) -> tuple[float, float]:
    """The mean times of the slow and the fast phase.

    Reduced moments r_k = m_k / k! of two phases follow r_{k+2} = c1 r_{k+1} - c0 r_k,
    and the times are the roots of x^2 = c1 x - c0.
    """
    r1, r2, r3 = mean, mean**2 * (1 + scv) / 2, third / 6
    c1 = (r3 - r1 * r2) / (r2 - r1**2)
    c0 = (r1 * r3 - r2**2) / (r2 - r1**2)
    root = np.sqrt(max(c1**2 / 4 - c0, 0.0))
    slow = c1 / 2 + root
    return float(slow), float(c0 / slow)  # not c1/2 - root, which cancels


def decay_of(correlations: Sequence[float], scv: float) -> float:
    """The decay whose correlations come nearest, in the sum of squares, to those of lags 1, 2, ...

    >>> round(decay_of([0.1, 0.05, 0.025], scv=5 / 3), 3)
    0.5
    """
    start = (scv - 1) / (2 * scv)
    if abs(start) < 1e-9 or len(correlations) == 0:
        return 0.0
    wanted = np.asarray(correlations, dtype=np.float64)
    lags = np.arange(1, len(wanted) + 1)

    def nearest(decays: FloatArray) -> int:
        return int(np.argmin(((start * decays[:, None] ** lags - wanted) ** 2).sum(axis=1)))

    coarse = np.linspace(-LONGEST_DECAY, LONGEST_DECAY, 401)
    best = coarse[nearest(coarse)]
    width = coarse[1] - coarse[0]
    fine = np.clip(np.linspace(best - width, best + width, 401), -LONGEST_DECAY, LONGEST_DECAY)
    return float(fine[nearest(fine)])


def _nearest_decay(mean: float, slow: float, fast: float, wanted: float) -> float:
    """The decay nearest to the wanted one on the way to none at all."""
    reached, missed = 0.0, wanted
    for _ in range(60):
        middle = (reached + missed) / 2
        if _matrices(mean, slow, fast, middle) is None:
            missed = middle
        else:
            reached = middle
    return reached


def _matrices(mean: float, slow: float, fast: float, decay: float) -> tuple[FloatArray, FloatArray] | None:
    """D0 and D1, or None where no process of order two has this decay."""
    return _diagonal(mean, slow, fast, decay) or _forwards(mean, slow, fast, decay)


def _diagonal(mean: float, slow: float, fast: float, decay: float) -> tuple[FloatArray, FloatArray] | None:
    if not fast < mean < slow:
        return None
    share = (mean - fast) / (slow - fast)
    start = np.array([share, 1 - share])
    P = decay * np.eye(2) + (1 - decay) * start[None, :]
    if P.min() < 0:
        return None
    rates = np.array([1 / slow, 1 / fast])
    return np.diag(-rates), rates[:, None] * P


def _forwards(mean: float, slow: float, fast: float, decay: float) -> tuple[FloatArray, FloatArray] | None:
    """The canonical forms: from the slow phase an interval may continue in the fast one, never back."""
    if decay >= 0:
        total = slow + fast - (1 - decay) * mean
        spread = total**2 - 4 * decay * slow * fast
        if spread < -_SLACK * total**2:
            return None
        a = (total - np.sqrt(max(spread, 0.0))) / 2 / fast  # the other root does as well
        b = (total - a * fast) / slow
    else:
        b = ((1 - decay) * mean - fast) / slow
        a = -decay / b if b > _SLACK else np.inf
    if min(a, b) < -_SLACK or max(a, b) > 1 + _SLACK or a * b > 1 - _SLACK:
        return None
    a, b = min(max(a, 0.0), 1.0), min(max(b, 0.0), 1.0)
    D0 = np.array([[-1 / slow, (1 - a) / slow], [0.0, -1 / fast]])
    if decay >= 0:
        return D0, np.array([[a / slow, 0.0], [(1 - b) / fast, b / fast]])
    return D0, np.array([[0.0, a / slow], [b / fast, (1 - b) / fast]])
