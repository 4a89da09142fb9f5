"""What became of all URLs so far, counted: the part of a checkpoint that a summary is made of."""

from __future__ import annotations

import msgspec

from fieldmouse.crawldir.checkpoint import Checkpoint
from fieldmouse.records import News, OutcomeKind, OutcomeRow, Reason


class PollTally(msgspec.Struct):
    """Known URLs that were asked again, and what that showed, if anything."""

    polls: int = 0
    changed: int = 0
    unchanged: int = 0
    gone: int = 0
    refused: int = 0  # not asked after all, such as what robots.txt excludes by now
    reasons: dict[str, int] = {}  # of those that failed or were refused
    pages: int = 0  # that they made out of other URLs, less those that are pages no more

    @property
    def failed(self) -> int:
        """Polls that showed nothing of the page."""
        return self.polls - self.changed - self.unchanged - self.gone - self.refused


class CrawlTally(msgspec.Struct):
    """Counts over the whole crawl, resumes included. An accepted URL is in exactly one, or waiting.

    It is in that of its newest outcome that stands: a poll may move it from one to another.
    """

    pages: int = 0
    unchanged: int = 0  # 304 to a URL that was discovered
    moved: int = 0
    failed: int = 0
    refused: int = 0
    bytes: int = 0
    seconds: float = 0.0
    reasons: dict[str, int] = {}
    left_out: int = 0  # links of pages beyond `limits.links_per_page`
    giving: int = 0  # hosts that gave at least one page
    polled: PollTally = msgspec.field(default_factory=PollTally)

    def count_poll(
        self, row: OutcomeRow, size: int, left_out: int, *, changed: bool, why: Reason = Reason.NONE
    ) -> None:
        """What a poll showed; `changed` is whether the page is another than the one we held.

        `why` is for which reason it was no page before.
        """
        polled = self.polled
        self.bytes += size
        self.left_out += left_out
        polled.polls += 1
        if row.gone:
            # What was no page before, and is none still, is nothing new.
            was_page = row.polled == OutcomeKind.PAGE or row.news is News.GONE
            polled.gone += was_page
            polled.unchanged += not was_page
        elif row.kind == OutcomeKind.UNCHANGED or (row.kind == OutcomeKind.PAGE and not changed):
            polled.unchanged += 1
        elif row.kind is OutcomeKind.PAGE or (row.kind is OutcomeKind.MOVED and row.stands):
            polled.changed += 1
        elif row.kind is OutcomeKind.MOVED:
            polled.unchanged += 1  # for the time being, or its target is yet to be stored
        else:
            polled.refused += row.kind is OutcomeKind.REFUSED or row.reason is Reason.EXCLUDED
            polled.reasons[row.reason] = polled.reasons.get(row.reason, 0) + 1
        if row.stands and row.kind != row.polled:
            self._add(OutcomeKind(row.polled), -1)
            self._add(row.kind, 1)
            polled.pages += (row.kind == OutcomeKind.PAGE) - (row.polled == OutcomeKind.PAGE)
        if row.stands and row.reason != why:
            self._blame(why, -1)
            self._blame(row.reason, 1)

    @property
    def discovered_pages(self) -> int:
        """Pages at first sight, whatever became of them: what a limit on pages counts."""
        return self.pages - self.polled.pages

    @property
    def settled(self) -> int:
        return self.pages + self.unchanged + self.moved + self.failed + self.refused

    def count(self, kind: OutcomeKind, reason: Reason, size: int, left_out: int = 0) -> None:
        """An outcome is durable."""
        self._add(kind, 1)
        self.bytes += size
        self.left_out += left_out
        self._blame(reason, 1)

    def take_back(self, kind: OutcomeKind, reason: Reason) -> None:
        """What was counted so does not count any more."""
        self._add(kind, -1)
        self._blame(reason, -1)

    def _blame(self, reason: Reason, number: int) -> None:
        if reason:
            self.reasons[reason] = self.reasons.get(reason, 0) + number
            if self.reasons[reason] <= 0:
                del self.reasons[reason]

    def _add(self, kind: OutcomeKind, number: int) -> None:
        match kind:
            case OutcomeKind.PAGE:
                self.pages += number
            case OutcomeKind.UNCHANGED:
                self.unchanged += number
            case OutcomeKind.MOVED:
                self.moved += number
            case OutcomeKind.FAILED:
                self.failed += number
            case OutcomeKind.REFUSED:
                self.refused += number
            case OutcomeKind.FORGIVEN:
                raise AssertionError("what is forgiven is taken back, not counted")

    def note_giving(self) -> None:
        """A host gave its first page."""
        self.giving += 1

    def note_seconds(self, seconds: float) -> None:
        """The crawl has taken so long, resumes included."""
        self.seconds = seconds


def sealed_tally(last: Checkpoint | None) -> CrawlTally:
    """The tally of a checkpoint; nothing yet, before the first one."""
    return last.state("tally", CrawlTally) if last is not None else CrawlTally()
