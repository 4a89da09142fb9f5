"""Logs: what was appended comes back, and what is torn is cut."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.errors import CrawlDirError, CrawlExists, CrawlLocked, DamagedFile, NotACrawl, UnsupportedFormat
from fieldmouse.storage.checkpoint_log import CheckpointJournal, inspect_journal_file
from fieldmouse.storage.directory import FORMAT, CrawlDir
from fieldmouse.storage.log import FileSyncer, Log, length_of_whole_records, read_records

payloads = st.lists(st.binary(min_size=1, max_size=200), max_size=30)


@given(payloads)
def test_appended_records_are_read_back_in_order(written: list[bytes]) -> None:
    with TemporaryDirectory() as place:
        log = Log(Path(place) / "log")
        offsets = [log.append(record) for record in written]
        length = log.flush()
        assert [record for _, record in read_records(log.path, length=length)] == written
        assert [offset for offset, _ in read_records(log.path)] == offsets
        assert [log.read_record(offset) for offset in offsets] == written
        log.close()


@given(payloads, payloads, st.data())
def test_a_log_cut_back_to_a_noted_length_shows_that_moment(
    before: list[bytes], after: list[bytes], data: st.DataObject
) -> None:
    with TemporaryDirectory() as place:
        path = Path(place) / "log"
        log = Log(path)
        for record in before:
            log.append(record)
        noted = log.flush()
        for record in after:
            log.append(record)
        log.close()
        size = path.stat().st_size
        os.truncate(path, data.draw(st.integers(noted, size)))  # the kill may come anywhere after the note
        again = Log(path, noted)
        again.append(b"new life")
        length = again.flush()
        again.close()
        assert [record for _, record in read_records(path, length=length)] == [*before, b"new life"]


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=10), st.data())
def test_reading_without_a_length_ends_at_the_last_whole_record(written: list[bytes], data: st.DataObject) -> None:
    with TemporaryDirectory() as place:
        path = Path(place) / "log"
        log = Log(path)
        ends = []
        for record in written:
            log.append(record)
            ends.append(log.length)
        log.close()
        cut = data.draw(st.integers(0, ends[-1]))
        os.truncate(path, cut)
        whole = sum(end <= cut for end in ends)
        assert [record for _, record in read_records(path)] == written[:whole]


def test_a_flipped_bit_before_the_noted_length_is_damage(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append(b"first")
    log.append(b"second")
    length = log.flush()
    log.close()
    raw = bytearray((tmp_path / "log").read_bytes())
    raw[-1] ^= 1
    (tmp_path / "log").write_bytes(raw)
    with pytest.raises(DamagedFile, match="checksum"):
        list(read_records(tmp_path / "log", length=length))


def test_a_log_shorter_than_noted_is_damage(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="it is missing"):
        Log(tmp_path / "log", 100)


def test_failed_flush_cuts_the_half_written_record(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append(b"first")
    length = log.flush()
    log.append(b"x" * 1000)
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (length + 100, usual[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert log.path.stat().st_size == length
    log.append(b"last")
    log.close()
    assert [record for _, record in read_records(log.path)] == [b"first", b"x" * 1000, b"last"]


def test_a_disk_that_failed_once_is_not_believed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error the system may forget what it could not write; the next sync would succeed."""
    real = os.fdatasync
    troubles = [OSError(errno.EIO, "Input/output error")]

    def fail_once(handle: int) -> None:
        if troubles:
            raise troubles.pop()
        real(handle)

    monkeypatch.setattr(os, "fdatasync", fail_once)
    journal = CheckpointJournal(tmp_path / "journal")
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output"):
            journal.commit(b"checkpoint")
    troubles.append(OSError(errno.EIO, "Input/output error"))
    syncing = FileSyncer()
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output"):
            syncing.sync([tmp_path / "journal"], tmp_path)


@given(st.binary(max_size=300))
def test_garbage_is_an_end_or_damage_but_never_a_crash(garbage: bytes) -> None:
    with TemporaryDirectory() as place:
        path = Path(place) / "log"
        log = Log(path)
        log.append(b"whole")
        length = log.flush()
        log.close()
        with path.open("ab") as file:
            file.write(garbage)
        assert next(iter(read_records(path))) == (0, b"whole")
        if garbage:
            with suppress(DamagedFile):
                list(read_records(path, length=length + len(garbage)))
            with suppress(DamagedFile):
                Log(path, length + len(garbage)).read_record(length)
            with pytest.raises(DamagedFile):
                Log(path, length + len(garbage) + 1)


