"""Checkpoint of a whole crawl: a table of named parts, stored in the journal.

The state of each part is kept as raw bytes. Only the owner of the part decodes it
(`Checkpoint.state`). The table also lists the files that the part had synced, with their
lengths, so that any reader can check whether the files are still complete.
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
    """One part at a checkpoint."""

    state: msgspec.Raw  # opens the part again
    files: dict[str, int] = {}  # paths relative to the crawl directory, and their lengths in bytes


class Checkpoint(msgspec.Struct, frozen=True):
    """Everything that recovery needs. Files not named here do not count."""

    at: float
    parts: dict[str, PartNote]
    clean: bool = False  # written at an orderly end
    stopped_by: StoppedBy = StoppedBy.NOTHING
    born: Identity | None = None  # copy of `crawl.json`, to detect edits of that file; None in format 1

    def state(self, name: str, kind: type[T]) -> T:
        """Decode the state of the part `name`; raises `Damaged` if it is missing or unreadable."""
        try:
            return msgspec.msgpack.decode(self.parts[name].state, type=kind)
        except KeyError:
            raise Damaged(Path("journal"), f"its checkpoint has no `{name}`") from None
        except msgspec.MsgspecError as trouble:
            says = f"the part `{name}` of its checkpoint cannot be decoded ({trouble})"
            raise Damaged(Path("journal"), says) from trouble

    def replaced(self, name: str, state: object, files: Mapping[str, int]) -> Checkpoint:
        """A copy of the checkpoint in which one part is replaced."""
        return msgspec.structs.replace(self, parts=self.parts | {name: noted(state, files)})


class _CheckpointV2(msgspec.Struct, frozen=True):
    """A checkpoint of formats 1 and 2, in which the parts were fixed fields."""

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
_old_decoder = msgspec.msgpack.Decoder(_CheckpointV2)


def noted(state: object, files: Mapping[str, int]) -> PartNote:
    return PartNote(msgspec.Raw(msgspec.msgpack.encode(state)), dict(files))


def encode(checkpoint: Checkpoint) -> bytes:
    return msgspec.msgpack.encode(checkpoint)


def decode(raw: bytes) -> Checkpoint:
    """Decode a journal record of any known format; raises `MsgspecError`."""
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
    """Number of bytes of `outcomes.log` that count."""
    return last.state("outcomes", int) if last is not None else 0


def sealed_scope(last: Checkpoint | None) -> ScopeState:
    """The state of the scope. Older crawls stored only its mark, or nothing."""
    if last is None or "scope" not in last.parts:
        return ScopeState()
    state: ScopeState | str = last.state("scope", ScopeState | str)  # type: ignore[arg-type]
    return ScopeState(state) if isinstance(state, str) else state


def inspect_journal(home: CrawlDir) -> JournalReport:
    """Report on the journal, including bad records. Changes nothing."""
    return inspect(home / "journal", is_checkpoint)


def open_journal(home: CrawlDir) -> tuple[Journal, Checkpoint | None]:
    """Open the journal and return it with its newest checkpoint, or None if there is none.

    The caller must hold the lock.
    """
    journal = Journal(home / "journal", is_checkpoint)
    last = _newest(home, journal.report)
    for span in journal.report.bad:
        log.warning("the record at byte %d of the journal %s; it is skipped", span.offset, span.what)
    if last is not None and journal.report.overtaken:
        log.warning("a newer checkpoint cannot be read; continuing from the one before it")
    return journal, last


@contextmanager
def fitting(journal: Journal) -> Iterator[None]:
    """Context in which files are opened at the newest readable checkpoint.

    If the files only match a newer, unreadable checkpoint, the error says so.
    """
    try:
        yield
    except Damaged as trouble:
        if not journal.report.overtaken:
            raise
        says = (
            f"its newest checkpoint cannot be read, and the files no longer match the one before ({trouble})"
        )
        raise Damaged(journal.path, says) from trouble


def read_checkpoint(home: CrawlDir) -> Checkpoint | None:
    """The newest checkpoint, without holding the lock; None before the first one."""
    return _newest(home, inspect_journal(home))


def _newest(home: CrawlDir, report: JournalReport) -> Checkpoint | None:
    if report.newest is None and (witness := evidence(home.path)) is not None:
        # A running crawl may have committed its first checkpoint since the journal was read.
        report = inspect_journal(home)
        if report.newest is None:
            shown = witness.relative_to(home.path)
            says = f"no checkpoint in it can be read, though `{shown}` shows that there was one"
            raise Damaged(home / "journal", says)
    if report.newest is None:
        return None
    last = decode(report.newest)
    check_identity(home, last)
    return last


def check_identity(home: CrawlDir, last: Checkpoint) -> None:
    """Check that `crawl.json` did not change: with another secret every URL would count as new."""
    identity = home.identity
    shards = last.born.shards if last.born is not None else len(last.state("shards", list[msgspec.Raw]))
    if identity.shards != shards:
        raise Damaged(home / "crawl.json", f"it says {identity.shards} shards, the journal {shards}")
    if last.born is not None and identity.key_seed != last.born.key_seed:
        raise Damaged(home / "crawl.json", "its `key_seed` differs from the one in the journal")


def is_changed(told: Identity, known: Identity) -> bool:
    """Whether `crawl.json` differs from the journal in anything but the format, which may be newer."""
    return msgspec.structs.replace(told, format=known.format) != known


def identity_in_journal(directory: Path) -> Identity | None:
    """The content of `crawl.json` at the last checkpoint; None if the journal has no copy."""
    newest = inspect(directory / "journal", is_checkpoint).newest
    return None if newest is None else decode(newest).born
