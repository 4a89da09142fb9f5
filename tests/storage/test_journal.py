"""The journal under damage: a bad record is never silently an end, and looking changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.storage.checkpoint_log import CheckpointJournal, inspect_journal_file
from fieldmouse.storage.log import frame_record

checkpoints = st.lists(st.binary(min_size=1, max_size=60).map(lambda raw: b"{" + raw), min_size=1, max_size=6)


def readable(raw: bytes) -> bool:
    return raw.startswith(b"{")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journal") / "journal"


@given(checkpoints, st.data())
def test_a_flipped_byte_costs_the_checkpoint_it_is_in_and_no_other(
    path: Path, written: list[bytes], data: st.DataObject
) -> None:
    frames = [frame_record(one) for one in written]
    raw = bytearray(b"".join(frames))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    hit, end = 0, len(frames[0])
    while at >= end:
        hit += 1
        end += len(frames[hit])
    report = inspect_journal_file(path, readable)
    others = [one for number, one in enumerate(written) if number != hit]
    if hit < len(written) - 1:
        assert report.newest == written[-1], "a later whole record was not found"
        assert len(report.bad) == 1
        assert not report.torn
    else:
        # The newest is hit: it is read only where its own checksum proves it, else the one before counts.
        assert report.newest in (written[-1], others[-1] if others else None)
        assert not report.clean, "a bad record went unreported"
    assert path.read_bytes() == bytes(raw), "looking changed the file"


@given(checkpoints, st.data())
def test_cut_anywhere_the_last_whole_record_counts_and_the_rest_is_torn_not_bad(
    path: Path, written: list[bytes], data: st.DataObject
) -> None:
    frames = [frame_record(one) for one in written]
    raw = b"".join(frames)
    cut = data.draw(st.integers(0, len(raw)))
    path.write_bytes(raw[:cut])
    ends = [sum(map(len, frames[: number + 1])) for number in range(len(frames))]
    whole = sum(end <= cut for end in ends)
    report = inspect_journal_file(path, readable)
    assert (report.records, report.newest) == (whole, written[whole - 1] if whole else None)
    assert not report.bad, "an ordinary kill is no damage"
    assert report.torn == cut - (ends[whole - 1] if whole else 0)


@given(checkpoints, st.integers(1, 100))
def test_zeros_at_the_end_are_no_checkpoint(path: Path, written: list[bytes], zeros: int) -> None:
    path.write_bytes(b"".join(map(frame_record, written)) + bytes(zeros))
    report = inspect_journal_file(path, readable)
    assert (report.records, report.newest) == (len(written), written[-1])
    assert [(span.length, span.what) for span in report.bad] == [(zeros, "is all zeros")]


@given(checkpoints, st.binary(min_size=1, max_size=80), checkpoints)
def test_a_whole_record_behind_garbage_is_found(
    path: Path, before: list[bytes], garbage: bytes, after: list[bytes]
) -> None:
    path.write_bytes(b"".join(map(frame_record, before)) + garbage + b"".join(map(frame_record, after)))
    report = inspect_journal_file(path, readable)
    assert report.newest == after[-1]
    assert report.records >= len(before) + len(after)
    assert not report.newer_checkpoint_lost


@given(checkpoints, st.binary(max_size=80))
def test_repaired_journal_is_clean_and_keeps_the_newest_checkpoint(
    path: Path, written: list[bytes], garbage: bytes
) -> None:
    path.write_bytes(frame_record(written[0])[:-1] + b"".join(map(frame_record, written)) + garbage)
    journal = CheckpointJournal(path, readable)
    before, told = path.read_bytes(), journal.latest
    assert told == written[-1]
    assert path.read_bytes() == before
    journal.repair_before_writing()
    assert inspect_journal_file(path, readable).clean
    assert inspect_journal_file(path, readable).newest == told
    journal.commit(b"{after")
    journal.close()
    assert inspect_journal_file(path, readable).clean
    assert CheckpointJournal(path, readable).latest == b"{after"


def test_a_record_with_a_right_checksum_that_is_no_checkpoint_is_bad(path: Path) -> None:
    path.write_bytes(frame_record(b"{one") + frame_record(b"something else"))
    report = inspect_journal_file(path, readable)
    assert report.newest == b"{one"
    assert [span.what for span in report.bad] == ["is not a checkpoint of a known format"]
    assert report.newer_checkpoint_lost


def test_a_new_journal_has_its_name_only_after_it_began(tmp_path: Path) -> None:
    journal = CheckpointJournal(tmp_path / "journal")
    assert not (tmp_path / "journal").exists()
    journal.repair_before_writing()
    assert (tmp_path / "journal").exists()
    assert journal.report.clean
    journal.close()
