"""Exact distribution of the free automaton, after any number of slots and in the steady state.

Free means that no node is ever full. Pages are then independent, and a page is a chain of 2N states: the
automaton's state, and whether the copy is stale. In a slot the page changes with probability p, it is
polled with probability s/N, and the automaton learns whether the copy was stale. The mean of all weights
is therefore a sum of means and its variance a sum of variances. This is the twin of the simulation, and
the simulation must not use it.

Staleness has to be part of the state: a poll finds a change if there was any since the last poll, not only
in this slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.polling_automata import poll_frequency, states_after_poll

Reals = npt.NDArray[np.float64]

FRESH, STALE = 0, 1


@dataclass(frozen=True, slots=True)
class SlotLaw:
    """All pages together in one slot: the total weight at its start, with its spread, and the slot's results.

    `polls` and `updates` are expected numbers, `fresh` is the share of fresh copies at its end.
    """

    weight: float
    spread: float
    polls: float
    updates: float
    fresh: float

    @property
    def useful(self) -> float:
        """R: the share of polls that find a change."""
        return self.updates / self.polls


class FreeAutomatonLaw:
    """`counts` pages change with each probability of `p`.

    >>> law = FreeAutomatonLaw(np.array([0.3]), np.array([1000]), resolution=16)
    >>> steady = law.slot_law(law.steady())
    >>> round(steady.useful, 2), round(steady.weight / 1000, 2)  # about a half, above p
    (0.5, 0.39)
    """

    def __init__(self, p: Reals, counts: npt.NDArray[np.intp], resolution: int):
        self.p = np.asarray(p, dtype=np.float64)
        self.counts = np.asarray(counts)
        self.resolution = resolution
        self.polls = poll_frequency(np.arange(1, resolution + 1), resolution)

    @classmethod
    def of(cls, p: Reals, resolution: int) -> FreeAutomatonLaw:
        """Group single pages with equal p."""
        values, counts = np.unique(p, return_counts=True)
        return cls(values, counts, resolution)

    @cached_property
    def transitions(self) -> Reals:
        """Transition probabilities between (state, staleness) in a slot, for each p."""
        n = self.resolution
        states = np.arange(1, n + 1)
        up = states_after_poll(states, np.ones(n, dtype=bool), n) - 1
        down = states_after_poll(states, np.zeros(n, dtype=bool), n) - 1
        here = states - 1
        chances = np.zeros((len(self.p), n, 2, n, 2))
        for before in (FRESH, STALE):
            stale = np.ones_like(self.p) if before == STALE else self.p
            for now, chance in ((STALE, stale), (FRESH, 1 - stale)):
                seen = up if now == STALE else down  # no state leads twice to the same one: += is safe
                chances[:, here, before, seen, FRESH] += np.outer(chance, self.polls)
                chances[:, here, before, here, now] += np.outer(chance, 1 - self.polls)
        return chances.reshape(len(self.p), 2 * n, 2 * n)

    def initial(self) -> Reals:
        """Initial distribution: state 1 with a fresh copy."""
        start = np.zeros((len(self.p), 2 * self.resolution))
        start[:, FRESH] = 1.0
        return start

    def after(self, slots: int) -> Reals:
        """Probabilities of each (state, staleness) after `slots` slots."""
        power = np.linalg.matrix_power(self.transitions, slots)
        return np.asarray(np.einsum("pi,pij->pj", self.initial(), power))

    def steady(self) -> Reals:
        """Stationary distribution."""
        size = 2 * self.resolution
        balance = np.swapaxes(self.transitions, 1, 2) - np.eye(size)
        balance[:, -1, :] = 1.0  # the probabilities sum to 1; one balance equation follows from the others
        whole = np.zeros((len(self.p), size, 1))
        whole[:, -1] = 1.0
        return np.asarray(np.linalg.solve(balance, whole)[..., 0])

    def weights(self, chances: Reals) -> tuple[Reals, Reals]:
        """Mean and variance of one page's weight, for each p."""
        of_state = chances.reshape(len(self.p), self.resolution, 2).sum(axis=2)
        mean = of_state @ self.polls
        return mean, of_state @ self.polls**2 - mean**2

    def slot_law(self, chances: Reals) -> SlotLaw:
        """Distribution of all pages in the slot that begins with these probabilities."""
        mean, variance = self.weights(chances)
        by_state = chances.reshape(len(self.p), self.resolution, 2)
        stale = by_state[..., STALE] + by_state[..., FRESH] * self.p[:, None]
        updates = stale @ self.polls
        left = (stale * (1 - self.polls)).sum(axis=1)
        weight = float(self.counts @ mean)
        return SlotLaw(
            weight=weight,
            spread=float(np.sqrt(self.counts @ variance)),
            polls=weight,
            updates=float(self.counts @ updates),
            fresh=float(self.counts @ (1 - left)) / float(self.counts.sum()),
        )
