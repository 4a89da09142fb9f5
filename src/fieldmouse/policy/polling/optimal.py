"""Optimal policy: the most freshness for a budget if the rates are known.

Cho and Garcia-Molina (2000), Azar, Horvitz, Lubetzky, Peres and Shahaf (2018). A page is polled until one
more poll is not worth its price. Pages that change too fast get nothing at all: their copies are stale
before they are read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldmouse.policy import change
from fieldmouse.policy.change.belief import Beliefs
from fieldmouse.policy.polling.curve import changes_at, slotted
from fieldmouse.policy.polling.interface import Hosts, Reals, State, Stateless
from fieldmouse.policy.polling.market import sell


@dataclass(frozen=True, slots=True, eq=False)
class Optimal(Stateless):
    """`rates`: each page's true rate; None: the estimated rates count as true.

    grain: length of a slot, if time is divided into slots; no page is polled twice in one.

    >>> from fieldmouse.policy import change
    >>> known = Optimal(np.array([1.0, 2.0, 200.0]))
    >>> known.plan(known.begin(3), change.begin(3), budget=2.0).round(2).tolist()
    [0.95, 1.05, 0.0]
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
        worth = slotted(rates, self.grain) * (1.0 if weight is None else np.asarray(weight, np.float64))
        most = 1 / self.grain if self.grain else np.inf

        def demand(price: Reals) -> Reals:
            with np.errstate(divide="ignore", invalid="ignore"):
                polls = rates / changes_at(price * rates / worth)
            return np.minimum(np.where(worth > 0, np.nan_to_num(polls, nan=0.0, posinf=1e100), 0.0), most)

        return sell(demand, budget, host=host, host_limit=host_limit)
