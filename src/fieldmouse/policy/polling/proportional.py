"""Proportional policy: polls in proportion to the change rate.

It is worse than `uniform` (Cho and Garcia-Molina 2000): the polls go to pages whose copies are stale again
at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from fieldmouse.policy import change
from fieldmouse.policy.change.belief import Beliefs
from fieldmouse.policy.polling.interface import Hosts, Reals, State, Stateless
from fieldmouse.policy.polling.uniform import in_shares


@dataclass(frozen=True, slots=True)
class Proportional(Stateless):
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
        return in_shares(change.rate(belief), budget, weight, host, host_limit, self.grain)
