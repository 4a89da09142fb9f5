"""That a crawl is to stop, and why."""

from __future__ import annotations

from fieldmouse.outcome import StoppedBy
from fieldmouse.robots.bell import Bell


class Stopping:
    """The first reason given is the reason; none means that there is no use in going on."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self.reason = StoppedBy.NOTHING
        self.asked = False

    def ask(self, reason: StoppedBy = StoppedBy.NOTHING) -> None:
        self.reason = self.reason or reason
        self.asked = True
        self._bell.ring()
