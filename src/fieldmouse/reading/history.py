"""What the polls of one page found, and when it is polled again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from fieldmouse.crawldir import Checkpoint, CrawlDir
from fieldmouse.figures import counted, duration, when
from fieldmouse.reading.planning import Planner
from fieldmouse.reading.shelf import LedgerShelf
from fieldmouse.reading.versions import told_apart
from fieldmouse.records import News, OutcomeKind, OutcomeRow
from fieldmouse.refresh.fold import is_odd
from fieldmouse.refresh.looks import Flag
from fieldmouse.refresh.reading import LEDGER, read_ledger

MOST = 5
"""Polls that are told one by one; of older ones only how many there were."""

_SEEN = (News.CHANGED, News.GONE, News.MOVED)


class DueDate(msgspec.Struct, frozen=True):
    """When a page is polled again, by the plan of now. Times are epoch seconds."""

    at: float | None  # None: no plan has a place for it
    every: float | None  # seconds between two polls of it
    asked: bool = False  # a poll is under way


def is_dull(row: OutcomeRow) -> bool:
    """Whether it is a poll that found nothing new: worth counting, not telling."""
    return bool(row.polled) and (row.kind is OutcomeKind.UNCHANGED or row.news in (News.SAME, News.NOISE))


def told_of_polls(rows: Sequence[OutcomeRow]) -> Iterator[str]:
    """How often it was polled, and what was found."""
    polls = [row for row in rows if row.polled]
    if not polls:
        return
    withdrawn = sum(row.withdrawn for row in polls)
    found = max(0, sum(row.news in _SEEN for row in polls) - withdrawn)
    noise = sum(row.news is News.NOISE for row in polls) + withdrawn
    span = f"{when(polls[0].at)}" if len(polls) == 1 else f"from {when(polls[0].at)} to {when(polls[-1].at)}"
    yield f"polled {counted(len(polls), 'time')}, {span}: {counted(found, 'change')} found" + (
        f", and {counted(noise, 'time')} a difference that is none to a reader" if noise else ""
    )
    versions = len(told_apart(rows))
    if versions > 1:
        yield f"{counted(versions, 'version')} of it are in the archive"


def told_of_moves(moves: Sequence[OutcomeRow]) -> Iterator[str]:
    """Which pages have moved to this one: their versions stay where they were."""
    for row in moves[-MOST:]:
        yield f"{row.url} moved here, as was seen {when(row.at)}; its versions are kept under that URL"
    if len(moves) > MOST:
        yield f"so did {counted(len(moves) - MOST, 'other page')} before"


def due_date(home: CrawlDir, url: str, last: Checkpoint) -> DueDate | None:
    """When it is polled again; None if this crawl was never refreshed, or does not know the page."""
    if LEDGER not in last.parts:
        return None
    ledger = read_ledger(home, last)
    try:
        number = ledger.find(url)
        if number is None:
            return None
        flags, tried = int(ledger.column("flags")[number]), float(ledger.column("tried")[number])
        asked = bool(flags & Flag.ASKED)
        planner = Planner([LedgerShelf(home, last, ledger)])
        (rows,) = planner.rows
        place = np.searchsorted(rows, number)
        known = place < len(rows) and rows[place] == number
        rate = float(planner.present()[place]) if known else 0.0
        odd = bool(is_odd(np.array([flags], np.uint16))[0])
        every = planner.retry if odd else 1 / rate if rate else None
        return DueDate(tried + every if every else None, every, asked)
    finally:
        ledger.close()


def told_of_due(due: DueDate, now: float) -> str:
    if due.asked:
        return "a poll of it is under way"
    if due.at is None or due.every is None:
        return "not to be polled again by the present plan: its polls would bring less than those of others"
    due_at = min(due.at, now + due.every)  # a last try in the future is one of a clock that was ahead
    rest = due_at - now
    soon = f"next in {duration(rest)}, at {when(due_at)}" if rest > 0 else f"due for {duration(-rest)}"
    return f"a refresh polls it every {duration(round(due.every, 3))}, {soon}"
