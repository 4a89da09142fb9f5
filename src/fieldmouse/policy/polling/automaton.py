"""As often as an automaton says that goes up with every change found and down with every poll in vain.

The page automaton of Yazidi (2006), see `policy.automata`. A share of a slot's polls is all it knows of
time, so where there are no slots its states are shares of the budget.
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
    """resolution: the automaton's states. grain: the length of a slot; 0 where there are none.

    In slots it asks for what its states say and no more than that, even of a larger budget.

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
