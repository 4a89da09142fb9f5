"""Value of a poll: freshness as a function of the poll rate, its slope, and the slope's inverse.

A page that changes at the rate `lam` and is polled evenly, `f` times per time unit, is fresh for the
share f/lam * (1 - exp(-lam/f)) of the time (Cho and Garcia-Molina 2000). One more poll is worth
slope(lam/f) / lam, at most 1/lam: at a higher price the page is not polled. With slots, where copies are
judged after the slot's polls, both are larger by lam / (1 - exp(-lam)).
"""

from __future__ import annotations

import numpy as np

from fieldmouse.policy.polling.interface import Reals

_MOST = 45.0
_CHANGES = np.geomspace(1e-7, _MOST, 20_000)


def slope(changes: Reals) -> Reals:
    """1 - (1 + x) exp(-x), exact for small x.

    >>> slope(np.array([0.0, 1e-4, 1.0])).round(12).tolist()
    [0.0, 5e-09, 0.264241117657]
    """
    x = np.asarray(changes, np.float64)
    small = x * x * (0.5 - x / 3)
    return np.asarray(np.where(x < 1e-3, small, -np.expm1(-x) - x * np.exp(-x)))


_SLOPES = slope(_CHANGES)
_LOG_CHANGES, _LOG_SLOPES = np.log(_CHANGES), np.log(_SLOPES)


def changes_at(value: Reals) -> Reals:
    """Inverse of `slope`; infinite from 1 on.

    >>> changes_at(slope(np.array([1e-9, 0.01, 1.0, 30.0]))).round(4).tolist()
    [0.0, 0.01, 1.0, 30.0]
    >>> float(changes_at(np.array([1.0]))[0])
    inf
    """
    value = np.asarray(value, np.float64)
    with np.errstate(divide="ignore"):
        log = np.log(value)
    inside = np.exp(np.interp(log, _LOG_SLOPES, _LOG_CHANGES))
    below = value < _SLOPES[0]
    return np.asarray(np.where(value >= _SLOPES[-1], np.inf, np.where(below, np.sqrt(2 * value), inside)))


def slotted(rates: Reals, grain: float) -> Reals:
    """Factor by which polls are worth more with slots of this length; 1 without slots."""
    if not grain:
        return np.ones_like(rates)
    x = np.maximum(rates * grain, 1e-12)
    return np.asarray(x / -np.expm1(-x))