def test_an_empty_record_is_neither_written_nor_read(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    with pytest.raises(AssertionError, match="empty"):
        log.append(b"")
    log.path.write_bytes(bytes(8))
    assert list(read_records(log.path)) == []
    assert length_of_whole_records(log.path) == 0
    with pytest.raises(DamagedFile, match="no record"):
        list(read_records(log.path, length=8))


def test_a_kill_while_a_crawl_is_made_leaves_room_to_make_it(tmp_path: Path) -> None:
    (tmp_path / "c" / "frontier").mkdir(parents=True)
    (tmp_path / "c" / "crawl.json.new").write_text("{")
    made = CrawlDir.create(tmp_path / "c", shards=1, settings=b"")
    assert CrawlDir.open(tmp_path / "c").identity == made.identity
    (tmp_path / "d" / "frontier").mkdir(parents=True)
    (tmp_path / "d" / "frontier" / "letter").write_text("dear")
    with pytest.raises(CrawlDirError, match="not empty"):
        CrawlDir.create(tmp_path / "d", shards=1, settings=b"")


def test_records_larger_than_the_read_ahead_come_back(tmp_path: Path) -> None:
    written = [b"a", b"x" * (3 << 20), b"b"]
    log = Log(tmp_path / "log")
    for record in written:
        log.append(record)
    log.close()
    assert [record for _, record in read_records(tmp_path / "log")] == written


@given(st.lists(st.binary(min_size=1, max_size=100), min_size=1, max_size=12), st.data())
def test_the_journal_knows_the_last_whole_checkpoint(written: list[bytes], data: st.DataObject) -> None:
    with TemporaryDirectory() as place:
        path = Path(place) / "journal"
        journal = CheckpointJournal(path)
        ends = []
        for checkpoint in written:
            journal.commit(checkpoint)
            ends.append(path.stat().st_size)
        journal.close()
        cut = data.draw(st.integers(0, ends[-1]))
        os.truncate(path, cut)
        whole = sum(end <= cut for end in ends)
        wanted = written[whole - 1] if whole else None
        assert inspect_journal_file(path).newest == wanted
        reopened = CheckpointJournal(path)
        assert reopened.latest == wanted
        reopened.commit(b"after")
        reopened.close()
        assert inspect_journal_file(path).newest == b"after"


def test_a_long_journal_starts_over_with_its_newest_checkpoint(tmp_path: Path) -> None:
    journal = CheckpointJournal(tmp_path / "journal")
    for number in range(12):
        journal.commit(bytes([number]) * (1 << 20))
    journal.close()
    assert (tmp_path / "journal").stat().st_size < 8 << 20
    assert inspect_journal_file(tmp_path / "journal").newest == bytes([11]) * (1 << 20)


def test_a_directory_is_made_once_and_opened_again(tmp_path: Path) -> None:
    made = CrawlDir.create(tmp_path / "c", shards=2, settings=b"")
    assert CrawlDir.open(tmp_path / "c").identity == made.identity
    with pytest.raises(CrawlExists):
        CrawlDir.create(tmp_path / "c", shards=2, settings=b"")


def test_other_directories_and_formats_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotACrawl):
        CrawlDir.open(tmp_path)
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(CrawlDirError, match="not empty"):
        CrawlDir.create(tmp_path, shards=1, settings=b"")
    made = CrawlDir.create(tmp_path / "c", shards=1, settings=b"")
    born = made / "crawl.json"
    born.write_text(born.read_text().replace(f'"format": {FORMAT}', '"format": 99'))
    with pytest.raises(UnsupportedFormat, match="format 99"):
        CrawlDir.open(tmp_path / "c")
    born.write_text("{")
    with pytest.raises(DamagedFile):
        CrawlDir.open(tmp_path / "c")


def test_one_process_at_a_time_and_a_dead_one_does_not_count(tmp_path: Path) -> None:
    home = CrawlDir.create(tmp_path / "c", shards=1, settings=b"")
    program = (
        "import sys, pathlib; from fieldmouse.storage.directory import CrawlDir;"
        "h = CrawlDir.open(pathlib.Path(sys.argv[1])); h.lock();"
        "print('locked', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(home.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"locked\n"
    assert home.owner_pid() == other.pid
    with pytest.raises(CrawlLocked, match=f"process {other.pid}"):
        home.lock()
    other.kill()
    other.communicate()
    home.lock()
    assert CrawlDir.open(home.path).owner_pid() == os.getpid()
    home.unlock()
    assert home.owner_pid() is None
