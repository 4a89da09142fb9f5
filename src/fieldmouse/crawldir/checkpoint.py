"""One moment of the whole crawl, as the journal keeps it: a table of named parts.

What a part needs to open again is its own affair: the table holds it as raw bytes, and
only its owner decodes it (`Checkpoint.state`). Beside it stand the files that the part
had synced and how long they were, so that anybody can see whether they still are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from fieldmouse.crawldir.directory import CrawlDir, Identity
from fieldmouse.crawldir.evidence import evidence
from fieldmouse.crawldir.journal import Journal, JournalReport, inspect
from fieldmouse.errors import Damaged
from fieldmouse.outcome import StoppedBy
from fieldmouse.policy.scope import ScopeState

log = logging.getLogger(__name__)

T = TypeVar("T")


class PartNote(msgspec.Struct, frozen=True):
    """One part at the moment of a checkpoint."""

    state: msgspec.Raw  # what its owner opens it with
    files: dict[str, int] = {}  # seen from the crawl's directory, and how long each was


class Checkpoint(msgspec.Struct, frozen=True):
    """Everything recovery needs; what is not named here does not count."""

    at: float
    parts: dict[str, PartNote]
    clean: bool = False  # written at an orderly end
    stopped_by: StoppedBy = StoppedBy.NOTHING
    born: Identity | None = None  # what `crawl.json` says, so that a change of it shows; None in format 1

    def state(self, name: str, kind: type[T]) -> T:
        """What the part `name` was sealed with."""
        try:
            return msgspec.msgpack.decode(self.parts[name].state, type=kind)
        except KeyError:
            raise Damaged(Path("journal"), f"its checkpoint knows no `{name}`") from None
        except msgspec.MsgspecError as trouble:
            says = f"what its checkpoint says of `{name}` cannot be understood ({trouble})"
            raise Damaged(Path("journal"), says) from trouble

    def replaced(self, name: str, state: object, files: Mapping[str, int]) -> Checkpoint:
        """The same moment, but for one part."""
        return msgspec.structs.replace(self, parts=self.parts | {name: noted(state, files)})


class _Before3(msgspec.Struct, frozen=True):
    """A checkpoint of formats 1 and 2, which knew the parts of that time by heart."""

    at: float
    frontier: msgspec.Raw
    shards: msgspec.Raw
    outcomes: int
    tally: msgspec.Raw
    clean: bool = False
    stopped_by: StoppedBy = StoppedBy.NOTHING
    born: Identity | None = None

    def as_table(self) -> Checkpoint:
        parts = {
            "shards": PartNote(self.shards),
            "outcomes": noted(self.outcomes, {"outcomes.log": self.outcomes}),
            "tally": PartNote(self.tally),
            "frontier": PartNote(self.frontier),
        }
        return Checkpoint(self.at, parts, self.clean, self.stopped_by, self.born)


_decoder = msgspec.msgpack.Decoder(Checkpoint)
_old_decoder = msgspec.msgpack.Decoder(_Before3)


def noted(state: object, files: Mapping[str, int]) -> PartNote:
    return PartNote(msgspec.Raw(msgspec.msgpack.encode(state)), dict(files))


def encode(checkpoint: Checkpoint) -> bytes:
    """As the journal holds it."""
    return msgspec.msgpack.encode(checkpoint)


def decode(raw: bytes) -> Checkpoint:
    """A record of the journal, of any format that we know; raises `MsgspecError`."""
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError:
        return _old_decoder.decode(raw).as_table()


def is_checkpoint(raw: bytes) -> bool:
    try:
        decode(raw)
    except msgspec.MsgspecError:
        return False
    return True


def sealed_outcomes(last: Checkpoint | None) -> int:
    """Bytes of `outcomes.log` that count."""
    return last.state("outcomes", int) if last is not None else 0


def sealed_scope(last: Checkpoint | None) -> ScopeState:
    """How the scope stood; older crawls kept no more than its mark, or nothing."""
    if last is None or "scope" not in last.parts:
        return ScopeState()
    state: ScopeState | str = last.state("scope", ScopeState | str)  # type: ignore[arg-type]
    return ScopeState(state) if isinstance(state, str) else state


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
    last = decode(report.newest)
    check_identity(home, last)
    return last


def check_identity(home: CrawlDir, last: Checkpoint) -> None:
    """`crawl.json` must say what it always said: another secret would make every URL a new one."""
    told = home.identity
    known = last.born.shards if last.born is not None else len(last.state("shards", list[msgspec.Raw]))
    if told.shards != known:
        raise Damaged(home / "crawl.json", f"it speaks of {told.shards} shards, the journal of {known}")
    if last.born is not None and told.key_seed != last.born.key_seed:
        raise Damaged(home / "crawl.json", "its `key_seed` is not the one that the journal knows")


def is_changed(told: Identity, known: Identity) -> bool:
    """Whether `crawl.json` says something else than the journal; the format may be younger there."""
    return msgspec.structs.replace(told, format=known.format) != known


def identity_in_journal(directory: Path) -> Identity | None:
    """What `crawl.json` said at the last checkpoint; None if the journal does not know."""
    newest = inspect(directory / "journal", is_checkpoint).newest
    return None if newest is None else decode(newest).born
