"""Crawl directory: creation, opening, format, lock, and evidence of a first checkpoint."""

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

from fieldmouse import __version__, errors
from fieldmouse.errors import shell_quoted
from fieldmouse.storage.log import make_directory, sync_directory, write_atomically

FORMAT = 3
SUBDIRECTORIES = ("frontier", "archive", "index")
#: Present only in directories of cluster agents (`cluster/client/identity.py`).
AGENT_FILE = "agent.json"
SETTINGS_FILE = "fieldmouse.toml"
OWNER_ONLY = 0o600
#: Format 1 had no checksums in its runs and key logs. Before format 3 a checkpoint was not a table of parts. The
#: journal says which kind each file is. The number in `crawl.json` says which versions of fieldmouse may open the
#: crawl; it is raised before the first file of a newer kind counts.
READABLE_FORMATS = (1, 2, 3)


_FILES = {AGENT_FILE, SETTINGS_FILE, "crawl.json", "journal", "lock", "pages.trace"} | {
    f"{name}.log" for name in ("outcomes", "decisions", "control", "readings", "unbooked", "held")
}
#: File name suffixes in the subdirectories. Names of our directories contain no dot.
_SUFFIXES = tuple(
    ".log .keys .columns .warc.gz .cdxj .lmdb .copies .json .lock .lmdb-lock"
    " .fast .fieldnorm .idx .pos .store .term .del simhashes".split()
)

_NONBLOCKING = os.O_RDONLY | os.O_NONBLOCK  # does not block on a pipe in place of a file
_LOCK_ATTEMPTS = 25  # attempts to lock a directory that seems free


class CrawlMetadata(msgspec.Struct, frozen=True):
    """Properties fixed at creation. Only the format changes: a resume raises it."""

    format: int
    key_seed: int
    created_at: float
    made_by: str
    shards: int


