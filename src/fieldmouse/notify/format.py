"""Plain-text format of changes, for mail and messages to other services.

Titles and URLs come from strangers. Each becomes one line in which nothing is hidden, and none can
become a header, another line, or markup.
"""

from __future__ import annotations

from collections.abc import Sequence

from fieldmouse.formatting import format_count, format_percentage, format_time
from fieldmouse.notify.channel_interface import one_line, title_or_url
from fieldmouse.storage.changes_from_outcomes import Change, ChangeKind

_LONGEST_URL = 2000
_HEADS = {
    ChangeKind.NEW: "New",
    ChangeKind.CHANGED: "Changed",
    ChangeKind.GONE: "Gone",
    ChangeKind.MOVED: "Moved",
    ChangeKind.WITHDRAWN: "Not changed after all",
}


def without_withdrawn(changes: Sequence[Change]) -> list[Change]:
    """The changes without those that are withdrawn in the same list.

    A withdrawal of a change sent earlier stays.
    """
    here = {change.id for change in changes}
    taken_back = {change.withdraws for change in changes} & here
    return [change for change in changes if change.id not in taken_back and change.withdraws not in taken_back]


def subject(changes: Sequence[Change], crawl: str) -> str:
    """Subject line."""
    counts = without_withdrawn(changes)
    if len(counts) == 1:
        return f"{one_line(crawl)}: {_HEADS[counts[0].kind].lower()}: {title_or_url(counts[0])}"
    return f"{one_line(crawl)}: {format_count(len(counts), 'change')}"


def body(changes: Sequence[Change]) -> str:
    """All changes grouped by kind, in their order within each kind."""
    counts, lines = without_withdrawn(changes), list[str]()
    for kind, head in _HEADS.items():
        group = [change for change in counts if change.kind is kind]
        if group:
            lines += [f"{head} ({len(group)})", ""]
            for change in group:
                lines += [*_lines(change), ""]
    return "\n".join(lines) or "All changes were withdrawn: they were noise.\n"


def _lines(change: Change) -> list[str]:
    lines = [f"  {title_or_url(change)}", f"  {one_line(change.url, _LONGEST_URL)}"]
    if change.kind is ChangeKind.MOVED:
        lines.append(f"  to {one_line(change.target, _LONGEST_URL)}")
    share = f", {format_percentage(change.difference)} of its words" if change.kind is ChangeKind.CHANGED else ""
    return [*lines, f"  {format_time(round(change.at))}{share}"]
