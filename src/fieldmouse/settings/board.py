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
        float, About(kinds.SOME_TIME, "an agent without a heartbeat for this time loses its hosts")
    ] = 15.0
    heartbeat: Annotated[float, About(kinds.SOME_TIME, "time between two heartbeats of an agent")] = 5.0
    keep_acked: Annotated[
        bool,
        About(kinds.FLAG, "the coordinator stores which agent fetched what, in case a machine is lost"),
    ] = True

    def check(self) -> None:
        """Raise unless two heartbeats fit into a lease: one late heartbeat must cost no hosts."""
        if self.heartbeat > 0.4 * self.lease:
            raise SettingsError(
                f"`cluster.heartbeat` ({self.heartbeat:g} s) is too long for"
                f" `cluster.lease` ({self.lease:g} s)",
                "make the lease at least two and a half times as long, or agents lose their hosts",
            )
