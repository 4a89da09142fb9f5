"""Poll history of one page, and its next poll."""

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
"""Polls described one by one; older ones are only counted."""

_SEEN = (News.CHANGED, News.GONE, News.MOVED)


class DueDate(msgspec.Struct, frozen=True):
    """Next poll of a page in the present plan. Times are epoch seconds."""

    at: float | None  # None: not in the plan
    every: float | None  # seconds between two polls
    asked: bool = False  # a poll is in flight


def is_dull(row: OutcomeRow) -> bool:
    """Whether the row is a poll that found nothing new; these are only counted."""
    return bool(row.polled) and (row.kind is OutcomeKind.UNCHANGED or row.news in (News.SAME, News.NOISE))


def told_of_polls(rows: Sequence[OutcomeRow]) -> Iterator[str]:
    """How often the page was polled, and how many changes were found."""
    polls = [row for row in rows if row.polled]
    if not polls:
        return
    withdrawn = sum(row.withdrawn for row in polls)
    changes = max(0, sum(row.news in _SEEN for row in polls) - withdrawn)
    noise = sum(row.news is News.NOISE for row in polls) + withdrawn
    span = f"{when(polls[0].at)}" if len(polls) == 1 else f"from {when(polls[0].at)} to {when(polls[-1].at)}"
    yield f"polled {counted(len(polls), 'time')}, {span}: {counted(changes, 'change')} found" + (
        f", and {counted(noise, 'time')} a difference that is none to a reader" if noise else ""
    )
    versions = len(told_apart(rows))
    if versions > 1:
        yield f"{counted(versions, 'version')} of it are in the archive"


def told_of_moves(moves: Sequence[OutcomeRow]) -> Iterator[str]:
    """Pages that moved to this one; their versions stay under their old URL."""
    for row in moves[-MOST:]:
        yield f"{row.url} moved here, as was seen {when(row.at)}; its versions are kept under that URL"
    if len(moves) > MOST:
        yield f"so did {counted(len(moves) - MOST, 'other page')} before"


def due_date(home: CrawlDir, url: str, last: Checkpoint) -> DueDate | None:
    """Next poll of the page; None if the crawl was never refreshed or the page is not in the page table."""
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
        is_planned = place < len(rows) and rows[place] == number
        rate = float(planner.present()[place]) if is_planned else 0.0
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
    due_at = min(due.at, now + due.every)  # a last try in the future comes from a clock that was ahead
    rest = due_at - now
    soon = f"next in {duration(rest)}, at {when(due_at)}" if rest > 0 else f"due for {duration(-rest)}"
    return f"a refresh polls it every {duration(round(due.every, 3))}, {soon}"
