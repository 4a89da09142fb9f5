"""Multiplicative policy: the interval shrinks after a change and grows after none, as in other crawlers.

Nutch's AdaptiveFetchSchedule (default configuration) multiplies by 0.8 and 1.4, StormCrawler's
AdaptiveScheduler by 0.5 and 1.5, each within bounds. Such a page settles where a certain share of its
polls finds a change, whatever the budget is. Here all intervals are stretched alike to meet the budget,
which favours the rule over letting due pages wait.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.change.belief import Beliefs
from fieldmouse.policy.polling.interface import Hosts, Reals, State
from fieldmouse.policy.polling.uniform import in_shares


@dataclass(frozen=True, slots=True)
class Multiplicative:
    """Intervals are kept as multiples of the first one; the bounds are StormCrawler's (an hour to a
    fortnight, a day at first), with Nutch's factors.

    >>> rule = Multiplicative()
    >>> state = rule.observe(rule.begin(2), None, 1.0, np.array([True, False]))
    >>> state.round(2).tolist()
    [[0.800000011920929], [1.399999976158142]]
    >>> rule.plan(state, None, budget=2.0).round(2).tolist()
    [1.27, 0.73]
    """

    changed: float = 0.8
    unchanged: float = 1.4
    shortest: float = 1 / 24
    longest: float = 14.0
    grain: float = 0.0

    @property
    def width(self) -> int:
        return 1

    def begin(self, pages: int) -> State:
        return np.ones((pages, 1), np.float32)

    def observe(
        self, state: State, belief: Beliefs | None, gap: npt.ArrayLike, changed: npt.ArrayLike
    ) -> State:
        factor = np.where(np.asarray(changed, bool), self.changed, self.unchanged).reshape(-1, 1)
        return np.clip(state * factor, self.shortest, self.longest).astype(np.float32)

    def plan(
        self,
        state: State,
        belief: Beliefs | None,
        budget: float,
        *,
        weight: npt.ArrayLike | None = None,
        host: Hosts | None = None,
        host_limit: npt.ArrayLike | None = None,
    ) -> Reals:
        shares = 1.0 / state[:, 0].astype(np.float64)
        return in_shares(shares, budget, weight, host, host_limit, self.grain)