class CrawlDir:
    """A crawl directory, open for reading; call `lock` before writing."""

    def __init__(self, path: Path, identity: CrawlMetadata):
        self.path = path
        self.identity = identity
        self._locks: list[int] = []  # handles of the directory and of the file `lock` in it
        self._previous_lock = b""  # content of the lock file when we took it

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        shards: int,
        settings: bytes,
        key_seed: int | None = None,
        agent: bytes = b"",
        private: bool = False,
    ) -> CrawlDir:
        """Create a crawl at `path`, which must be missing or empty.

        `key_seed` is the secret of the URL hashes; repeatable experiments pass it, None draws one.
        `private` settings hold secrets: only the owner may read their file.
        `agent` is the initial content of `agent.json` if the crawl is one agent's part of a cluster crawl.
        """
        cls.check_can_create(path)
        seed = secrets.randbits(63) if key_seed is None else key_seed
        identity = CrawlMetadata(FORMAT, seed, time.time(), f"fieldmouse/{__version__}", shards)
        home = cls(path, identity)
        try:
            make_directory(path)
            home.lock()  # another process may create a crawl there at the same time
        except OSError as trouble:
            raise _creation_error(path, trouble) from trouble
        try:
            cls.check_can_create(path)
            home._write_initial_files(settings, agent, private=private)
        finally:
            home.unlock()
        return home

    def _write_initial_files(self, settings: bytes, agent: bytes, *, private: bool) -> None:
        """Write the initial files of a new crawl."""
        try:
            for room in SUBDIRECTORIES:
                make_directory(self / room)
        except OSError as trouble:
            raise _creation_error(self.path, trouble) from trouble
        write_settings(self.path, settings, private=private)
        if agent:
            write_atomically(self / AGENT_FILE, agent)
        else:
            # left by a process killed before its crawl was an agent's
            (self / AGENT_FILE).unlink(missing_ok=True)
        # Written last: without this file the directory is not a crawl, so a kill before it leaves no
        # half-made crawl.
        write_identity(self.path, self.identity)

    @staticmethod
    def check_can_create(path: Path) -> None:
        """Raise if no new crawl can be made at `path`. Changes nothing."""
        if (path / "crawl.json").exists():
            raise errors.CrawlExists(path)
        if path.exists() and not path.is_dir():
            raise errors.CrawlDirError(f"`{path}` is a file", "choose a directory that does not exist yet")
        if path.exists() and not all(map(_is_allowed_in_new, path.iterdir())):
            raise errors.CrawlDirError(f"`{path}` is not empty", "choose a directory that does not exist yet")
        above = next(place for place in (path, *path.absolute().parents) if place.exists())
        why = "Not a directory" if not above.is_dir() else "Permission denied"
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise errors.CrawlDirError(f"cannot make `{path}`: {why}", "choose a place you may write to")

    @classmethod
    def open(cls, path: Path, *, to_resume: bool = False) -> CrawlDir:
        born = path / "crawl.json"
        if not born.is_file():
            raise errors.NotACrawl(path, to_resume=to_resume)
        try:
            fields = msgspec.json.decode(born.read_bytes(), type=dict[str, object])
            if fields.get("format") not in READABLE_FORMATS:
                raise errors.UnsupportedFormat(path, int(str(fields.get("format", 0))), FORMAT)
            identity = msgspec.convert(fields, CrawlMetadata)
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as trouble:
            raise errors.DamagedFile(born, str(trouble)) from trouble
        return cls(path, identity)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def is_cluster_agent(self) -> bool:
        """Whether it is one agent's part of a cluster crawl."""
        return (self / AGENT_FILE).is_file()

    @property
    def resume_command(self) -> str:
        """The command that continues the crawl."""
        if self.is_cluster_agent:
            return f"fieldmouse agent {shell_quoted(self.path)} --coordinator URL"
        return f"fieldmouse resume {shell_quoted(self.path)}"

    def poll_command_line(self, budget: str = "") -> str:
        """The command that polls known pages: each page once, or at a budget such as `500/h`."""
        if self.is_cluster_agent:
            rate = f" --set refresh.budget={budget}" if budget else ""
            return f"{self.resume_command} --set refresh.on=true{rate}"
        return f"fieldmouse refresh {shell_quoted(self.path)} {f'--budget {budget}' if budget else '--once'}"

    def upgrade_format(self) -> None:
        """Raise the format to the current one. Called when everything is open, before the next checkpoint."""
        if self.identity.format != FORMAT:
            self.identity = msgspec.structs.replace(self.identity, format=FORMAT)
            write_identity(self.path, self.identity)

    def check_regular_files(self) -> None:
        """Raise `DamagedFile` if anything but a regular file has the name of one of our files.

        A directory, a dangling link or a pipe would fail in the middle of opening, when some files are
        already
        cut back to the last checkpoint. Missing files are reported by their owners.
        """
        for path in self._possibly_irregular_files():
            try:
                mode = path.stat().st_mode
            except FileNotFoundError:
                if path.is_symlink():
                    raise errors.DamagedFile(path, f"it is a link to `{path.readlink()}`, which is not there") from None
                continue  # deleted since listing: a killed worker may still be ending
            if not stat.S_ISREG(mode):
                is_directory = stat.S_ISDIR(mode)
                raise errors.DamagedFile(path, "it is a directory" if is_directory else "it is no regular file")

    def _possibly_irregular_files(self) -> Iterator[Path]:
        """Paths with the names of our files; entries that are certainly regular files may be left out."""
        for name in _FILES:
            if os.path.lexists(self / name):
                yield self / name
        rooms = [self / room for room in (*SUBDIRECTORIES, "ledger")]
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
        """Claim the directory for this process; the kernel frees it when the process ends, even by a kill.

        Both the directory and the file `lock` in it are locked: the file can be deleted during the crawl,
        and
        some file systems cannot lock directories.
        """
        handles: list[int] = []
        for attempts_left in reversed(range(_LOCK_ATTEMPTS)):
            try:
                handles.append(_open_and_lock(self.path, os.O_RDONLY | os.O_DIRECTORY, fcntl.LOCK_EX))
                self._check_lock_is_regular_file()
                handles.append(_open_and_lock(self / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, fcntl.LOCK_EX))
                break
            except BlockingIOError:
                _close_handles(handles)
                owner = self._pid_in_lock()
                # A reader that calls `owner` holds the lock for an instant; retry.
                if not attempts_left or _is_process_alive(owner):
                    raise errors.CrawlLocked(self.path, owner) from None
                time.sleep(0.02)
            except (OSError, errors.CrawlDirError):
                _close_handles(handles)
                raise
        self._locks, self._previous_lock = handles, os.pread(handles[-1], 32, 0)
        try:
            os.ftruncate(handles[-1], 0)
            os.pwrite(handles[-1], str(os.getpid()).encode(), 0)
            # The process id stays in the file after a kill, so that doctor can tell a kill from an orderly
            # end.
            os.fsync(handles[-1])
            sync_directory(self.path)
        except OSError:
            self.unlock(as_found=True)
            raise

    def unlock(self, *, as_found: bool = False) -> None:
        """Release the lock. With `as_found` the file still shows whether the previous process was killed."""
        if self._locks:
            with suppress(OSError):  # a failing disk, reported elsewhere; the kernel frees the lock
                os.ftruncate(self._locks[-1], 0)
                if as_found:
                    os.pwrite(self._locks[-1], self._previous_lock, 0)
            _close_handles(self._locks)

    def owner_pid(self) -> int | None:
        """The id of the process that crawls here now; None if there is none, 0 if the id is unknown."""
        for path, flags in ((self.path, os.O_RDONLY | os.O_DIRECTORY), (self / "lock", _NONBLOCKING)):
            try:
                # Shared: several readers may check at the same time, also with read permission only.
                os.close(_open_and_lock(path, flags, fcntl.LOCK_SH))
            except FileNotFoundError:
                continue
            except BlockingIOError:
                return self._pid_in_lock()
        return None

    def _pid_in_lock(self) -> int:
        """The process id in the lock file; 0 if there is none."""
        try:
            written = self._read_lock().decode(errors="replace").strip()
        except OSError:
            return 0
        return int(written) if written.isdigit() else 0

    @property
    def was_killed(self) -> bool:
        """Whether the last crawling process was killed: its id is still in the lock file."""
        self._check_lock_is_regular_file()
        try:
            return bool(self._read_lock()) and self.owner_pid() is None
        except FileNotFoundError:
            return False

    def _check_lock_is_regular_file(self) -> None:
        """Raise if `lock` is not a regular file; it may be missing."""
        path = self / "lock"
        with suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if not stat.S_ISREG(mode):
                what = "a directory" if stat.S_ISDIR(mode) else "no regular file"
                raise errors.CrawlDirError(f"`{path}` is {what}", "delete it: nothing of the crawl is in it")

    def _read_lock(self) -> bytes:
        """The content of the lock file; empty if it is a pipe."""
        handle = os.open(self / "lock", _NONBLOCKING)
        try:
            return os.read(handle, 32)
        finally:
            os.close(handle)

    def free_bytes(self) -> int:
        """Free space on the disk that holds the crawl."""
        return shutil.disk_usage(self.path).free


