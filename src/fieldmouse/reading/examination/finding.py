"""One thing looked at, and what to do about it."""

from __future__ import annotations

import msgspec

from fieldmouse.crawldir import CrawlDir

COPY = "restore it from a copy of the directory"


class Finding(msgspec.Struct, frozen=True):
    """`healthy` is False only for what needs mending; `curable` says that `doctor --repair` can do it."""

    what: str
    healthy: bool
    says: str
    advice: str = ""
    subject: str = ""  # the file or directory that is damaged, as seen from the crawl's
    curable: bool = False


def good(what: str, says: str, advice: str = "") -> Finding:
    return Finding(what, True, says, advice)


def bad(what: str, says: str, advice: str = "", subject: str = "") -> Finding:
    return Finding(what, False, says, advice, subject)


def curable(what: str, says: str, advice: str, subject: str) -> Finding:
    return Finding(what, False, says, advice, subject, True)


class Presence(msgspec.Struct, frozen=True):
    """Who is in the directory, or how the last one left it."""

    owner: int | None  # the process that crawls now
    killed: bool  # the last one had no time to wipe its number from the lock

    @property
    def ended(self) -> bool:
        """Nobody is here, and the last one left in order: whatever is unfinished is damage."""
        return self.owner is None and not self.killed


def presence(home: CrawlDir) -> Presence:
    return Presence(home.owner(), home.killed)
