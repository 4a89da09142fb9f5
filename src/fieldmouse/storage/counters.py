"""Outcome counters of a crawl, stored in the checkpoint and shown in the summary."""

from __future__ import annotations

import msgspec

from fieldmouse.storage.checkpoint import Checkpoint
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind, OutcomeReason


class PollCounters(msgspec.Struct):
    """Counters of polls: fetches of known URLs."""

    polls: int = 0
    changed: int = 0
    unchanged: int = 0
    gone: int = 0
    refused: int = 0  # not fetched after all, for example because robots.txt now forbids it
    reasons: dict[str, int] = {}  # of polls that failed or were refused
    pages: int = 0  # pages gained from URLs that were not pages, minus pages lost

    @property
    def failed(self) -> int:
        """Polls that gave no information about the page."""
        return self.polls - self.changed - self.unchanged - self.gone - self.refused


class CrawlCounters(msgspec.Struct):
    """Counters over the whole crawl, resumes included. An accepted URL is in exactly one, or waiting.

    It is counted by its newest outcome that stands: a poll may move it from one counter to another.
    """

    pages: int = 0
    unchanged: int = 0  # 304 for a newly discovered URL
    moved: int = 0
    failed: int = 0
    refused: int = 0
    bytes: int = 0
    seconds: float = 0.0
    reasons: dict[str, int] = {}
    left_out: int = 0  # links beyond `limits.links_per_page`
    giving: int = 0  # hosts that gave at least one page
    polled: PollCounters = msgspec.field(default_factory=PollCounters)

    def count_poll(
        self,
        row: OutcomeRow,
        size: int,
        left_out: int,
        *,
        changed: bool,
        why: OutcomeReason = OutcomeReason.NONE,
    ) -> None:
        """Count a poll; `changed` tells whether the page differs from the stored one.

        `why` is the reason for which the URL was not a page before.
        """
        polled = self.polled
        self.bytes += size
        self.left_out += left_out
        polled.polls += 1
        if row.is_gone:
            # A URL that was not a page before and still is not counts as unchanged.
            was_page = row.polled == OutcomeKind.PAGE or row.news is ContentChange.GONE
            polled.gone += was_page
            polled.unchanged += not was_page
        elif row.kind == OutcomeKind.UNCHANGED or (row.kind == OutcomeKind.PAGE and not changed):
            polled.unchanged += 1
        elif row.kind is OutcomeKind.PAGE or (row.kind is OutcomeKind.MOVED and row.is_latest):
            polled.changed += 1
        elif row.kind is OutcomeKind.MOVED:
            polled.unchanged += 1  # temporary redirect, or its target is not stored yet
        else:
            polled.refused += (
                row.kind is OutcomeKind.REFUSED or row.reason is OutcomeReason.ROBOTS_TXT_EXCLUDED
            )
            polled.reasons[row.reason] = polled.reasons.get(row.reason, 0) + 1
        if row.is_latest and row.kind != row.polled:
            self._add(OutcomeKind(row.polled), -1)
            self._add(row.kind, 1)
            polled.pages += (row.kind == OutcomeKind.PAGE) - (row.polled == OutcomeKind.PAGE)
        if row.is_latest and row.reason != why:
            self._count_reason(why, -1)
            self._count_reason(row.reason, 1)

    @property
    def discovered_pages(self) -> int:
        """Pages found by discovery, whatever later polls showed: the number that a page limit counts."""
        return self.pages - self.polled.pages

    @property
    def settled(self) -> int:
        return self.pages + self.unchanged + self.moved + self.failed + self.refused

    def count(self, kind: OutcomeKind, reason: OutcomeReason, size: int, left_out: int = 0) -> None:
        """Count a durable outcome."""
        self._add(kind, 1)
        self.bytes += size
        self.left_out += left_out
        self._count_reason(reason, 1)

    def uncount(self, kind: OutcomeKind, reason: OutcomeReason) -> None:
        """Undo `count` for one outcome."""
        self._add(kind, -1)
        self._count_reason(reason, -1)

    def _count_reason(self, reason: OutcomeReason, number: int) -> None:
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
            case OutcomeKind.WITHDRAWN:
                raise AssertionError("retried failures are taken back, not counted")

    def count_host_with_pages(self) -> None:
        """Count a host that gave its first page."""
        self.giving += 1

    def set_seconds(self, seconds: float) -> None:
        """Set the duration of the crawl in seconds, resumes included."""
        self.seconds = seconds


def sealed_counters(last: Checkpoint | None) -> CrawlCounters:
    """The counters of a checkpoint; zeros before the first one."""
    return last.state("tally", CrawlCounters) if last is not None else CrawlCounters()
