"""One writer, any number of onlookers, and none of them in another's way."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fieldmouse.errors import CrawlDirError, CrawlLocked
from fieldmouse.storage.directory import CrawlDir


@pytest.fixture
def home(tmp_path: Path) -> CrawlDir:
    home = CrawlDir.create(tmp_path / "c", shards=1, settings=b"")
    home.lock()
    home.unlock()
    return home


def onlooker(home: CrawlDir) -> int:
    """Somebody who has just begun to look who crawls, and is not done."""
    handle = os.open(home / "lock", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return handle


def test_readers_do_not_report_each_other_as_owner(home: CrawlDir) -> None:
    handle = onlooker(home)
    assert home.owner_pid() is None
    assert not home.was_killed
    os.close(handle)


@pytest.mark.parametrize("left_behind", [b"", b"4194303"], ids=["nothing", "a process that was killed"])
def test_crawl_starts_while_a_reader_checks_the_lock(home: CrawlDir, left_behind: bytes) -> None:
    (home / "lock").write_bytes(left_behind)
    handle = onlooker(home)
    threading.Timer(0.1, os.close, [handle]).start()
    home.lock()
    assert CrawlDir.open(home.path).owner_pid() == os.getpid()
    home.unlock()


def test_lock_does_not_wait_for_a_permanent_reader(home: CrawlDir) -> None:
    handle = onlooker(home)
    with pytest.raises(CrawlLocked):
        home.lock()
    os.close(handle)


def test_an_owner_that_lives_is_named_at_once(home: CrawlDir) -> None:
    other = CrawlDir.open(home.path)
    other.lock()
    with pytest.raises(CrawlLocked, match="is in use by"):
        home.lock()
    assert home.owner_pid() == os.getpid()
    other.unlock()


def test_a_lock_file_that_is_deleted_lets_no_second_process_in(home: CrawlDir) -> None:
    home.lock()
    (home / "lock").unlink()
    other = CrawlDir.open(home.path)
    assert other.owner_pid() is not None
    with pytest.raises(CrawlLocked, match="is in use by"):
        other.lock()
    (home / "lock").write_bytes(b"")  # somebody puts another one there
    assert other.owner_pid() is not None
    with pytest.raises(CrawlLocked):
        other.lock()
    home.unlock()
    other.lock()
    assert home.owner_pid() == os.getpid()
    other.unlock()
    assert home.owner_pid() is None


def test_a_lock_file_that_is_replaced_while_it_is_taken_is_taken_anew(
    home: CrawlDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that locks no directories, only the file tells."""
    real, replaced = fcntl.flock, []

    def flock(handle: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        if not replaced:
            replaced.append(handle)
            (home / "lock").unlink()
            (home / "lock").write_bytes(b"")
        real(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    home.lock()
    assert (home / "lock").read_bytes() == str(os.getpid()).encode()
    with pytest.raises(CrawlLocked):
        CrawlDir.open(home.path).lock()
    home.unlock()


def test_a_crawl_that_was_killed_without_its_lock_file_can_be_taken(home: CrawlDir) -> None:
    (home / "lock").unlink()
    assert home.owner_pid() is None
    assert not home.was_killed
    home.lock()
    home.unlock()


def test_reader_without_write_access_sees_the_owner(home: CrawlDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root we may open anything, so here the system is asked to refuse."""
    home.lock()
    there = os.open

    def only_for_reading(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(13, "Permission denied", str(path))
        return there(path, flags, mode)

    monkeypatch.setattr(os, "open", only_for_reading)
    assert CrawlDir.open(home.path).owner_pid() == os.getpid()
    monkeypatch.undo()
    home.unlock()


def test_a_disk_that_refuses_leaves_no_lock_behind(home: CrawlDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    (home / "lock").write_bytes(b"4194303")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="Input/output"):
            home.lock()
    assert home.owner_pid() is None
    assert home.was_killed, "it is told of whoever was killed before us, and of nobody else"
    home.lock()
    home.unlock()


def test_no_crawl_is_made_where_another_process_makes_one(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.mkdir()
    handle = os.open(path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with pytest.raises(CrawlLocked):
        CrawlDir.create(path, shards=1, settings=b"")
    assert list(path.iterdir()) == []
    os.close(handle)
    CrawlDir.create(path, shards=1, settings=b"")


def test_of_many_that_make_a_crawl_at_the_same_place_one_does(tmp_path: Path) -> None:
    made: list[CrawlDir] = []
    refused: list[CrawlDirError] = []
    together = threading.Barrier(6)

    def make(path: Path, number: int) -> None:
        together.wait()
        try:
            made.append(CrawlDir.create(path, shards=1, settings=b"# %d" % number, key_seed=number))
        except CrawlDirError as trouble:
            refused.append(trouble)

    for attempt in range(10):
        path = tmp_path / str(attempt)
        threads = [threading.Thread(target=make, args=(path, number)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(made), len(refused)) == (attempt + 1, 5 * (attempt + 1))
        winner = made[-1].identity
        assert CrawlDir.open(path).identity == winner
        assert (path / "fieldmouse.toml").read_bytes() == b"# %d" % winner.key_seed
        assert not made[-1].was_killed


@pytest.mark.parametrize(
    "put", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("elsewhere")], ids=["pipe", "directory", "link"]
)
def test_non_file_in_place_of_the_lock_is_named_without_blocking(home: CrawlDir, put: Callable[[Path], None]) -> None:
    (home / "lock").unlink()
    put(home / "lock")
    assert home.owner_pid() is None
    for look in (home.lock, lambda: home.was_killed):
        with pytest.raises(CrawlDirError, match=r"lock` is (a|no) ") as refused:
            look()
        assert refused.value.hint.startswith("delete it")
    other = os.open(home.path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert home.owner_pid() == 0
    with pytest.raises(CrawlLocked):
        home.lock()
    os.close(other)
