"""Snapshots of the full-text index: its files at a checkpoint, kept as hard links.

tantivy writes its files once and never changes them; the content of an index is the list in its
`meta.json`. tantivy deletes and merges files at its own time, and fails on files that a killed writer left
behind. So a checkpoint gives every file of the index a second name, in `kept/`, together with the list:

    00003/                  where tantivy works
    00003/kept/17.json      the list as of batch 17
    00003/kept/*            the files it names, as hard links

Restoring is exact, no matter when tantivy was killed: the files of the list get their names back, the list
becomes `meta.json`, and everything else in the directory is deleted. Nothing has to be searched, deleted
and merged again, and the order in which names reach the disk does not matter.

A finished generation is kept in the same way, as `clearing.json`, while replaced documents are deleted
from it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from fieldmouse.storage.log import sync_directory

KEPT = "kept"
_CLEARING = "clearing.json"
META, MANAGED = "meta.json", ".managed.json"
_LOCKS = (".tantivy-meta.lock", ".tantivy-writer.lock")
_PARTS = ("fast", "fieldnorm", "idx", "pos", "store", "term")
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK})


class TantivyDeletes(msgspec.Struct):
    opstamp: int
    num_deleted_docs: int = 0


class IndexSegment(msgspec.Struct):
    segment_id: str
    max_doc: int = 0
    deletes: TantivyDeletes | None = None


class TantivyMeta(msgspec.Struct):
    """The fields we use of tantivy's `meta.json`."""

    segments: list[IndexSegment]

    @property
    def files(self) -> set[str]:
        """Every file of this index."""
        names = set()
        for segment in self.segments:
            name = segment.segment_id.replace("-", "")
            names |= {f"{name}.{part}" for part in _PARTS}
            if segment.deletes is not None:
                names.add(f"{name}.{segment.deletes.opstamp}.del")
        return names

    @property
    def document_count(self) -> int:
        """Number of documents that are not deleted."""
        deleted = sum(segment.deletes.num_deleted_docs for segment in self.segments if segment.deletes)
        return sum(segment.max_doc for segment in self.segments) - deleted


_decode = msgspec.json.Decoder(TantivyMeta).decode


def read_meta(path: Path) -> TantivyMeta | None:
    """Read a `meta.json`; None if it is missing or cannot be decoded."""
    try:
        return _decode(path.read_bytes())
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


