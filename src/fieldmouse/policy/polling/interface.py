"""What a polling policy is asked."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.change.belief import Beliefs

Reals = npt.NDArray[np.float64]
Hosts = npt.NDArray[np.integer]
State = npt.NDArray[np.float32]


class PollingPolicy(Protocol):
    """Pages are rows. All of it is pure: nothing given is changed, and what is asked twice is answered alike.

    A belief is kept of every page whatever the policy is, by whoever keeps the pages; `observe` is told
    the belief from before the look.
    """

    @property
    def width(self) -> int:
        """Columns that the policy keeps for a page, besides the belief."""
        ...

    def begin(self, pages: int) -> State:
        """The state of pages of which nothing is known yet, a row each and `width` columns."""
        ...

    def observe(self, state: State, belief: Beliefs, gap: npt.ArrayLike, changed: npt.ArrayLike) -> State:
        """The state after one more look at each of these pages: time since the look before, and one bit."""
        ...

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
        """Polls per time unit of each page, together at most `budget`.

        `weight`: how much a page's freshness counts, 1 by default. `host`: the number of each page's host;
        `host_limit`: polls per time unit that each host bears (one number for all hosts, or one a host).
        Less than the budget is spent only where hosts bear no more or polls would be of no use.
        """
        ...


class Stateless:
    """For policies that live on the belief alone."""

    @property
    def width(self) -> int:
        return 0

    def begin(self, pages: int) -> State:
        return np.zeros((pages, 0), np.float32)

    def observe(self, state: State, belief: Beliefs, gap: npt.ArrayLike, changed: npt.ArrayLike) -> State:
        return state
