"""The words for what can become of a URL, and of a run: kinds of outcome, and what a run was stopped by.

They are what files and JSON keep, so each is its own text: a value that is written is read back as
the same word, and one that nobody knows is an error and not a new kind.
"""

from __future__ import annotations

from enum import StrEnum


class OutcomeKind(StrEnum):
    """What became of a URL."""

    PAGE = "page"
    UNCHANGED = "unchanged"
    MOVED = "moved"
    REFUSED = "refused"  # by us: it was not asked for
    FAILED = "failed"
    FORGIVEN = "forgiven"  # no outcome of its own: takes back what was said of the URL before


class StoppedBy(StrEnum):
    """Why a run ended though there may be work left."""

    NOTHING = ""  # the work was done
    PAGES = "pages"
    TIME = "time"
    DISK = "disk"
    SIGNAL = "signal"  # or whoever else asked for it
    DRAINED = "drained"  # an agent that was asked to leave, from afar
