"""Tests with each file of the full-text index damaged: results are correct, or an error has a hint."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fieldmouse.cli import main
from fieldmouse.errors import CrawlDirError, FieldmouseError, StorageError, storage_errors
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.search.index import panics_as_errors
from fieldmouse.search.search import search_crawl
from fieldmouse.search.snapshot import remove_index_directory
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from whole.virtual_time import bottled_crawl

from .searchable import searchable_urls

MEADOW = Meadow(MeadowOptions(hosts=3, pages=40, seed=11, page_kb=1.0, links=8))


def crawl(path: Path, pages: int = 0) -> None:
    bottled_crawl(
        path,
        lambda clock: MeadowFetcher(MEADOW, clock),
        MEADOW.seeds,
        crawl__pages=pages,
        politeness__delay="1s",
        network__allow_private=True,
    )


def cut(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


def empty(raw: bytes) -> bytes:
    return b""


def zeros(raw: bytes) -> bytes:
    return bytes(len(raw))


def zeros_but_for_the_end(raw: bytes) -> bytes:
    return bytes(max(0, len(raw) - 200)) + raw[-200:]


def flipped(raw: bytes) -> bytes:
    rng, hurt = random.Random(len(raw)), bytearray(raw)
    for _ in range(12):
        if hurt:
            hurt[rng.randrange(len(hurt))] ^= rng.randrange(1, 256)
    return bytes(hurt)


WAYS: list[Callable[[bytes], bytes]] = [cut, empty, zeros, zeros_but_for_the_end, flipped]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stopped") / "c"
    crawl(path, pages=25)
    return path


def damaged(path: Path, way: Callable[[bytes], bytes]) -> Iterator[Path]:
    """Damage each file of the index in turn, and restore it afterwards."""
    files = [file for file in sorted((path / "index").rglob("*")) if file.is_file()]
    assert {file.suffix for file in files} >= {".json", ".store", ".idx", ".pos", ".term", ".fast"}
    for file in files:
        raw = file.read_bytes()
        if not raw or file.suffix in (".lock", ".lmdb-lock"):
            continue
        # Unlink first: a write in place would also damage the other hard links of the file.
        file.unlink()
        file.write_bytes(way(raw))
        yield file
        file.unlink()
        file.write_bytes(raw)


@pytest.mark.parametrize("way", WAYS)
def test_damaged_index_is_searched_or_rejected_with_a_hint(
    stopped: Path, tmp_path: Path, way: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copytree(stopped, tmp_path / "c"))
    word = next(page.title for page in CrawlReader(path).pages() if page.title).split()[0]
    urls = set(searchable_urls(path))
    assert urls
    hints: list[str] = []
    for file in damaged(path, way):
        for look in (lambda: {hit.url for hit in search_crawl(path, word)}, lambda: set(searchable_urls(path))):
            try:
                assert look() <= urls, file
            except CrawlDirError as trouble:
                hints.append(trouble.hint)
        assert main.run_command(["search", str(path), word]) in (0, 1), file
        assert "Traceback" not in capsys.readouterr().err
    assert hints
    assert all("--repair" in hint for hint in hints)


@pytest.mark.parametrize("way", [cut, zeros_but_for_the_end, flipped])
def test_doctor_reports_a_damaged_index_and_resume_rejects_it_or_completes_the_crawl(
    stopped: Path, tmp_path: Path, way: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    path, hints = Path(shutil.copytree(stopped, tmp_path / "c")), list[str]()
    for number, file in enumerate(damaged(path, way)):
        if file.suffix not in (".json", ".store", ".idx", ".term", ".fast", ".pos"):
            continue
        assert main.run_command(["doctor", str(path)]) in (0, 1), file
        told = capsys.readouterr()
        assert "Traceback" not in told.err + told.out
        copy = Path(shutil.copytree(path, tmp_path / f"copy-{number}"))
        try:
            crawl(copy, pages=27)
        except (CrawlDirError, StorageError) as trouble:
            hints.append(trouble.hint)
        remove_index_directory(copy)
    assert all(hints)


def test_worker_that_fails_on_the_index_names_the_repair_command(tmp_path: Path) -> None:
    panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})
    with (
        pytest.raises(StorageError, match="unexpected end") as refused,
        storage_errors(tmp_path, ValueError),
        panics_as_errors(),
    ):
        raise panic("unexpected end")
    assert "--repair` builds the index again" in refused.value.hint


def test_only_panics_become_errors() -> None:
    panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})
    with pytest.raises(ValueError, match="unexpected end"), panics_as_errors():
        raise panic("unexpected end")
    for kind in (KeyboardInterrupt, SystemExit, FieldmouseError, type("PanicException", (BaseException,), {})):
        with pytest.raises(kind), panics_as_errors():
            raise kind("as it is")


def test_an_index_is_deleted_although_a_reader_creates_its_lock_file_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation, real, locks = tmp_path / "shard-0" / "00000", os.rmdir, 3
    generation.mkdir(parents=True)

    def rmdir(path: str, *, dir_fd: int | None = None) -> None:
        nonlocal locks
        if Path(path).name == generation.name and locks:
            locks -= 1
            (generation / ".tantivy-meta.lock").touch()
        real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", rmdir)
    remove_index_directory(tmp_path / "shard-0")
    assert not locks
    assert not (tmp_path / "shard-0").exists()
    with pytest.raises(FileNotFoundError):
        remove_index_directory(tmp_path / "shard-0")
