"""The directory of a crawl as a whole: how it is made and opened, whose it is now, what format it has."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from fieldmouse import __version__
from fieldmouse.crawldir.durable import make_directory, sync_directory, write_whole
from fieldmouse.errors import (
    CrawlDirError,
    CrawlExists,
    CrawlLocked,
    Damaged,
    NotACrawl,
    WrongFormat,
    typed,
)

FORMAT = 3
ROOMS = ("frontier", "archive", "index")
AGENT_FILE = "agent.json"
"""In the directories of agents of a network (`balancer/identity.py`), and in no others."""
SETTINGS_FILE = "fieldmouse.toml"
OWNER_ONLY = 0o600
READABLE = (1, 2, 3)
"""Format 1 had no checksums in its runs and logs of keys; before format 3 a checkpoint was no table of
parts. What a file is, the journal says; the number in `crawl.json` says who may look, and is raised
before the first file of a newer kind counts."""


_FILES = frozenset(
    {
        "crawl.json", "fieldmouse.toml", AGENT_FILE, "journal", "lock", "outcomes.log", "decisions.log",
        "control.log", "readings.log", "unbooked.log", "held.log", "pages.trace",
    }
)  # fmt: skip
_SUFFIXES = (
    ".log", ".keys", ".columns", ".warc.gz", ".cdxj", ".lmdb", ".copies", ".json", ".lock", ".lmdb-lock",
    ".fast", ".fieldnorm", ".idx", ".pos", ".store", ".term", ".del", "simhashes",
)  # fmt: skip
"""How names of files end in the directories below; names of directories of ours have no dot."""

_AT_ONCE = os.O_RDONLY | os.O_NONBLOCK  # a pipe in place of a file would be waited for
_GLANCES = 25  # times we try to lock what nobody seems to have


class Identity(msgspec.Struct, frozen=True):
    """What a crawl is born with. It never changes, but for the format, which is raised by a resume."""

    format: int
    key_seed: int
    created_at: float
    made_by: str
    shards: int


class CrawlDir:
    """A crawl's directory, for reading; `lock` it before writing."""

    def __init__(self, path: Path, identity: Identity):
        self.path = path
        self.identity = identity
        self._locks: list[int] = []  # of the directory and of the file in it
        self._found = b""  # what stood in the lock when we took it

    @classmethod
    def create(
        cls, path: Path, *, shards: int, settings: bytes, key_seed: int | None = None, agent: bytes = b"",
        private: bool = False,
    ) -> CrawlDir:  # fmt: skip
        """Make a new crawl at `path`, which may exist only if it is empty.

        `key_seed` is the secret of its URL hashes; an experiment that is to repeat itself names it.
        `private` settings hold secrets: nobody else may read their file.
        `agent` is what `agent.json` says in the beginning, if the crawl is one agent's part of a larger one.
        """
        cls.check_vacant(path)
        seed = secrets.randbits(63) if key_seed is None else key_seed
        identity = Identity(FORMAT, seed, time.time(), f"fieldmouse/{__version__}", shards)
        home = cls(path, identity)
        try:
            make_directory(path)
            home.lock()  # another process may make one there at the same time
        except OSError as trouble:
            raise _cannot_make(path, trouble) from trouble
        try:
            cls.check_vacant(path)
            home._fill(settings, agent, private=private)
        finally:
            home.unlock()
        return home

    def _fill(self, settings: bytes, agent: bytes, *, private: bool) -> None:
        """Write all that a new crawl begins with."""
        try:
            for room in ROOMS:
                make_directory(self / room)
        except OSError as trouble:
            raise _cannot_make(self.path, trouble) from trouble
        write_settings(self.path, settings, private=private)
        if agent:
            write_whole(self / AGENT_FILE, agent)
        else:
            (self / AGENT_FILE).unlink(missing_ok=True)  # of one that was killed before it was an agent
        # Written last: a directory without it is not a crawl, so a kill in the middle leaves nothing odd.
        write_identity(self.path, self.identity)

    @staticmethod
    def check_vacant(path: Path) -> None:
        """Raise if no new crawl can be made at `path`; makes nothing."""
        if (path / "crawl.json").exists():
            raise CrawlExists(path)
        if path.exists() and not path.is_dir():
            raise CrawlDirError(f"`{path}` is a file", "choose a directory that does not exist yet")
        if path.exists() and not all(map(_may_be_there, path.iterdir())):
            raise CrawlDirError(f"`{path}` is not empty", "choose a directory that does not exist yet")
        above = next(place for place in (path, *path.absolute().parents) if place.exists())
        why = "Not a directory" if not above.is_dir() else "Permission denied"
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise CrawlDirError(f"cannot make `{path}`: {why}", "choose a place you may write to")

    @classmethod
    def open(cls, path: Path) -> CrawlDir:
        born = path / "crawl.json"
        if not born.is_file():
            raise NotACrawl(path)
        try:
            found = msgspec.json.decode(born.read_bytes(), type=dict[str, object])
            if found.get("format") not in READABLE:
                raise WrongFormat(path, int(str(found.get("format", 0))), FORMAT)
            identity = msgspec.convert(found, Identity)
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as trouble:
            raise Damaged(born, str(trouble)) from trouble
        return cls(path, identity)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def is_agents(self) -> bool:
        """Whether it is one agent's part of a larger crawl."""
        return (self / AGENT_FILE).is_file()

    @property
    def way_on(self) -> str:
        """The command that goes on with the crawl."""
        if self.is_agents:
            return f"fieldmouse agent {typed(self.path)} --coordinator URL"
        return f"fieldmouse resume {typed(self.path)}"

    def way_to_poll(self, budget: str = "") -> str:
        """The command that asks for known pages again: for each once, or by a budget such as `500/h`."""
        if self.is_agents:
            rate = f" --set refresh.budget={budget}" if budget else ""
            return f"{self.way_on} --set refresh.on=true{rate}"
        return f"fieldmouse refresh {typed(self.path)} {f'--budget {budget}' if budget else '--once'}"

    def begin(self) -> None:
        """All has opened, and a checkpoint of today's format comes next: no older fieldmouse may look."""
        if self.identity.format != FORMAT:
            self.identity = msgspec.structs.replace(self.identity, format=FORMAT)
            write_identity(self.path, self.identity)

    def check_files(self) -> None:
        """Raise `Damaged` if anything stands where a file of ours should be; changes nothing.

        A directory, a link that leads nowhere or a pipe would stop us in the middle of opening, when some
        files are cut back to the last checkpoint already. Whether a file is missing, its owner says.
        """
        for path in self._own_files():
            try:
                mode = path.stat().st_mode
            except FileNotFoundError:
                if path.is_symlink():
                    raise Damaged(path, f"it is a link to `{path.readlink()}`, which is not there") from None
                continue  # it went meanwhile: a worker that was killed may be ending still
            if not stat.S_ISREG(mode):
                is_directory = stat.S_ISDIR(mode)
                raise Damaged(path, "it is a directory" if is_directory else "it is no regular file")

    def _own_files(self) -> Iterator[Path]:
        """What is there under the names of our files, whatever it is, if it is no regular file for sure."""
        for name in _FILES:
            if os.path.lexists(self / name):
                yield self / name
        rooms = [self / room for room in (*ROOMS, "ledger")]
        while rooms:
            room = rooms.pop()
            with suppress(FileNotFoundError), os.scandir(room) as entries:
                for entry in entries:
                    if entry.name.endswith(_SUFFIXES):
                        if not entry.is_file(follow_symlinks=False):
                            yield Path(entry.path)
                    elif "." not in entry.name and entry.is_dir():
                        rooms.append(Path(entry.path))

    def lock(self) -> None:
        """Claim the directory for this process; it is freed when the process ends, however it ends.

        Both the directory and the file `lock` in it are locked: the file can be deleted while we crawl, and
        some file systems lock no directories.
        """
        handles: list[int] = []
        for glance in reversed(range(_GLANCES)):
            try:
                handles.append(_locked(self.path, os.O_RDONLY | os.O_DIRECTORY, fcntl.LOCK_EX))
                self._check_lock_file()
                handles.append(_locked(self / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, fcntl.LOCK_EX))
                break
            except BlockingIOError:
                _close(handles)
                owner = self._named()
                # Somebody may only be looking (`owner`), which takes no time.
                if not glance or _is_alive(owner):
                    raise CrawlLocked(self.path, owner) from None
                time.sleep(0.02)
            except (OSError, CrawlDirError):
                _close(handles)
                raise
        self._locks, self._found = handles, os.pread(handles[-1], 32, 0)
        try:
            os.ftruncate(handles[-1], 0)
            os.pwrite(handles[-1], str(os.getpid()).encode(), 0)
            # It stays there when we are killed, so that a doctor can tell a kill from an orderly end.
            os.fsync(handles[-1])
            sync_directory(self.path)
        except OSError:
            self.unlock(as_found=True)
            raise

    def unlock(self, *, as_found: bool = False) -> None:
        """Let others in. `as_found` leaves it telling whether the one before us was killed."""
        if self._locks:
            with suppress(OSError):  # a disk in trouble, which others will tell; the kernel frees the lock
                os.ftruncate(self._locks[-1], 0)
                if as_found:
                    os.pwrite(self._locks[-1], self._found, 0)
            _close(self._locks)

    def owner(self) -> int | None:
        """The process that crawls here now, or None; 0 if its number is not known."""
        for path, flags in ((self.path, os.O_RDONLY | os.O_DIRECTORY), (self / "lock", _AT_ONCE)):
            try:
                # Shared: others may look at the same time, and whoever may only read the crawl can look, too.
                os.close(_locked(path, flags, fcntl.LOCK_SH))
            except FileNotFoundError:
                continue
            except BlockingIOError:
                return self._named()
        return None

    def _named(self) -> int:
        """The process whose number stands in the lock; 0 if there is none."""
        try:
            written = self._written().decode(errors="replace").strip()
        except OSError:
            return 0
        return int(written) if written.isdigit() else 0

    @property
    def killed(self) -> bool:
        """Whether the last process to crawl here left its number in the lock: it had no time to wipe it."""
        self._check_lock_file()
        try:
            return bool(self._written()) and self.owner() is None
        except FileNotFoundError:
            return False

    def _check_lock_file(self) -> None:
        """Raise if something else stands in its place; it may be missing."""
        path = self / "lock"
        with suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if not stat.S_ISREG(mode):
                what = "a directory" if stat.S_ISDIR(mode) else "no regular file"
                raise CrawlDirError(f"`{path}` is {what}", "delete it: nothing of the crawl is in it")

    def _written(self) -> bytes:
        """What stands in the lock; nothing if it is a pipe."""
        handle = os.open(self / "lock", _AT_ONCE)
        try:
            return os.read(handle, 32)
        finally:
            os.close(handle)

    def free_bytes(self) -> int:
        """Room left on the disk that holds the crawl."""
        return shutil.disk_usage(self.path).free


