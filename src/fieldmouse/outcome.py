"""Outcome kinds of a URL, and stop reasons of a run.

Files and JSON keep the text of each member. An unknown text raises an error instead of becoming a new
kind.
"""

from __future__ import annotations

from enum import StrEnum


class OutcomeKind(StrEnum):
    """Result of a URL."""

    PAGE = "page"
    UNCHANGED = "unchanged"
    MOVED = "moved"
    REFUSED = "refused"  # by us: no request was made
    FAILED = "failed"
    FORGIVEN = "forgiven"  # no outcome, but a mark that withdraws the earlier outcome of the URL


class StoppedBy(StrEnum):
    """Reason a run ended although work may be left."""

    NOTHING = ""  # the work was done
    PAGES = "pages"
    TIME = "time"
    DISK = "disk"
    SIGNAL = "signal"  # or any other caller that asked for it
    DRAINED = "drained"  # an agent that was asked remotely to leave
