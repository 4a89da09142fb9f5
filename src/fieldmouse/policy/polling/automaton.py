"""Automaton policy: a state per page that rises with each change found and falls with each poll without one.

The page automaton of Yazidi (2006), see `policy.automata`. It measures time only as a share of a slot's
polls, so without slots its states are shares of the budget.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.automata import feedback, frequency
from fieldmouse.policy.change.belief import Beliefs
from fieldmouse.policy.polling.interface import Hosts, Reals, State
from fieldmouse.policy.polling.uniform import in_shares


@dataclass(frozen=True, slots=True)
class Automaton:
    """resolution: number of states. grain: length of a slot; 0: no slots.

    With slots the plan never exceeds the rates of the states, even if the budget is larger.

    >>> paper = Automaton(resolution=4, grain=1.0)
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

    def observe(
        self, state: State, belief: Beliefs | None, gap: npt.ArrayLike, changed: npt.ArrayLike
    ) -> State:
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
        return in_shares(wanted, budget, weight, host, host_limit)
