"""The section `[cluster]`: how agents on many machines share a crawl."""

from __future__ import annotations

from typing import Annotated

from fieldmouse.errors import SettingsError
from fieldmouse.settings import kinds
from fieldmouse.settings.kinds import About
from fieldmouse.settings.sections import Section

BALANCERS = ("priced", "kalman", "hash", "ipmicra", "shortest-delay", "two-choices")


class ClusterSection(Section, frozen=True):
    """Agents that meet on a board (see docs/network.md); a crawl on one machine needs none of it."""

    policy: Annotated[
        str, About(kinds.one_of(*BALANCERS), "which agent visits a host next (see docs/network.md)")
    ] = "priced"
    lease: Annotated[
        float, About(kinds.SOME_TIME, "an agent that is not heard of for so long loses what it holds")
    ] = 15.0
    heartbeat: Annotated[float, About(kinds.SOME_TIME, "between two signs of life of an agent")] = 5.0
    keep_acked: Annotated[
        bool, About(kinds.FLAG, "the board remembers who fetched what, should a machine be lost for good")
    ] = True

    def check(self) -> None:
        """An agent that is late once must not lose what it holds: two signs of life fit into a lease."""
        if self.heartbeat > 0.4 * self.lease:
            raise SettingsError(
                f"`cluster.heartbeat` ({self.heartbeat:g} s) is too long for"
                f" `cluster.lease` ({self.lease:g} s)",
                "let a lease last at least two and a half times as long: agents would lose what they hold",
            )
