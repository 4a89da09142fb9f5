"""One moment of the whole crawl, as the journal keeps it."""

from __future__ import annotations

import msgspec

from fieldmouse.crawldir import CrawlDir, Journal, JournalReport, evidence, inspect
from fieldmouse.errors import Damaged
from fieldmouse.frontier.moment import FrontierState
from fieldmouse.indexer.wire import ShardState


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

    @property
    def settled(self) -> int:
        return self.pages + self.unchanged + self.moved + self.failed + self.refused


class Checkpoint(msgspec.Struct, frozen=True):
    """Everything recovery needs; what is not named here does not count."""

    at: float
    frontier: FrontierState
    shards: list[ShardState]
    outcomes: int  # bytes of outcomes.log
    tally: Tally
    clean: bool = False  # written at an orderly end
    stopped_by: str = ""


_decoder = msgspec.msgpack.Decoder(Checkpoint)


def is_checkpoint(raw: bytes) -> bool:
    try:
        _decoder.decode(raw)
    except msgspec.MsgspecError:
        return False
    return True


def inspect_journal(home: CrawlDir) -> JournalReport:
    """What the journal holds, bad records included; changes nothing."""
    return inspect(home / "journal", is_checkpoint)


def open_journal(home: CrawlDir) -> tuple[Journal, Checkpoint | None]:
    """The journal, for who holds the lock, and its newest checkpoint; None if there never was one."""
    journal = Journal(home / "journal", is_checkpoint)
    return journal, _newest(home, journal.report)


def read_checkpoint(home: CrawlDir) -> Checkpoint | None:
    """The newest checkpoint, for onlookers; None before the first one."""
    return _newest(home, inspect_journal(home))


def _newest(home: CrawlDir, report: JournalReport) -> Checkpoint | None:
    if report.newest is not None:
        return _decoder.decode(report.newest)
    found = evidence(home.path)
    if found is None:
        return None
    # A crawl that runs may have committed its first checkpoint since we looked.
    report = inspect_journal(home)
    if report.newest is not None:
        return _decoder.decode(report.newest)
    raise Damaged(
        home / "journal",
        f"no checkpoint in it can be read, though `{found.relative_to(home.path)}` shows that there was one",
    )
