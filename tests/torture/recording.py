"""What a crawl did to its files, in order: read from the shim's traces, and played again.

A recording can be checked: playing all of it must give the directory the crawl
left behind, byte for byte. Only files that are written through memory maps are
beyond it; the recording names them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

_ENTRY = struct.Struct("<QQqQIHH")
BLOCK = 4096


class Act(IntEnum):
    """As the shim numbers them."""

    CREATE = 1
    RESIZE = 2
    WRITE = 3
    SYNC = 4
    RENAME = 5
    UNLINK = 6
    MKDIR = 7
    RMDIR = 8
    LINK = 9
    MAPPED = 10


NAMING = frozenset((Act.CREATE, Act.RENAME, Act.UNLINK, Act.MKDIR, Act.RMDIR, Act.LINK))


@dataclass(frozen=True, slots=True)
class Operation:
    """One change. `path` and `target` are below the crawl's directory; `at` is an offset or a size."""

    sequence: int
    act: Act
    inode: int
    at: int
    path: str
    target: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.act.name.lower()} {self.path}{' -> ' + self.target if self.target else ''}"


def read(traces: Path) -> list[Operation]:
    """All operations of all processes, in the order in which they happened."""
    operations: list[Operation] = []
    for trace in traces.glob("*.trace"):
        raw, position = trace.read_bytes(), 0
        while position < len(raw):
            sequence, inode, at, size, act, first, second = _ENTRY.unpack_from(raw, position)
            position += _ENTRY.size
            path = raw[position : position + first].decode()
            target = raw[position + first : position + first + second].decode()
            position += first + second
            data = raw[position : position + size]
            position += size
            operations.append(Operation(sequence, Act(act), inode, at, path, target, data))
    operations.sort(key=lambda operation: operation.sequence)
    return operations


def standing(home: Path) -> list[Operation]:
    """What must have been done before, if all that stands in a directory is safe on the disk.

    Their sequence numbers are negative: nobody is killed in them.
    """
    done: list[tuple[Act, int, int, str, str, bytes]] = []
    first: dict[int, str] = {}
    for path in sorted(home.rglob("*")):
        name, inode = str(path.relative_to(home)), path.stat().st_ino
        if path.is_dir():
            done.append((Act.MKDIR, 0, 0, name, "", b""))
        elif inode in first:
            done.append((Act.LINK, inode, 0, first[inode], name, b""))
        else:
            first[inode] = name
            done.append((Act.CREATE, inode, 0, name, "", b""))
            done.append((Act.WRITE, inode, 0, name, "", path.read_bytes()))
            done.append((Act.SYNC, inode, 0, name, "", b""))
    folders = ["", *(name for act, _, _, name, _, _ in done if act is Act.MKDIR)]
    done += [(Act.SYNC, 0, 1, name, "", b"") for name in folders]
    return [Operation(number - len(done), *one) for number, one in enumerate(done)]


@dataclass(slots=True)
class File:
    """A file as the disk may show it: what was synced, and the changes since, oldest first."""

    synced: bytearray = field(default_factory=bytearray)
    since: list[tuple[int, bytes | None]] = field(default_factory=list)  # (offset, data), or (size, None)
    mapped: bool = False

    def sync(self) -> None:
        apply(self.synced, self.since)
        self.since.clear()

    def now(self) -> bytearray:
        content = bytearray(self.synced)
        apply(content, self.since)
        return content


@dataclass(slots=True)
class Folder:
    """A directory's names: those synced, and the changes since. None in a change takes a name away."""

    synced: dict[str, File | Folder] = field(default_factory=dict)
    since: list[dict[str, File | Folder | None]] = field(default_factory=list)

    def sync(self) -> None:
        self.synced = self.now()
        self.since.clear()

    def now(self) -> dict[str, File | Folder]:
        return named(self.synced, self.since)


def apply(content: bytearray, changes: Iterable[tuple[int, bytes | None]]) -> None:
    for at, data in changes:
        if data is None:
            del content[at:]
            content.extend(bytes(max(0, at - len(content))))
        else:
            content.extend(bytes(max(0, at - len(content))))
            content[at : at + len(data)] = data


def named(
    names: dict[str, File | Folder], changes: Iterable[dict[str, File | Folder | None]]
) -> dict[str, File | Folder]:
    there = dict(names)
    for change in changes:
        for name, node in change.items():
            if node is None:
                there.pop(name, None)
            else:
                there[name] = node
    return there


class Disk:
    """The directory tree as it is, and as it may be after a power cut. Feed it operations with `play`."""

    def __init__(self) -> None:
        self.root = Folder()
        self._files: dict[int, File] = {}
        self._folders: dict[str, Folder] = {"": self.root}

    def play(self, operation: Operation) -> None:
        match operation.act:
            case Act.CREATE:
                file = self._files[operation.inode] = File()
                self._name(operation.path, file)
            case Act.RESIZE:
                self._file(operation).since.append((operation.at, None))
            case Act.WRITE:
                self._file(operation).since.append((operation.at, operation.data))
            case Act.SYNC if operation.at:
                self._folders[operation.path].sync()
            case Act.SYNC:
                self._file(operation).sync()
            case Act.RENAME:
                self._rename(operation.path, operation.target)
            case Act.LINK:
                self._name(operation.target, self._find(operation.path))
            case Act.UNLINK | Act.RMDIR:
                self._name(operation.path, None)
                self._folders.pop(operation.path, None)
            case Act.MKDIR:
                if operation.path:  # the crawl's own directory is there from the beginning
                    folder = self._folders[operation.path] = Folder()
                    self._name(operation.path, folder)
            case Act.MAPPED:
                self._file(operation).mapped = True

    def _file(self, operation: Operation) -> File:
        if operation.inode not in self._files:  # made before the recording began
            self._files[operation.inode] = File()
        return self._files[operation.inode]

    def _find(self, path: str) -> File | Folder:
        folder, _, name = path.rpartition("/")
        return self._folders[folder].now()[name]

    def _name(self, path: str, node: File | Folder | None) -> None:
        folder, _, name = path.rpartition("/")
        self._folders[folder].since.append({name: node})

    def _rename(self, path: str, target: str) -> None:
        node = self._find(path)
        before, _, old = path.rpartition("/")
        after, _, new = target.rpartition("/")
        if before == after:  # within a directory a rename is one change: both names, or neither
            self._folders[before].since.append({old: None, new: node})
        else:
            self._name(path, None)
            self._name(target, node)
        if isinstance(node, Folder):
            for name in [name for name in self._folders if name == path or name.startswith(path + "/")]:
                self._folders[target + name[len(path) :]] = self._folders.pop(name)

    def files(self) -> dict[str, File]:
        """Every file that has a name now, by its path."""
        found: dict[str, File] = {}
        waiting: list[tuple[str, Folder]] = [("", self.root)]
        while waiting:
            prefix, folder = waiting.pop()
            for name, node in folder.now().items():
                if isinstance(node, File):
                    found[prefix + name] = node
                else:
                    waiting.append((f"{prefix}{name}/", node))
        return found


def differences(disk: Disk, home: Path) -> list[str]:
    """Where the recording and the real directory disagree; files written through maps are left out."""
    files = disk.files()
    real = {str(path.relative_to(home)): path for path in home.rglob("*") if path.is_file()}
    wrong = [f"{name} is not there" for name in files.keys() - real.keys()]
    wrong += [f"{name} was not recorded" for name in real.keys() - files.keys()]
    for name in files.keys() & real.keys():
        if not files[name].mapped and files[name].now() != real[name].read_bytes():
            wrong.append(f"{name} has other bytes")
    return sorted(wrong)
