"""Harmonic policy: the penalty of a copy is the harmonic number of its missed changes; no page is starved.

The first missed change hurts most and no later one is free (Kolobov, Peres, Lu and Horvitz 2019). Polls at
random times then cost log(1 + rate / polls), and the best plan has a closed form: faster pages are polled
more often up to a bound, instead of being given up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldmouse.policy import change
from fieldmouse.policy.change.belief import Beliefs
from fieldmouse.policy.polling.interface import Hosts, Reals, State, Stateless
from fieldmouse.policy.polling.market import sell


@dataclass(frozen=True, slots=True, eq=False)
class Harmonic(Stateless):
    """`rates` and `grain` as in `Optimal`.

    >>> from fieldmouse.policy import change
    >>> known = Harmonic(np.array([1.0, 2.0, 200.0]))
    >>> known.plan(known.begin(3), change.begin(3), budget=2.0).round(2).tolist()
    [0.54, 0.63, 0.83]
    """

    rates: Reals | None = None
    grain: float = 0.0

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
        rates = change.rate(belief) if self.rates is None else self.rates
        if not budget > 0:
            return np.zeros(len(rates))
        worth = np.ones(len(rates)) if weight is None else np.asarray(weight, np.float64)
        most = 1 / self.grain if self.grain else np.inf

        def demand(price: Reals) -> Reals:
            # The positive root of rate / (f (f + rate)) = price / worth, written so that nothing cancels.
            square = 4 * worth / price
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                polls = square / (2 * (1 + np.sqrt(1 + square / rates)))
            return np.minimum(np.where((rates > 0) & (worth > 0), polls, 0.0), most)

        return sell(demand, budget, host=host, host_limit=host_limit)
