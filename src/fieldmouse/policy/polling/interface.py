"""Interface of polling policies."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.change_rate import Beliefs

Reals = npt.NDArray[np.float64]
Hosts = npt.NDArray[np.integer]
State = npt.NDArray[np.float32]


class PollingPolicy(Protocol):
    """Pure rule from beliefs to poll rates; pages are rows. Arguments are never changed.

    The caller keeps a belief about every page whatever the policy is; `observe` receives the belief from
    before the poll.
    """

    @property
    def width(self) -> int:
        """Columns that the policy keeps per page, in addition to the belief."""
        ...

    def initial_state(self, pages: int) -> State:
        """State of unknown pages: a row each, with `width` columns."""
        ...

    def observe(self, state: State, belief: Beliefs, gap: npt.ArrayLike, changed: npt.ArrayLike) -> State:
        """State after one more poll of each page: `gap` is the time since the previous poll."""
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

        `weight`: weight of a page's freshness, 1 by default. `host`: number of each page's host;
        `host_limit`: polls per time unit that each host allows (one number for all hosts, or one per
        host). The plan stays below the budget only if host limits are reached or more polls would be
        useless.
        """
        ...