def _cannot_make(path: Path, trouble: OSError) -> CrawlDirError:
    is_full = trouble.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    hint = "make room there, and begin again" if is_full else "choose a place you may write to"
    return CrawlDirError(f"cannot make `{path}`: {trouble.strerror}", hint)


def _locked(path: Path, flags: int, operation: int) -> int:
    """A handle of what stands at `path`, locked; `BlockingIOError` if others have it locked."""
    while True:
        handle = os.open(path, flags, 0o644)
        try:
            fcntl.flock(handle, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise
        except OSError:
            # This file system locks no directories (NFS wants them open for writing): the file must do.
            if not flags & os.O_DIRECTORY:
                os.close(handle)
                raise
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)  # another one stands there by now


def _close(handles: list[int]) -> None:
    """Close all of them, the last one first."""
    while handles:
        os.close(handles.pop())


def _is_alive(process: int) -> bool:
    """Whether it is one of this machine's; that of another user is, too."""
    try:
        if process:
            os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return process > 0


def _may_be_there(path: Path) -> bool:
    """Settings laid ready, or what a kill left that came before the crawl was one."""
    if path.name in ROOMS and path.is_dir():
        return not any(path.iterdir())
    files = ("fieldmouse.toml", "crawl.json", AGENT_FILE)
    return path.name in ("lock", "fieldmouse.toml", AGENT_FILE, *(f"{file}.new" for file in files))


def write_settings(path: Path, content: bytes, *, private: bool) -> None:
    """Replace the settings file of the crawl at `path`; if it is `private`, its owner alone may read it.

    Otherwise whoever may read it now, may read it afterwards.
    """
    file = path / SETTINGS_FILE
    try:
        mode: int | None = stat.S_IMODE(file.stat().st_mode)
    except FileNotFoundError:
        mode = None
    write_whole(file, content, OWNER_ONLY if private else mode)


def is_open_to_others(path: Path) -> bool:
    """Whether everybody on this machine may read the settings file of the crawl at `path`."""
    return bool((path / SETTINGS_FILE).stat().st_mode & stat.S_IROTH)


def write_identity(path: Path, identity: Identity) -> None:
    """Make `identity` that of the crawl at `path`."""
    write_whole(path / "crawl.json", msgspec.json.format(msgspec.json.encode(identity)))
