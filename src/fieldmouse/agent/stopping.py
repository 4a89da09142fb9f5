"""Stop request and its reason."""

from __future__ import annotations

from fieldmouse.outcome import StoppedBy
from fieldmouse.robots.bell import Bell


class Stopping:
    """The first reason given counts; no reason means that the work is done."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self.reason = StoppedBy.NOTHING
        self.asked = False

    def ask(self, reason: StoppedBy = StoppedBy.NOTHING) -> None:
        self.reason = self.reason or reason
        self.asked = True
        self._bell.ring()
