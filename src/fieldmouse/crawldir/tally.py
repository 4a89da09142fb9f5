"""What became of all URLs so far, counted: the part of a checkpoint that a summary is made of."""

from __future__ import annotations

import msgspec

from fieldmouse.crawldir.checkpoint import Checkpoint


class CrawlTally(msgspec.Struct):
    """Counts over the whole crawl, resumes included. An accepted URL is in exactly one, or waiting."""

    pages: int = 0
    unchanged: int = 0
    moved: int = 0
    failed: int = 0
    refused: int = 0
    bytes: int = 0
    seconds: float = 0.0
    reasons: dict[str, int] = {}
    left_out: int = 0  # links of pages beyond `limits.links_per_page`
    giving: int = 0  # hosts that gave at least one page

    @property
    def settled(self) -> int:
        return self.pages + self.unchanged + self.moved + self.failed + self.refused

    def count(self, kind: str, reason: str, size: int, left_out: int = 0) -> None:
        """An outcome is durable."""
        self._add(kind, 1)
        self.bytes += size
        self.left_out += left_out
        if reason:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def take_back(self, kind: str, reason: str) -> None:
        """What was counted so does not count any more."""
        self._add(kind, -1)
        self.reasons[reason] -= 1
        if not self.reasons[reason]:
            del self.reasons[reason]

    def _add(self, kind: str, number: int) -> None:
        field = "pages" if kind == "page" else kind
        setattr(self, field, getattr(self, field) + number)

    def note_giving(self) -> None:
        """A host gave its first page."""
        self.giving += 1

    def note_seconds(self, seconds: float) -> None:
        """The crawl has taken so long, resumes included."""
        self.seconds = seconds


def sealed_tally(last: Checkpoint | None) -> CrawlTally:
    """The tally of a checkpoint; nothing yet, before the first one."""
    return last.state("tally", CrawlTally) if last is not None else CrawlTally()
