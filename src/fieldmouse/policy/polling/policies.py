"""Polling policies: uniform, proportional, optimal, harmonic, automaton and multiplicative.

The package's registry says when to use which. Papers: Cho and Garcia-Molina (2000), Azar et al. (2018),
Kolobov et al. (2019), Yazidi (2006); the multiplicative rule is that of Nutch and StormCrawler.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fieldmouse.policy import change_rate
from fieldmouse.policy.change_rate import Beliefs
from fieldmouse.policy.polling.allocation import Demand, PollBudget, inverse_marginal_freshness, slot_factor
from fieldmouse.policy.polling.interface import Hosts, Reals, State
from fieldmouse.policy.polling_automata import poll_frequency, states_after_poll


class BudgetPolicy:
    """Base of our policies: `allocate_polls` is `plan` with one object for the budget. Without columns by default."""

    @property
    def width(self) -> int:
        return 0

    def initial_state(self, pages: int) -> State:
        return np.ones((pages, self.width), np.float32)

    def observe(self, state: State, belief: Beliefs, gap: npt.ArrayLike, changed: npt.ArrayLike) -> State:
        return state

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
        return self.allocate_polls(state, belief, PollBudget(budget, weight, host, host_limit))

    @abstractmethod
    def allocate_polls(self, state: State, belief: Beliefs, budget: PollBudget) -> Reals: ...


@dataclass(frozen=True, slots=True)
class UniformPolicy(BudgetPolicy):
    """
    >>> from fieldmouse.policy import change_rate
    >>> uniform = UniformPolicy()
    >>> uniform.plan(uniform.initial_state(4), change_rate.empty_beliefs(4), budget=2.0).round(6).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    def allocate_polls(self, state: State, belief: Beliefs, budget: PollBudget) -> Reals:
        return budget.allocate_proportionally(np.ones(len(belief)))


@dataclass(frozen=True, slots=True)
class ProportionalPolicy(BudgetPolicy):
    """grain: length of a slot, if time is divided into slots; no page is polled twice in one."""

    grain: float = 0.0

    def allocate_polls(self, state: State, belief: Beliefs, budget: PollBudget) -> Reals:
        return budget.allocate_proportionally(change_rate.estimated_rate(belief), self.grain)


@dataclass(frozen=True, slots=True, eq=False)
class _ChangeRatePolicy(BudgetPolicy):
    """Policies that buy polls by each page's rate."""

    rates: Reals | None = None
    grain: float = 0.0

    def allocate_polls(self, state: State, belief: Beliefs, budget: PollBudget) -> Reals:
        rates = change_rate.estimated_rate(belief) if self.rates is None else self.rates
        if not budget.polls > 0:
            return np.zeros(len(rates))
        demand, most = self._demand(rates, budget.weights(len(rates))), 1 / self.grain if self.grain else np.inf
        return budget.allocate(lambda price: np.minimum(demand(price), most))

    @abstractmethod
    def _demand(self, rates: Reals, weights: Reals) -> Demand: ...


@dataclass(frozen=True, slots=True, eq=False)
class OptimalPolicy(_ChangeRatePolicy):
    """`rates`: each page's true rate; None: the estimated rates count as true.

    grain: length of a slot, if time is divided into slots; no page is polled twice in one.

    >>> from fieldmouse.policy import change_rate
    >>> known = OptimalPolicy(np.array([1.0, 2.0, 200.0]))
    >>> known.plan(known.initial_state(3), change_rate.empty_beliefs(3), budget=2.0).round(2).tolist()
    [0.95, 1.05, 0.0]
    """

    def _demand(self, rates: Reals, weights: Reals) -> Demand:
        worth = slot_factor(rates, self.grain) * weights

        def demand(price: Reals) -> Reals:
            with np.errstate(divide="ignore", invalid="ignore"):
                polls = rates / inverse_marginal_freshness(price * rates / worth)
            return np.where(worth > 0, np.nan_to_num(polls, nan=0.0, posinf=1e100), 0.0)

        return demand


@dataclass(frozen=True, slots=True)
class AutomatonPolicy(BudgetPolicy):
    """resolution: number of states. grain: length of a slot; 0: no slots.

    With slots the plan never exceeds the rates of the states, even if the budget is larger.

    >>> paper = AutomatonPolicy(resolution=4, grain=1.0)
    >>> state = paper.observe(paper.initial_state(2), None, 1.0, np.array([True, False]))
    >>> paper.plan(state, None, budget=9.0).tolist()
    [0.5, 0.25]
    """

    width: ClassVar[int] = 1
    resolution: int = 16
    grain: float = 0.0

    def observe(self, state: State, belief: Beliefs, gap: npt.ArrayLike, changed: npt.ArrayLike) -> State:
        return states_after_poll(state, np.asarray(changed, bool).reshape(-1, 1), self.resolution)

    def allocate_polls(self, state: State, belief: Beliefs, budget: PollBudget) -> Reals:
        wanted = poll_frequency(state[:, 0], self.resolution)
        if self.grain:
            budget = replace(budget, polls=min(budget.polls, float(wanted.sum()) / self.grain))
        return budget.allocate_proportionally(wanted)


@dataclass(frozen=True, slots=True)
class MultiplicativePolicy(BudgetPolicy):
    """Intervals are kept as multiples of the first one; the bounds are StormCrawler's (an hour to a
    fortnight, a day at first), with Nutch's factors.

    >>> rule = MultiplicativePolicy()
    >>> state = rule.observe(rule.initial_state(2), None, 1.0, np.array([True, False]))
    >>> state.round(2).tolist()
    [[0.800000011920929], [1.399999976158142]]
    >>> rule.plan(state, None, budget=2.0).round(2).tolist()
    [1.27, 0.73]
    """

    width: ClassVar[int] = 1
    changed: float = 0.8
    unchanged: float = 1.4
    shortest: float = 1 / 24
    longest: float = 14.0
    grain: float = 0.0

    def observe(self, state: State, belief: Beliefs, gap: npt.ArrayLike, changed: npt.ArrayLike) -> State:
        factor = np.where(np.asarray(changed, bool), self.changed, self.unchanged).reshape(-1, 1)
        return np.clip(state * factor, self.shortest, self.longest).astype(np.float32)

    def allocate_polls(self, state: State, belief: Beliefs, budget: PollBudget) -> Reals:
        shares = 1.0 / state[:, 0].astype(np.float64)
        return budget.allocate_proportionally(shares, self.grain)


@dataclass(frozen=True, slots=True, eq=False)
class HarmonicPolicy(_ChangeRatePolicy):
    """`rates` and `grain` as in `OptimalPolicy`.

    >>> from fieldmouse.policy import change_rate
    >>> known = HarmonicPolicy(np.array([1.0, 2.0, 200.0]))
    >>> known.plan(known.initial_state(3), change_rate.empty_beliefs(3), budget=2.0).round(2).tolist()
    [0.54, 0.63, 0.83]
    """

    def _demand(self, rates: Reals, weights: Reals) -> Demand:
        def demand(price: Reals) -> Reals:
            # The positive root of rate / (f (f + rate)) = price / weight, written so that nothing cancels.
            square = 4 * weights / price
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                polls = square / (2 * (1 + np.sqrt(1 + square / rates)))
            return np.where((rates > 0) & (weights > 0), polls, 0.0)

        return demand
