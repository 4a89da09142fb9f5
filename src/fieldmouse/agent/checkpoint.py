"""One moment of the whole crawl, as the journal keeps it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fieldmouse.crawldir import CrawlDir, Identity, Journal, JournalReport, evidence, inspect
from fieldmouse.errors import Damaged
from fieldmouse.frontier.moment import FrontierState
from fieldmouse.indexer.wire import ShardState

log = logging.getLogger(__name__)


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
    giving: int = 0  # hosts that gave at least one page

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
    born: Identity | None = None  # what `crawl.json` says, so that a change of it shows; None in format 1


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
    last = _newest(home, journal.report)
    for span in journal.report.bad:
        log.warning("the record at byte %d of the journal %s; it is passed over", span.offset, span.what)
    if last is not None and journal.report.overtaken:
        log.warning("a younger checkpoint cannot be read; going on from the one before it")
    return journal, last


@contextmanager
def fitting(journal: Journal) -> Iterator[None]:
    """Opens files at the newest checkpoint that can be read, and says so if they fit only a younger one."""
    try:
        yield
    except Damaged as trouble:
        if not journal.report.overtaken:
            raise
        says = (
            f"its newest checkpoint cannot be read, and the one before it does not fit any more ({trouble})"
        )
        raise Damaged(journal.path, says) from trouble


def read_checkpoint(home: CrawlDir) -> Checkpoint | None:
    """The newest checkpoint, for onlookers; None before the first one."""
    return _newest(home, inspect_journal(home))


def _newest(home: CrawlDir, report: JournalReport) -> Checkpoint | None:
    if report.newest is None and (found := evidence(home.path)) is not None:
        # A crawl that runs may have committed its first checkpoint since we looked.
        report = inspect_journal(home)
        if report.newest is None:
            shown = found.relative_to(home.path)
            says = f"no checkpoint in it can be read, though `{shown}` shows that there was one"
            raise Damaged(home / "journal", says)
    if report.newest is None:
        return None
    last = _decoder.decode(report.newest)
    check_identity(home, last)
    return last


def check_identity(home: CrawlDir, last: Checkpoint) -> None:
    """`crawl.json` must say what it always said: another secret would make every URL a new one."""
    told = home.identity
    if told.shards != len(last.shards):
        says = f"it speaks of {told.shards} shards, the journal of {len(last.shards)}"
        raise Damaged(home / "crawl.json", says)
    if last.born is not None and told.key_seed != last.born.key_seed:
        raise Damaged(home / "crawl.json", "its `key_seed` is not the one that the journal knows")


def is_changed(told: Identity, known: Identity) -> bool:
    """Whether `crawl.json` says something else than the journal; the format may be younger there."""
    return msgspec.structs.replace(told, format=known.format) != known


def identity_in_journal(directory: Path) -> Identity | None:
    """What `crawl.json` said at the last checkpoint; None if the journal does not know."""
    newest = inspect(directory / "journal", is_checkpoint).newest
    return None if newest is None else _decoder.decode(newest).born