class IndexSnapshots:
    """Snapshots of one generation of an index; `path` is the directory that tantivy uses."""

    def __init__(self, path: Path):
        self._path, self._kept = path, path / KEPT

    def file_list_to_open(self, batch: int | None) -> Path:
        """Return the list from which the generation is opened, at `batch` (None: it is finished)."""
        listed = self._kept / _CLEARING if batch is None else self._list_path(batch)
        return listed if self._has_all_files(listed) else self._path / META

    def _has_all_files(self, listed: Path) -> bool:
        meta, places = read_meta(listed), (self._path, self._kept)
        return meta is not None and all(any((place / name).is_file() for place in places) for name in meta.files)

    def save(self, batch: int) -> bool:
        """Keep the committed state as snapshot of `batch`; it is durable on return.

        Returns False if the file system has no hard links; then there is no such snapshot.
        """
        return self._save_snapshot(self._list_path(batch))

    def save_before_deletion(self) -> bool:
        """Keep a finished generation during a deletion; False if that is not possible."""
        return self._save_snapshot(self._kept / _CLEARING)

    def drop_after_deletion(self) -> None:
        """Drop the snapshot after a deletion; no writer may be open."""
        self.delete_unlisted_files()
        sync_directory(self._path)
        shutil.rmtree(self._kept, ignore_errors=True)

    def undo_interrupted_document_deletion(self) -> None:
        """Restore a finished generation whose deletion was interrupted, and drop all its snapshots."""
        if self._has_all_files(self._kept / _CLEARING):
            self._restore_snapshot(self._kept / _CLEARING)
        shutil.rmtree(self._kept, ignore_errors=True)

    def _save_snapshot(self, listed: Path) -> bool:
        self._kept.mkdir(exist_ok=True)
        fresh = self._kept / "fresh.json"
        try:
            while not self._link_all(fresh):
                pass  # a merge just ended; the new list has the same documents in other files
        except OSError as error:
            if error.errno in _NO_LINKS:
                return False
            raise
        self.fix_permissions()
        sync_directory(self._kept)
        os.replace(fresh, listed)
        sync_directory(self._kept)
        sync_directory(self._path)
        return True

    def fix_permissions(self) -> None:
        """Give the lists the permissions of the index: tantivy makes them readable by their owner only."""
        with suppress(FileNotFoundError):
            mode = (self._path / _LOCKS[0]).stat().st_mode & 0o666
            for name in (META, MANAGED):
                os.chmod(self._path / name, mode)

    def _link_all(self, fresh: Path) -> bool:
        fresh.unlink(missing_ok=True)
        os.link(self._path / META, fresh)
        present = set(os.listdir(self._kept))
        for name in _decode(fresh.read_bytes()).files - present:
            try:
                os.link(self._path / name, self._kept / name)
            except FileNotFoundError:
                if fresh.samefile(self._path / META):
                    raise
                return False
        return True

    def restore(self, batch: int) -> bool:
        """Restore the generation to `batch`; False, and nothing changed, without such a snapshot."""
        if not self._has_all_files(self._list_path(batch)):
            return False
        self._restore_snapshot(self._list_path(batch))
        self._drop_snapshots(lambda number: number != batch)
        return True

    def _restore_snapshot(self, kept: Path) -> None:
        with self._readers_locked_out():
            for name in _decode(kept.read_bytes()).files:
                if not (self._path / name).exists():
                    os.link(self._kept / name, self._path / name)
            if (self._path / META).exists() and (self._path / META).read_bytes() == kept.read_bytes():
                sync_directory(self._path)
            else:
                fresh = self._path / "meta.fresh"
                fresh.unlink(missing_ok=True)
                os.link(kept, fresh)
                sync_directory(self._path)
                os.replace(fresh, self._path / META)
                sync_directory(self._path)
        self.delete_unlisted_files()

    def delete_unlisted_files(self) -> None:
        """Delete the files that `meta.json` does not name, which a killed writer left behind.

        tantivy fails if a file that it wants to write exists, and its own garbage collection knows only
        the files in its last list. The caller must hold the shard, with no writer open.
        """
        meta = read_meta(self._path / META)
        if meta is None:
            return
        wanted = {META, MANAGED, *_LOCKS, *meta.files}
        with self._readers_locked_out():
            for entry in list(os.scandir(self._path)):
                if entry.name not in wanted and not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
            self._write_managed_list(meta.files)
        self.fix_permissions()

    def drop_snapshots_before(self, batch: int) -> None:
        """Drop the snapshots before `batch`, which is committed."""
        self._drop_snapshots(lambda number: number < batch)

    def _drop_snapshots(self, unwanted: Callable[[int], bool]) -> None:
        if not self._kept.is_dir():
            return
        named: set[str] = set()
        for path in list(self._kept.glob("*.json")):
            if not path.stem.isdigit() or unwanted(int(path.stem)):
                path.unlink()
            elif (meta := read_meta(path)) is not None:
                named |= meta.files
        for path in list(self._kept.iterdir()):
            if path.suffix != ".json" and path.name not in named:
                path.unlink()

    def _list_path(self, batch: int) -> Path:
        return self._kept / f"{batch}.json"

    def _write_managed_list(self, names: set[str]) -> None:
        """Correct tantivy's list of its files: it refuses to open an index if this list is torn."""
        path, wanted = self._path / MANAGED, names | {META}
        try:
            if set(msgspec.json.decode(path.read_bytes(), type=list[str])) == wanted:
                return
        except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
            pass
        fresh = path.with_name("managed.fresh")
        with fresh.open("wb") as file:
            file.write(msgspec.json.encode(sorted(wanted)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)

    @contextmanager
    def _readers_locked_out(self) -> Iterator[None]:
        """Take the lock of tantivy's readers, so that no index is opened while its files change."""
        handle = os.open(self._path / _LOCKS[0], os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def remove_index_directory(path: Path) -> None:
    """Delete a directory with index files, also while it is read; a missing directory is an error.

    tantivy reloads each index once in the background after opening it, also in the readers of other
    processes, and creates its lock file for that: a directory that was just emptied may not be empty.
    """
    for attempt in range(100):
        try:
            shutil.rmtree(path)
            break
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == 99:
                raise


@contextmanager
def readable_view(path: Path) -> Iterator[Path]:
    """Return a directory in which tantivy can open a generation that we may only read.

    tantivy creates a lock file even to read. Without write permission, a temporary directory with links to
    the files is used; then the lists kept at checkpoints serve as well as the newest.
    """
    if os.access(path, os.W_OK, effective_ids=True):
        yield path
        return
    with TemporaryDirectory(prefix="fieldmouse-", ignore_cleanup_errors=True) as folder:
        view, kept = Path(folder), path / KEPT
        listed = path / META
        if not os.access(listed, os.R_OK, effective_ids=True):
            snapshots = (snapshot for snapshot in kept.glob("*.json") if snapshot.stem.isdigit())
            listed = max(snapshots, key=lambda snapshot: int(snapshot.stem), default=listed)
        for name in _decode(listed.read_bytes()).files:
            (view / name).symlink_to((path if (path / name).exists() else kept) / name)
        shutil.copyfile(listed, view / META)
        yield view
