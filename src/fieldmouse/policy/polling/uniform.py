"""Uniform policy: the same poll rate for every page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.change.belief import Beliefs
from fieldmouse.policy.polling.interface import Hosts, Reals, State, Stateless
from fieldmouse.policy.polling.market import sell


@dataclass(frozen=True, slots=True)
class Uniform(Stateless):
    """
    >>> from fieldmouse.policy import change
    >>> uniform = Uniform()
    >>> uniform.plan(uniform.begin(4), change.begin(4), budget=2.0).round(6).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    def plan(
        self,
        state: State,
        belief: Beliefs,
        budget: float,
        *,
        weight: npt.ArrayLike | None = None,
        host: Hosts | None = None,
        host_limit: npt.ArrayLike | None = None,
    ) -> Reals:
        return in_shares(np.ones(len(belief)), budget, weight, host, host_limit)


def in_shares(
    shares: Reals,
    budget: float,
    weight: npt.ArrayLike | None = None,
    host: Hosts | None = None,
    host_limit: npt.ArrayLike | None = None,
    grain: float = 0.0,
) -> Reals:
    """Divide the budget in these proportions, times the pages' weights, within the host limits.

    grain: no page is polled twice in a slot of this length.
    """
    shares = shares if weight is None else shares * np.asarray(weight, np.float64)
    whole = float(shares.sum())
    if not whole > 0 or not budget > 0:
        return np.zeros(len(shares))
    if (host is None or host_limit is None) and not grain:
        return np.asarray(shares * (budget / whole))
    most = 1 / grain if grain else np.inf
    return sell(lambda price: np.minimum(shares / price, most), budget, host=host, host_limit=host_limit)
