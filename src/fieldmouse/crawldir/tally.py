"""What became of all URLs so far, counted: the part of a checkpoint that a summary is made of."""

from __future__ import annotations

import msgspec

from fieldmouse.crawldir.checkpoint import Checkpoint


class Tally(msgspec.Struct):
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


def sealed_tally(last: Checkpoint | None) -> Tally:
    """The tally of a checkpoint; nothing yet, before the first one."""
    return last.state("tally", Tally) if last is not None else Tally()
