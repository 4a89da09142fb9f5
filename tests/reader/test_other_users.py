"""Crawl that the user may read but not write: every read-only operation works."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fieldmouse.errors import CrawlDirError
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.reader.status import CrawlState

from .smallweb import HOME, STORED

NOBODY = 65534


@pytest.fixture
def shared(small_crawl: Path) -> Iterator[Path]:
    """A copy of the crawl that other users may read."""
    with tempfile.TemporaryDirectory(prefix="fieldmouse-shared-") as name:
        Path(name).chmod(0o755)
        yield Path(shutil.copytree(small_crawl, Path(name) / "c"))


@contextmanager
def as_reader(home: Path) -> Iterator[None]:
    """Run as a user without write permission: another user if we are root, otherwise with the files
    read-only."""
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)
        return
    directories = [home, *(path for path in home.rglob("*") if path.is_dir())]
    for directory in directories:
        directory.chmod(0o555)
    try:
        yield
    finally:
        for directory in directories:
            directory.chmod(0o755)


def test_a_user_without_write_permission_can_read_everything(shared: Path) -> None:
    room = CrawlReader(shared)
    words = [hit.url for hit in room.search("mouse")]
    assert words
    assert len([page.body for page in room.pages()]) == len(STORED)
    with as_reader(shared):
        assert not os.access(shared, os.W_OK, effective_ids=True)
        assert [hit.url for hit in room.search("mouse")] == words
        assert len([page.body for page in room.pages()]) == len(STORED)
        assert room.status().standing is CrawlState.DONE
        assert room.explain(HOME + "/").place == "done"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look as somebody else")
def test_unreadable_files_raise_an_error_with_a_hint(shared: Path) -> None:
    room = CrawlReader(shared)
    assert room.search("mouse")
    for listed in shared.rglob("index/**/*.json"):
        listed.chmod(0o600)
    with as_reader(shared), pytest.raises(CrawlDirError, match="Permission denied") as trouble:
        room.search("mouse")
    assert f"chmod -R a+rX {shared}" in trouble.value.hint
