"""How something becomes durable with a crawl: it is a part, and all parts are sealed at one moment.

A part is opened at the state of the last checkpoint, and opening changes nothing on the disk.
Then, in this order:

- `begin`: all of the crawl has opened. What was written after that checkpoint may be cut or deleted.
- `seal`: hand everything to the operating system and say how things stand: a state from which the
  part can be opened again, and the files that must reach the disk before that state counts.
- `committed`: the journal holds the state sealed last. Files that only older states need may go.
- `close`: let go of the files. What was not sealed is forgotten, as after a kill.

Whoever adds a part gives it a name and hands it to `agent.build`; neither the agent nor the checkpoint
nor doctor has to know more. A part whose owner is not there in some run is kept as it was.
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
    """A part at one moment."""

    state: S_co  # anything that MessagePack can hold
    paths: Sequence[Path] = ()  # files to sync before it counts; the checkpoint notes how long they are


class Part(Protocol):
    """Something that survives a kill. Single-threaded; its files are synced by others."""

    @property
    def name(self) -> str:
        """Its name in the checkpoint, the same for ever."""

    def begin(self) -> None: ...

    def seal(self) -> Sealed[object]: ...

    def committed(self) -> None: ...

    def close(self) -> None: ...


class DurableLog(Log):
    """A log that is a part: its state is its length."""

    def __init__(self, name: str, path: Path, last: Checkpoint | None):
        """Go on in `path` behind what `last` knows of it."""
        self.name = name
        super().__init__(path, last.state(name, int) if last is not None and name in last.parts else 0)

    def seal(self) -> Sealed[int]:
        return Sealed(self.flush(), (self.path,))

    def committed(self) -> None:
        """A log keeps all it ever held."""


class Moment(NamedTuple):
    """All parts as they were sealed, not yet durable."""

    checkpoint: bytes
    paths: list[Path]


class Parts:
    """All that is durable in a crawl, and the journal that makes it so.

    Everything that a checkpoint names is synced before the journal holds it. If any of that
    fails, nothing may be believed to be durable: the error goes up, and the crawl ends with
    the checkpoint before.
    """

    def __init__(self, home: CrawlDir, journal: Journal, parts: Iterable[Part], last: Checkpoint | None):
        self._home, self._journal, self._parts = home, journal, list(parts)
        names = [part.name for part in self._parts]
        assert len(set(names)) == len(names), f"two parts have one name: {sorted(names)}"
        # Of owners who are not here this time. Their files are left alone, so what is known of them holds.
        known = last.parts if last is not None else {}
        self._others = {name: note for name, note in known.items() if name not in names}
        self._syncing = Syncing()

    def begin(self) -> None:
        """All has opened: only now may anything be cut, deleted or made. The journal makes names durable."""
        for part in self._parts:
            part.begin()
        self._home.begin()
        self._journal.begin()

    def seal(self, at: float, *, clean: bool = False, stopped_by: StoppedBy = StoppedBy.NOTHING) -> Moment:
        """Take one moment of all parts, in the order in which they were given."""
        table, unsynced = dict(self._others), list[Path]()
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
        """Make the moment the truth: when this returns it has reached the disk. May run in a thread."""
        self._syncing.sync(moment.paths)
        for directory in {path.parent for path in moment.paths}:
            self._syncing.sync((), directory)
        self._journal.commit(moment.checkpoint)

    def committed(self) -> None:
        """Tell all parts that the moment sealed last counts."""
        for part in self._parts:
            part.committed()
