"""Result of one check, with advice."""

from __future__ import annotations

import msgspec

from fieldmouse.crawldir import CrawlDir

COPY = "restore it from a copy of the directory"


class Finding(msgspec.Struct, frozen=True):
    """Result of one check. `healthy` is False only if a repair is needed; `curable`: `doctor --repair` can do
    it."""

    what: str
    healthy: bool
    says: str
    advice: str = ""
    subject: str = ""  # the damaged file or directory, relative to the crawl directory
    curable: bool = False


def good(what: str, says: str, advice: str = "") -> Finding:
    return Finding(what, True, says, advice)


def bad(what: str, says: str, advice: str = "", subject: str = "") -> Finding:
    return Finding(what, False, says, advice, subject)


def curable(what: str, says: str, advice: str, subject: str) -> Finding:
    return Finding(what, False, says, advice, subject, True)


class Presence(msgspec.Struct, frozen=True):
    """The process that crawls in the directory, or how the last one ended."""

    owner: int | None  # process id of the running crawl; 0 if unknown
    killed: bool  # the last process did not remove its id from the lock

    @property
    def ended(self) -> bool:
        """Whether no process runs and the last one ended normally: unfinished files are damage then."""
        return self.owner is None and not self.killed


def presence(home: CrawlDir) -> Presence:
    return Presence(home.owner(), home.killed)
