"""Checkpoint of a whole crawl: durable parts, shard states and outcome counters.

A part is opened at the state of the last checkpoint, and opening changes nothing on the disk.
Then, in this order:

- `roll_back_to_checkpoint`: all parts are open. Data written after that checkpoint may be cut or deleted.
- `seal`: hand everything to the operating system and return a state from which the
  part can be opened again, with the files that must reach the disk before that state counts.
- `on_checkpoint_committed`: the journal holds the state sealed last. Files that only older states need may be deleted.
- `close`: close the files. Unsealed data is lost, as after a kill.

The state of each part is kept as raw bytes that only its owner decodes. A part without an owner in
some run keeps its last state.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from fieldmouse.errors import DamagedFile
from fieldmouse.policy.scope import SavedScope
from fieldmouse.storage.checkpoint_log import CheckpointJournal, JournalReport, inspect_journal_file
from fieldmouse.storage.directory import CrawlDir, CrawlMetadata, evidence_of_checkpoint
from fieldmouse.storage.log import FileSyncer, Log
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind, OutcomeReason, StoppedBy

log = logging.getLogger(__name__)

T = TypeVar("T")


class PartState(msgspec.Struct, frozen=True):
    """One part at a checkpoint."""

    state: msgspec.Raw  # opens the part again
    files: dict[str, int] = {}  # paths relative to the crawl directory, and their lengths in bytes


class Checkpoint(msgspec.Struct, frozen=True):
    """Everything that recovery needs. Files not named here do not count."""

    at: float
    parts: dict[str, PartState]
    clean: bool = False  # written at an orderly end
    stopped_by: StoppedBy = StoppedBy.NOTHING
    born: CrawlMetadata | None = None  # copy of `crawl.json`, to detect edits of that file; None in format 1

    def decode_part(self, name: str, kind: type[T]) -> T:
        """Decode the state of the part `name`; raises `DamagedFile` if it is missing or unreadable."""
        try:
            return msgspec.msgpack.decode(self.parts[name].state, type=kind)
        except KeyError:
            raise DamagedFile(Path("journal"), f"its checkpoint has no `{name}`") from None
        except msgspec.MsgspecError as trouble:
            says = f"the part `{name}` of its checkpoint cannot be decoded ({trouble})"
            raise DamagedFile(Path("journal"), says) from trouble

    def with_part(self, name: str, state: object, files: Mapping[str, int]) -> Checkpoint:
        """A copy of the checkpoint in which one part is replaced."""
        return msgspec.structs.replace(self, parts=self.parts | {name: make_part_state(state, files)})


class _CheckpointV2(msgspec.Struct, frozen=True):
    """A checkpoint of formats 1 and 2, in which the parts were fixed fields."""

    at: float
    frontier: msgspec.Raw
    shards: msgspec.Raw
    outcomes: int
    tally: msgspec.Raw
    clean: bool = False
    stopped_by: StoppedBy = StoppedBy.NOTHING
    born: CrawlMetadata | None = None

    def as_checkpoint(self) -> Checkpoint:
        parts = {
            "shards": PartState(self.shards),
            "outcomes": make_part_state(self.outcomes, {"outcomes.log": self.outcomes}),
            "tally": PartState(self.tally),
            "frontier": PartState(self.frontier),
        }
        return Checkpoint(self.at, parts, self.clean, self.stopped_by, self.born)


_decoder = msgspec.msgpack.Decoder(Checkpoint)
_old_decoder = msgspec.msgpack.Decoder(_CheckpointV2)


def make_part_state(state: object, files: Mapping[str, int]) -> PartState:
    return PartState(msgspec.Raw(msgspec.msgpack.encode(state)), dict(files))


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    return msgspec.msgpack.encode(checkpoint)


def decode_checkpoint(raw: bytes) -> Checkpoint:
    """Decode a journal record of any known format; raises `MsgspecError`."""
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError:
        return _old_decoder.decode(raw).as_checkpoint()


def is_readable_checkpoint(raw: bytes) -> bool:
    try:
        decode_checkpoint(raw)
    except msgspec.MsgspecError:
        return False
    return True


def sealed_outcome_bytes(last: Checkpoint | None) -> int:
    """Number of bytes of `outcomes.log` that count."""
    return last.decode_part("outcomes", int) if last is not None else 0


def sealed_scope(last: Checkpoint | None) -> SavedScope:
    """The state of the scope. Older crawls stored only its mark, or nothing."""
    if last is None or "scope" not in last.parts:
        return SavedScope()
    state: SavedScope | str = last.decode_part("scope", SavedScope | str)  # type: ignore[arg-type]
    return SavedScope(state) if isinstance(state, str) else state


def inspect_journal(home: CrawlDir) -> JournalReport:
    """Report on the journal, including bad records. Changes nothing."""
    return inspect_journal_file(home / "journal", is_readable_checkpoint)


def open_journal(home: CrawlDir) -> tuple[CheckpointJournal, Checkpoint | None]:
    """Open the journal and return it with its newest checkpoint, or None if there is none.

    The caller must hold the lock.
    """
    journal = CheckpointJournal(home / "journal", is_readable_checkpoint)
    last = _newest_checkpoint(home, journal.report)
    for span in journal.report.bad:
        log.warning("the record at byte %d of the journal %s; it is skipped", span.offset, span.what)
    if last is not None and journal.report.newer_checkpoint_lost:
        log.warning("a newer checkpoint cannot be read; continuing from the one before it")
    return journal, last


@contextmanager
def explain_lost_checkpoint(journal: CheckpointJournal) -> Iterator[None]:
    """Context in which files are opened at the newest readable checkpoint.

    If the files only match a newer, unreadable checkpoint, the error says so.
    """
    try:
        yield
    except DamagedFile as trouble:
        if not journal.report.newer_checkpoint_lost:
            raise
        says = f"its newest checkpoint cannot be read, and the files no longer match the one before ({trouble})"
        raise DamagedFile(journal.path, says) from trouble


def read_checkpoint(home: CrawlDir) -> Checkpoint | None:
    """The newest checkpoint, without holding the lock; None before the first one."""
    return _newest_checkpoint(home, inspect_journal(home))


def _newest_checkpoint(home: CrawlDir, report: JournalReport) -> Checkpoint | None:
    if report.newest is None and (witness := evidence_of_checkpoint(home.path)) is not None:
        # A running crawl may have committed its first checkpoint since the journal was read.
        report = inspect_journal(home)
        if report.newest is None:
            shown = witness.relative_to(home.path)
            says = f"no checkpoint in it can be read, though `{shown}` shows that there was one"
            raise DamagedFile(home / "journal", says)
    if report.newest is None:
        return None
    last = decode_checkpoint(report.newest)
    check_identity_unchanged(home, last)
    return last


def check_identity_unchanged(home: CrawlDir, last: Checkpoint) -> None:
    """Check that `crawl.json` did not change: with another secret every URL would count as new."""
    identity = home.identity
    shards = last.born.shards if last.born is not None else len(last.decode_part("shards", list[msgspec.Raw]))
    if identity.shards != shards:
        raise DamagedFile(home / "crawl.json", f"it says {identity.shards} shards, the journal {shards}")
    if last.born is not None and identity.key_seed != last.born.key_seed:
        raise DamagedFile(home / "crawl.json", "its `key_seed` differs from the one in the journal")


def identity_changed(identity: CrawlMetadata, in_journal: CrawlMetadata) -> bool:
    """Whether `crawl.json` differs from the journal in anything but the format, which may be newer."""
    return msgspec.structs.replace(identity, format=in_journal.format) != in_journal


def identity_in_journal(directory: Path) -> CrawlMetadata | None:
    """The content of `crawl.json` at the last checkpoint; None if the journal has no copy."""
    newest = inspect_journal_file(directory / "journal", is_readable_checkpoint).newest
    return None if newest is None else decode_checkpoint(newest).born


S_co = TypeVar("S_co", covariant=True)


class SealedPart(NamedTuple, Generic[S_co]):
    """A part as it was sealed."""

    state: S_co  # any value that MessagePack can hold
    paths: Sequence[Path] = ()  # files to sync before the state counts; the checkpoint stores their lengths


class Durable(Protocol):
    """Component that survives a kill. Single-threaded; its files are synced by others.

    A component without files inherits from it, and leaves out what it does not need.
    """

    @property
    def name(self) -> str:
        """Its name in the checkpoint; must never change."""

    def roll_back_to_checkpoint(self) -> None:
        return

    def seal(self) -> SealedPart[object]: ...

    def on_checkpoint_committed(self) -> None:
        return

    def close(self) -> None:
        return


class DurableLog(Log):
    """Log that is a part of the checkpoint: its state is its length."""

    def __init__(self, name: str, path: Path, last: Checkpoint | None):
        """Continue `path` after the length stored in `last`."""
        self.name = name
        super().__init__(path, last.decode_part(name, int) if last is not None and name in last.parts else 0)

    def seal(self) -> SealedPart[int]:
        return SealedPart(self.flush(), (self.path,))

    def on_checkpoint_committed(self) -> None:
        """Nothing to delete: a log keeps all its records."""


class PendingCheckpoint(NamedTuple):
    """Sealed states of all parts, not yet durable."""

    checkpoint: bytes
    paths: list[Path]


class CheckpointParts:
    """All durable parts of a crawl and the journal that commits them.

    Every file that a checkpoint names is synced before the journal holds the checkpoint. If a sync
    fails, nothing counts as durable: the error is raised, and the crawl ends with
    the checkpoint before.
    """

    def __init__(self, home: CrawlDir, journal: CheckpointJournal, parts: Iterable[Durable], last: Checkpoint | None):
        self._home, self._journal, self._parts = home, journal, list(parts)
        names = [part.name for part in self._parts]
        assert len(set(names)) == len(names), f"two parts have one name: {sorted(names)}"
        # Parts without an owner in this run. Their files are left alone, so their last state still holds.
        stored = last.parts if last is not None else {}
        self._unowned = {name: note for name, note in stored.items() if name not in names}
        self._syncing = FileSyncer()

    def open_for_writing(self) -> None:
        """Begin all parts: only now may files be cut, deleted or made. The journal makes names durable."""
        for part in self._parts:
            part.roll_back_to_checkpoint()
        self._home.upgrade_format()
        self._journal.repair_before_writing()

    def seal(self, at: float, *, clean: bool = False, stopped_by: StoppedBy = StoppedBy.NOTHING) -> PendingCheckpoint:
        """Seal all parts, in the order in which they were given."""
        table, unsynced = dict(self._unowned), list[Path]()
        for part in self._parts:
            state, paths = part.seal()
            files = {str(path.relative_to(self._home.path)): path.stat().st_size for path in paths}
            table[part.name] = make_part_state(state, files)
            unsynced += paths
        checkpoint = Checkpoint(at, table, clean, stopped_by, self._home.identity)
        return PendingCheckpoint(encode_checkpoint(checkpoint), unsynced)

    def commit(self, moment: PendingCheckpoint) -> None:
        """Make the sealed states durable: on return they have reached the disk. May run in a thread."""
        self._syncing.sync(moment.paths)
        for directory in {path.parent for path in moment.paths}:
            self._syncing.sync((), directory)
        self._journal.commit(moment.checkpoint)

    def notify_committed(self) -> None:
        """Tell all parts that the states sealed last are committed."""
        for part in self._parts:
            part.on_checkpoint_committed()


class ShardState(msgspec.Struct, frozen=True, array_like=True):
    """State of one shard that its files can be rolled back to."""

    batch: int = 0  # the last committed batch
    serial: int = 0  # of the WARC file being written; 0 before the first one
    warc: str = ""  # its name
    warc_length: int = 0
    cdxj_length: int = 0
    generation: int = 0  # of the full-text index
    generation_bytes: int = 0  # text in that generation
    copies: int = 0  # bytes of its log of replaced pages

    @property
    def generation_count(self) -> int:
        """Number of generations with a page; an empty last one is recreated when the index is opened."""
        return self.generation + bool(self.generation_bytes)


def shard_states(last: Checkpoint | None) -> list[ShardState]:
    """Return the shards of a checkpoint; none before the first one."""
    return last.decode_part("shards", list[ShardState]) if last is not None else []


class PollCounters(msgspec.Struct):
    """Counters of polls: fetches of known URLs."""

    polls: int = 0
    changed: int = 0
    unchanged: int = 0
    gone: int = 0
    refused: int = 0  # not fetched after all, for example because robots.txt now forbids it
    reasons: dict[str, int] = {}  # of polls that failed or were refused
    pages: int = 0  # pages gained from URLs that were not pages, minus pages lost

    @property
    def failed_count(self) -> int:
        """Polls that gave no information about the page."""
        return self.polls - self.changed - self.unchanged - self.gone - self.refused


class CrawlCounters(msgspec.Struct):
    """Counters over the whole crawl, resumes included. An accepted URL is in exactly one, or waiting.

    It is counted by its newest outcome that stands: a poll may move it from one counter to another.
    """

    pages: int = 0
    unchanged: int = 0  # 304 for a newly discovered URL
    moved: int = 0
    failed: int = 0
    refused: int = 0
    bytes: int = 0
    seconds: float = 0.0  # duration of the crawl
    reasons: dict[str, int] = {}
    left_out: int = 0  # links beyond `limits.links_per_page`
    giving: int = 0  # hosts that gave at least one page
    polled: PollCounters = msgspec.field(default_factory=PollCounters)

    def count_poll(
        self, row: OutcomeRow, size: int, left_out: int, *, changed: bool, why: OutcomeReason = OutcomeReason.NONE
    ) -> None:
        """Count a poll; `changed` tells whether the page differs from the stored one.

        `why` is the reason for which the URL was not a page before.
        """
        polled = self.polled
        self.bytes += size
        self.left_out += left_out
        polled.polls += 1
        if row.is_gone:
            # A URL that was not a page before and still is not counts as unchanged.
            was_page = row.polled == OutcomeKind.PAGE or row.news is ContentChange.GONE
            polled.gone += was_page
            polled.unchanged += not was_page
        elif row.kind == OutcomeKind.UNCHANGED or (row.kind == OutcomeKind.PAGE and not changed):
            polled.unchanged += 1
        elif row.kind is OutcomeKind.PAGE or (row.kind is OutcomeKind.MOVED and row.supersedes_earlier):
            polled.changed += 1
        elif row.kind is OutcomeKind.MOVED:
            polled.unchanged += 1  # temporary redirect, or its target is not stored yet
        else:
            polled.refused += row.kind is OutcomeKind.REFUSED or row.reason is OutcomeReason.ROBOTS_TXT_EXCLUDED
            polled.reasons[row.reason] = polled.reasons.get(row.reason, 0) + 1
        if row.supersedes_earlier and row.kind != row.polled:
            self._adjust_count(OutcomeKind(row.polled), -1)
            self._adjust_count(row.kind, 1)
            polled.pages += (row.kind == OutcomeKind.PAGE) - (row.polled == OutcomeKind.PAGE)
        if row.supersedes_earlier and row.reason != why:
            self._count_reason(why, -1)
            self._count_reason(row.reason, 1)

    @property
    def first_fetched_pages(self) -> int:
        """Pages found by discovery, whatever later polls showed: the number that a page limit counts."""
        return self.pages - self.polled.pages

    @property
    def settled_urls(self) -> int:
        return self.pages + self.unchanged + self.moved + self.failed + self.refused

    def count_outcome(self, kind: OutcomeKind, reason: OutcomeReason, size: int, left_out: int = 0) -> None:
        """Count a durable outcome."""
        self._adjust_count(kind, 1)
        self.bytes += size
        self.left_out += left_out
        self._count_reason(reason, 1)

    def uncount_outcome(self, kind: OutcomeKind, reason: OutcomeReason) -> None:
        """Undo `count` for one outcome."""
        self._adjust_count(kind, -1)
        self._count_reason(reason, -1)

    def _count_reason(self, reason: OutcomeReason, number: int) -> None:
        if reason:
            self.reasons[reason] = self.reasons.get(reason, 0) + number
            if self.reasons[reason] <= 0:
                del self.reasons[reason]

    def _adjust_count(self, kind: OutcomeKind, number: int) -> None:
        assert kind is not OutcomeKind.WITHDRAWN, "retried failures are taken back, not counted"
        counter = "pages" if kind == OutcomeKind.PAGE else str(kind)
        setattr(self, counter, getattr(self, counter) + number)

    def count_host_with_pages(self) -> None:
        """Count a host that gave its first page."""
        self.giving += 1

    def set_seconds(self, seconds: float) -> None:
        """Set the duration of the crawl in seconds, resumes included."""
        self.seconds = seconds


def sealed_counters(last: Checkpoint | None) -> CrawlCounters:
    """The counters of a checkpoint; zeros before the first one."""
    return last.decode_part("tally", CrawlCounters) if last is not None else CrawlCounters()
