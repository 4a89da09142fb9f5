"""Section `[cluster]`: settings of a crawl that agents on many machines share."""

from __future__ import annotations

from typing import Annotated

from fieldmouse.errors import SettingsError
from fieldmouse.settings import kinds
from fieldmouse.settings.kinds import About
from fieldmouse.settings.sections import Section

BALANCERS = ("priced", "kalman", "hash", "ipmicra", "shortest-delay", "two-choices")


class ClusterSection(Section, frozen=True):
    """Agents that share a crawl through a coordinator (see docs/network.md); unused on one machine."""

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
        """Raise unless two heartbeats fit into a lease: an agent that is late once must not lose its hosts.
        """
        if self.heartbeat > 0.4 * self.lease:
            raise SettingsError(
                f"`cluster.heartbeat` ({self.heartbeat:g} s) is too long for"
                f" `cluster.lease` ({self.lease:g} s)",
                "let a lease last at least two and a half times as long: agents would lose what they hold",
            )
