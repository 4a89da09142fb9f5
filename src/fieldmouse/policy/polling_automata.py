"""Learning automata for the poll rate of a page, and for an overloaded node's choice of remedy.

The scheme of Yazidi (2006). A page's automaton has N states; in state s the page is polled in a slot with
probability (s/N)^linearity. A poll that finds a change moves it one state up, a poll that finds none moves
it one state down, and at either end it stays. It settles where a poll is as likely to find a change as
not; for a page that changes with probability p in a slot this is the frequency p/(1-p), not p.

A node (a bin) has an automaton too: it goes up by two when the node is overloaded and down by one when it
is not, never below a threshold. It gives the probability that the node gives up sites rather than polls
less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fieldmouse.errors import SettingsError

#: States are whole numbers; the page table may keep them in columns of floats.
Whole = TypeVar("Whole", bound="np.integer[Any] | np.floating[Any]")

#: Maximum number of rewards and penalties in a history.
REGISTER = 64


def states_after_poll(
    states: npt.NDArray[Whole], changed: npt.NDArray[np.bool_], resolution: int
) -> npt.NDArray[Whole]:
    """States of the automata after a poll of each page; states are 1 to `resolution`.

    `changed` says whether the stored copy was out of date, however long it had been so.

    >>> states_after_poll(np.array([1, 1, 3, 8, 8]), np.array([True, False, False, True, False]), 8)
    array([2, 1, 2, 8, 7])
    """
    up = np.minimum(states, resolution - 1) + 1
    down = np.maximum(states, 2) - 1
    moved: npt.NDArray[Whole] = np.where(changed, up, down).astype(states.dtype)
    return moved


def poll_frequency(states: npt.NDArray[Whole], resolution: int, linearity: float = 1.0) -> npt.NDArray[np.float64]:
    """Polls per slot.

    >>> poll_frequency(np.array([1, 4, 8]), 8)
    array([0.125, 0.5  , 1.   ])
    """
    even = states.astype(np.float64) / resolution
    return even if linearity == 1.0 else even**linearity


def push_history(
    history: npt.NDArray[np.uint64], changed: npt.NDArray[np.bool_], length: int
) -> npt.NDArray[np.uint64]:
    """Histories of the last `length` polls after one more: a bit for each poll that found no change.

    >>> push_history(np.array([0b101, 0b101], dtype=np.uint64), np.array([True, False]), 3)
    array([2, 3], dtype=uint64)
    """
    kept = np.uint64((1 << length) - 1)
    return ((history << np.uint64(1)) | ~changed) & kept


def count_penalties(history: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """Number of remembered polls that found no change.

    >>> count_penalties(np.array([0, 0b101], dtype=np.uint64))
    array([0, 2], dtype=uint8)
    """
    return np.bitwise_count(history)


@dataclass(frozen=True, slots=True)
class NodeOverloadAutomaton:
    """Automaton that decides whether an overloaded node gives up sites or polls its most penalised pages
    less.

    The probability is (state/states)^2. A new node starts at the threshold, which is low: polling less
    comes first, and sites move only if the overload lasts.

    >>> rule = NodeOverloadAutomaton(states=16, threshold=2)
    >>> state = rule.threshold
    >>> for _ in range(3):
    ...     state = rule.state_after_slot(state, overloaded=True)
    >>> state, rule.site_release_probability(state)
    (8, 0.25)
    """

    states: int = 16
    threshold: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.threshold <= self.states:
            raise SettingsError(
                f"a threshold of {self.threshold} is no state of an automaton with {self.states}",
                f"take one from 1 to {self.states}",
            )

    def site_release_probability(self, state: int) -> float:
        return (state / self.states) ** 2

    def state_after_slot(self, state: int, *, overloaded: bool) -> int:
        """Next state. As printed, a rise of two stops below N - 1 and never leaves the states."""
        if overloaded:
            return state + 2 if state < self.states - 1 else state
        return max(state - 1, self.threshold)
