"""Durable parts of a crawl, sealed together at each checkpoint.

A part is opened at the state of the last checkpoint, and opening changes nothing on the disk.
Then, in this order:

- `begin`: all parts are open. Data written after that checkpoint may be cut or deleted.
- `seal`: hand everything to the operating system and return a state from which the
  part can be opened again, with the files that must reach the disk before that state counts.
- `committed`: the journal holds the state sealed last. Files that only older states need may be deleted.
- `close`: close the files. Unsealed data is lost, as after a kill.

A new part needs a name and an entry in `agent.build`; the crawler, the checkpoint and doctor need
no change. A part without an owner in some run keeps its last state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from fieldmouse.crawldir.checkpoint import Checkpoint, PartNote, encode, noted
from fieldmouse.crawldir.directory import CrawlDir
from fieldmouse.crawldir.durable import Syncing
from fieldmouse.crawldir.journal import Journal
from fieldmouse.crawldir.log import Log
from fieldmouse.outcome import StoppedBy

S_co = TypeVar("S_co", covariant=True)


class Sealed(NamedTuple, Generic[S_co]):
    """A part as it was sealed."""

    state: S_co  # any value that MessagePack can hold
    paths: Sequence[Path] = ()  # files to sync before the state counts; the checkpoint stores their lengths


class Part(Protocol):
    """Component that survives a kill. Single-threaded; its files are synced by others."""

    @property
    def name(self) -> str:
        """Its name in the checkpoint; must never change."""

    def begin(self) -> None: ...

    def seal(self) -> Sealed[object]: ...

    def committed(self) -> None: ...

    def close(self) -> None: ...


class DurableLog(Log):
    """Log that is a part of the checkpoint: its state is its length."""

    def __init__(self, name: str, path: Path, last: Checkpoint | None):
        """Continue `path` after the length stored in `last`."""
        self.name = name
        super().__init__(path, last.state(name, int) if last is not None and name in last.parts else 0)

    def seal(self) -> Sealed[int]:
        return Sealed(self.flush(), (self.path,))

    def committed(self) -> None:
        """Nothing to delete: a log keeps all its records."""


class Moment(NamedTuple):
    """Sealed states of all parts, not yet durable."""

    checkpoint: bytes
    paths: list[Path]


class Parts:
    """All durable parts of a crawl and the journal that commits them.

    Every file that a checkpoint names is synced before the journal holds the checkpoint. If a sync
    fails, nothing counts as durable: the error is raised, and the crawl ends with
    the checkpoint before.
    """

    def __init__(self, home: CrawlDir, journal: Journal, parts: Iterable[Part], last: Checkpoint | None):
        self._home, self._journal, self._parts = home, journal, list(parts)
        names = [part.name for part in self._parts]
        assert len(set(names)) == len(names), f"two parts have one name: {sorted(names)}"
        # Parts without an owner in this run. Their files are left alone, so their last state still holds.
        stored = last.parts if last is not None else {}
        self._unowned = {name: note for name, note in stored.items() if name not in names}
        self._syncing = Syncing()

    def begin(self) -> None:
        """Begin all parts: only now may files be cut, deleted or made. The journal makes names durable."""
        for part in self._parts:
            part.begin()
        self._home.begin()
        self._journal.begin()

    def seal(self, at: float, *, clean: bool = False, stopped_by: StoppedBy = StoppedBy.NOTHING) -> Moment:
        """Seal all parts, in the order in which they were given."""
        table, unsynced = dict(self._unowned), list[Path]()
        for part in self._parts:
            state, paths = part.seal()
            table[part.name] = self._note(state, paths)
            unsynced += paths
        checkpoint = Checkpoint(at, table, clean, stopped_by, self._home.identity)
        return Moment(encode(checkpoint), unsynced)

    def _note(self, state: object, paths: Sequence[Path]) -> PartNote:
        home = self._home.path
        return noted(state, {str(path.relative_to(home)): path.stat().st_size for path in paths})

    def commit(self, moment: Moment) -> None:
        """Make the sealed states durable: on return they have reached the disk. May run in a thread."""
        self._syncing.sync(moment.paths)
        for directory in {path.parent for path in moment.paths}:
            self._syncing.sync((), directory)
        self._journal.commit(moment.checkpoint)

    def committed(self) -> None:
        """Tell all parts that the states sealed last are committed."""
        for part in self._parts:
            part.committed()
