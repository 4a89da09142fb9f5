"""Two-phase scheme of Yazidi (2006): pack once, then repair overloads as the weights are learned.

Each node has an automaton that gives the probability of moving sites rather than polling less when it is
overloaded. An overloaded node keeps the fullest subset that fits; the other sites are fitted in elsewhere,
or open a node. Polling less lowers the pages with most penalties first; the printed loop never ends once
every page is in its lowest state, here it stops and the node stays overloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.polling_automata import NodeOverloadAutomaton
from fieldmouse.policy.site_packing.bin_packing import Bins, best_fit_decreasing, best_fit_into, fullest_subset


def reduce_polls(states: npt.NDArray[Any], penalties: npt.NDArray[Any], surplus: int) -> tuple[npt.NDArray[Any], int]:
    """States after up to `surplus` units were removed, and the number of units left.

    >>> reduce_polls(np.array([3, 2, 1, 2]), np.array([0, 5, 9, 5]), surplus=3)
    (array([2, 1, 1, 1]), 0)
    >>> reduce_polls(np.array([2, 1]), np.array([0, 0]), surplus=5)
    (array([1, 1]), 4)
    """
    lowered = states.copy()
    order = np.argsort(-penalties.astype(np.int64), kind="stable")
    while surplus > 0:
        able = order[lowered[order] > 1][:surplus]
        if not able.size:
            break
        lowered[able] -= 1
        surplus -= able.size
    return lowered, max(surplus, 0)


@dataclass(slots=True)
class AdaptiveSitePacking:
    """Present packing. Weights and the capacity are whole units, 1/N of a poll."""

    capacity: int
    rule: NodeOverloadAutomaton
    bins: Bins
    nodes: list[int]  # automaton state of each bin
    moves: int = 0  # sites moved
    lowered: int = 0  # units by which pages were lowered

    @classmethod
    def pack_initially(cls, weights: Sequence[int], capacity: int, rule: NodeOverloadAutomaton) -> AdaptiveSitePacking:
        """Run the first phase."""
        bins = best_fit_decreasing(weights, capacity)
        return cls(capacity, rule, bins, [rule.threshold] * len(bins))

    @property
    def used_bins(self) -> int:
        return sum(1 for held in self.bins if held)

    def repair_overloads(
        self,
        states: npt.NDArray[Any],
        penalties: npt.NDArray[Any],
        sites: npt.NDArray[np.intp],
        rng: np.random.Generator,
    ) -> npt.NDArray[Any]:
        """Run the second phase of one slot; return the states of the pages afterwards.

        `sites` is the site of each page; the pages of a site are consecutive, in order.
        """
        weights = np.bincount(sites, weights=states).astype(np.int64).tolist()
        going: list[int] = []
        for place, held in enumerate(self.bins):
            load = sum(weights[item] for item in held)
            state = self.nodes[place]
            self.nodes[place] = self.rule.state_after_slot(state, overloaded=load > self.capacity)
            if load <= self.capacity:
                continue
            if self.rule.site_release_probability(state) > rng.random():
                kept = {held[at] for at in fullest_subset([weights[item] for item in held], self.capacity)}
                going += [item for item in held if item not in kept]
                self.bins[place] = [item for item in held if item in kept]
            else:
                inside = np.flatnonzero(np.isin(sites, held))
                surplus = load - self.capacity + 1
                states = states.copy()
                states[inside], left = reduce_polls(states[inside], penalties[inside], surplus)
                self.lowered += surplus - left
        if going:
            weights = np.bincount(sites, weights=states).astype(np.int64).tolist()
            self.bins = best_fit_into(weights, self.capacity, self.bins, going)
            self.nodes += [self.rule.threshold] * (len(self.bins) - len(self.nodes))
            self.moves += len(going)
        return states
