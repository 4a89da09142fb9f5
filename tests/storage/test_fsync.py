"""Files appear whole or not at all, whatever goes wrong while they are written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fieldmouse.cli import output_file
from fieldmouse.errors import FieldmouseError
from fieldmouse.storage.log import atomic_write, write_atomically


def test_until_the_last_byte_is_written_the_old_file_stands_there(tmp_path: Path) -> None:
    path = tmp_path / "pages"
    write_atomically(path, b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["pages"]


@pytest.mark.parametrize("trouble", [ValueError("mine"), OSError("the disk's"), KeyboardInterrupt()])
def test_failed_write_leaves_only_the_old_file(tmp_path: Path, trouble: BaseException) -> None:
    path = tmp_path / "pages"
    write_atomically(path, b"old")
    with pytest.raises(type(trouble)):
        write_half(path, trouble)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["pages"]


def write_half(path: Path, trouble: BaseException) -> None:
    with atomic_write(path) as file:
        file.write(b"half")
        raise trouble


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    output_file.write_output(pipe, b"rows")
    assert os.read(reader, 99) == b"rows"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    with pytest.raises(FieldmouseError, match=r"cannot write `.*nowhere/pages`: No such file"):
        output_file.write_output(tmp_path / "nowhere" / "pages", b"rows")
    output_file.write_output(tmp_path / "nowhere" / "pages", b"rows", parents=True)
    assert (tmp_path / "nowhere" / "pages").read_bytes() == b"rows"
