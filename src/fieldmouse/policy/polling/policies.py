"""Polling policies: uniform, proportional, optimal, harmonic, automaton and multiplicative.

The package's registry says when to use which. Papers: Cho and Garcia-Molina (2000), Azar et al. (2018),
Kolobov et al. (2019), Yazidi (2006); the multiplicative rule is that of Nutch and StormCrawler.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldmouse.policy import change
from fieldmouse.policy.automata import feedback, frequency
from fieldmouse.policy.change import Beliefs
from fieldmouse.policy.polling.allocation import allocate, inverse_marginal_freshness, slot_factor
from fieldmouse.policy.polling.interface import Hosts, Reals, State, StatelessPolicy


@dataclass(frozen=True, slots=True)
class UniformPolicy(StatelessPolicy):
    """
    >>> from fieldmouse.policy import change
    >>> uniform = UniformPolicy()
    >>> uniform.plan(uniform.begin(4), change.empty_beliefs(4), budget=2.0).round(6).tolist()
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
        return allocate_in_shares(np.ones(len(belief)), budget, weight, host, host_limit)


def allocate_in_shares(
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
    return allocate(lambda price: np.minimum(shares / price, most), budget, host=host, host_limit=host_limit)


@dataclass(frozen=True, slots=True)
class ProportionalPolicy(StatelessPolicy):
    """grain: length of a slot, if time is divided into slots; no page is polled twice in one."""

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
        return allocate_in_shares(change.estimated_rate(belief), budget, weight, host, host_limit, self.grain)


@dataclass(frozen=True, slots=True, eq=False)
class OptimalPolicy(StatelessPolicy):
    """`rates`: each page's true rate; None: the estimated rates count as true.

    grain: length of a slot, if time is divided into slots; no page is polled twice in one.

    >>> from fieldmouse.policy import change
    >>> known = OptimalPolicy(np.array([1.0, 2.0, 200.0]))
    >>> known.plan(known.begin(3), change.empty_beliefs(3), budget=2.0).round(2).tolist()
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
        rates = change.estimated_rate(belief) if self.rates is None else self.rates
        if not budget > 0:
            return np.zeros(len(rates))
        worth = slot_factor(rates, self.grain) * (1.0 if weight is None else np.asarray(weight, np.float64))
        most = 1 / self.grain if self.grain else np.inf

        def demand(price: Reals) -> Reals:
            with np.errstate(divide="ignore", invalid="ignore"):
                polls = rates / inverse_marginal_freshness(price * rates / worth)
            return np.minimum(np.where(worth > 0, np.nan_to_num(polls, nan=0.0, posinf=1e100), 0.0), most)

        return allocate(demand, budget, host=host, host_limit=host_limit)


@dataclass(frozen=True, slots=True)
class AutomatonPolicy:
    """resolution: number of states. grain: length of a slot; 0: no slots.

    With slots the plan never exceeds the rates of the states, even if the budget is larger.

    >>> paper = AutomatonPolicy(resolution=4, grain=1.0)
    >>> state = paper.observe(paper.begin(2), None, 1.0, np.array([True, False]))
    >>> paper.plan(state, None, budget=9.0).tolist()
    [0.5, 0.25]
    """

    resolution: int = 16
    grain: float = 0.0

    @property
    def width(self) -> int:
        return 1

    def begin(self, pages: int) -> State:
        return np.ones((pages, 1), np.float32)

    def observe(self, state: State, belief: Beliefs | None, gap: npt.ArrayLike, changed: npt.ArrayLike) -> State:
        return feedback(state, np.asarray(changed, bool).reshape(-1, 1), self.resolution)

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
        wanted = frequency(state[:, 0], self.resolution)
        if self.grain:
            budget = min(budget, float(wanted.sum()) / self.grain)
        return allocate_in_shares(wanted, budget, weight, host, host_limit)


@dataclass(frozen=True, slots=True)
class MultiplicativePolicy:
    """Intervals are kept as multiples of the first one; the bounds are StormCrawler's (an hour to a
    fortnight, a day at first), with Nutch's factors.

    >>> rule = MultiplicativePolicy()
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

    def observe(self, state: State, belief: Beliefs | None, gap: npt.ArrayLike, changed: npt.ArrayLike) -> State:
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
        return allocate_in_shares(shares, budget, weight, host, host_limit, self.grain)


@dataclass(frozen=True, slots=True, eq=False)
class HarmonicPolicy(StatelessPolicy):
    """`rates` and `grain` as in `OptimalPolicy`.

    >>> from fieldmouse.policy import change
    >>> known = HarmonicPolicy(np.array([1.0, 2.0, 200.0]))
    >>> known.plan(known.begin(3), change.empty_beliefs(3), budget=2.0).round(2).tolist()
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
        rates = change.estimated_rate(belief) if self.rates is None else self.rates
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

        return allocate(demand, budget, host=host, host_limit=host_limit)
