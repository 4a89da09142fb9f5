"""Change notifications of a run, if `[notify]` names channels.

Without channels, no code is loaded and the run has no additional parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from fieldmouse.agent.audience import Audience, Together
from fieldmouse.clock import Clock, WallClock
from fieldmouse.crawldir import Checkpoint, CrawlDir, Part, read_checkpoint
from fieldmouse.records import Summary
from fieldmouse.settings import Settings

if TYPE_CHECKING:
    from fieldmouse.agent.build import OpenPart
    from fieldmouse.notify.notifier import Notifier


class Notifying:
    """The notifier of one run, if any. The directory is locked, so its last checkpoint is final."""

    def __init__(self, home: CrawlDir, settings: Settings, clock: Clock | None = None):
        self._notifier: Notifier | None = None
        if settings.notify.channels:
            from fieldmouse.notify.outfit import notifier_of

            self._notifier = notifier_of(home, read_checkpoint(home), settings, clock or WallClock())

    @property
    def parts(self) -> Sequence[OpenPart]:
        return [self._opened] if self._notifier is not None else []

    def _opened(self, home: CrawlDir, last: Checkpoint | None) -> Part:
        assert self._notifier is not None
        return self._notifier

    def audience_with(self, other: Audience | None) -> Audience | None:
        """The page consumer combined with the notifier."""
        if self._notifier is None or other is None:
            return self._notifier or other
        return Together(other, self._notifier)

    async def summed_up(self, summary: Summary) -> Summary:
        """The summary with the number of undelivered notifications."""
        if self._notifier is None:
            return summary
        return msgspec.structs.replace(summary, untold=await self._notifier.waiting())