def _creation_error(path: Path, trouble: OSError) -> errors.CrawlDirError:
    is_full = trouble.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    hint = "make room there, and begin again" if is_full else "choose a place you may write to"
    return errors.CrawlDirError(f"cannot make `{path}`: {trouble.strerror}", hint)


def _open_and_lock(path: Path, flags: int, operation: int) -> int:
    """Open `path` and lock it; returns the handle. `BlockingIOError` if another process has it locked."""
    while True:
        handle = os.open(path, flags, 0o644)
        try:
            fcntl.flock(handle, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise
        except OSError:
            # This file system cannot lock directories (NFS wants them open for writing); the lock on the file
            # must do.
            if not flags & os.O_DIRECTORY:
                os.close(handle)
                raise
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)  # the file was replaced between opening and locking


def _close_handles(handles: list[int]) -> None:
    """Close all handles, the last one first."""
    while handles:
        os.close(handles.pop())


def _is_process_alive(process: int) -> bool:
    """Whether the process runs on this machine, under any user."""
    try:
        if process:
            os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return process > 0


def _is_allowed_in_new(path: Path) -> bool:
    """Whether a new crawl may find this path: prepared settings, or remains of a kill during creation."""
    if path.name in SUBDIRECTORIES and path.is_dir():
        return not any(path.iterdir())
    files = ("fieldmouse.toml", "crawl.json", AGENT_FILE)
    return path.name in ("lock", "fieldmouse.toml", AGENT_FILE, *(f"{file}.new" for file in files))


def write_settings(path: Path, content: bytes, *, private: bool) -> None:
    """Replace the settings file of the crawl at `path`; if `private`, only its owner may read it.

    Otherwise the permissions of the old file are kept.
    """
    file = path / SETTINGS_FILE
    try:
        mode: int | None = stat.S_IMODE(file.stat().st_mode)
    except FileNotFoundError:
        mode = None
    write_atomically(file, content, OWNER_ONLY if private else mode)


def settings_readable_by_others(path: Path) -> bool:
    """Whether every user of this machine may read the settings file of the crawl at `path`."""
    return bool((path / SETTINGS_FILE).stat().st_mode & stat.S_IROTH)


def write_identity(path: Path, identity: CrawlMetadata) -> None:
    """Write `identity` as the `crawl.json` of the crawl at `path`."""
    write_atomically(path / "crawl.json", msgspec.json.format(msgspec.json.encode(identity)))


_WRITTEN_AFTER_FIRST_CHECKPOINT = ("outcomes.log", "archive/*.cdxj", "frontier/front-*.log", "frontier/links-*.log")


def evidence_of_checkpoint(directory: Path) -> Path | None:
    """A file that can exist only after a checkpoint; None if there is none."""
    for pattern in _WRITTEN_AFTER_FIRST_CHECKPOINT:
        for path in sorted(directory.glob(pattern)):
            if path.stat().st_size:
                return path
    return next(iter(sorted(directory.glob("archive/*.warc.gz"))), None)
