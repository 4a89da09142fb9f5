"""A crawl's diary may fail; the crawl must not."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fieldmouse.storage.log import BestEffortLog, read_records


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """What a full disk is to a file: `write` fails, perhaps after a part."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def test_write_error_ends_only_the_best_effort_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "diary"
    diary = BestEffortLog(path)
    for number in range(10):
        diary.append(b"%d" % number)
    diary.flush()
    with files_of_at_most(path.stat().st_size + 100):
        diary.append(b"x" * 1000)
        diary.flush()
        diary.append(b"y" * (3 << 20))  # more than it would hold back
        diary.flush()
        diary.sync()
        diary.close()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1, "it is said once"
    assert f"`{path}` is not written any further" in said[0]
    assert [record for _, record in read_records(path)] == [b"%d" % number for number in range(10)]


def test_the_next_one_continues_behind_the_last_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "diary"
    for word in (b"first", b"second"):
        diary = BestEffortLog(path)
        diary.append(word)
        diary.close()
        with path.open("ab") as file:
            file.write(b"torn")
    assert [record for _, record in read_records(path)] == [b"first", b"second"]
