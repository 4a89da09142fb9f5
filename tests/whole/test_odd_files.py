"""Crawl files that became directories or broken links: a refusal changes no other byte."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest

from fieldmouse.cli import main
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.errors import FieldmouseError
from fieldmouse.search.snapshot import remove_index_directory
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.stats import Summary

from .virtual_time import bottled_crawl, bottled_kill

MEADOW = Meadow(MeadowOptions(hosts=4, pages=60, seed=11, page_kb=1.0, links=8))
MANNERS = {
    "politeness__delay": "1s",
    "network__allow_private": True,
    "frontier__sieve_run": 12,
    "frontier__record_decisions": "1MiB",
}
ONCE = RefreshRunMode(once=True, hold_waiting=True, refresh_only=True)
TOUCHED = ("lock", "shard-*.lock", "*.lmdb-lock", ".tantivy-*.lock")
"""Files that a run without changes may touch."""


def crawl(path: Path, order: RefreshRunMode | None = None, **changes: object) -> Summary:
    return bottled_crawl(
        path, lambda clock: MeadowFetcher(MEADOW, clock), MEADOW.seeds, order=order, **MANNERS, **changes
    )[0]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl that was refreshed and resumed, and was killed with much data after its last checkpoint."""
    path = tmp_path_factory.mktemp("killed") / "c"
    crawl(path, crawl__pages=20)
    crawl(path, ONCE)
    bottled_kill(
        path, lambda clock: MeadowFetcher(MEADOW, clock), MEADOW.seeds, after=8.0, storage__checkpoint="3s", **MANNERS
    )
    for name in ("outcomes.log", *(str(file.relative_to(path)) for file in path.glob("archive/*.warc.gz"))):
        with (path / name).open("ab") as file:
            file.write(b"behind the last checkpoint")
    return path


def names(path: Path) -> list[str]:
    every = [str(file.relative_to(path)) for file in sorted(path.rglob("*")) if file.is_file()]
    return [name for name in every if not any(fnmatch(Path(name).name, like) for like in TOUCHED)]


def tree(path: Path) -> dict[str, str]:
    return {name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in names(path)}


def a_directory(file: Path) -> None:
    file.mkdir()
    (file / "something").write_text("of somebody's")


def a_dangling_link(file: Path) -> None:
    file.symlink_to(file.parent / "nowhere" / "at-all")


def a_pipe(file: Path) -> None:
    os.mkfifo(file)  # opening it would block without end


def of_each_kind(path: Path) -> list[str]:
    """One file of each directory and suffix."""
    kinds = {(Path(name).parent, Path(name).stem.rstrip("0123456789"), Path(name).suffix): name for name in names(path)}
    segments = {Path(name).suffix: name for name in kinds.values() if "/00000/" in name}
    return sorted({name for name in kinds.values() if "/00000/" not in name} | set(segments.values()))


@pytest.mark.parametrize("become", [a_directory, a_dangling_link, a_pipe])
def test_a_file_replaced_by_a_directory_or_link_is_refused_before_any_change(
    killed: Path, tmp_path: Path, become: Callable[[Path], None]
) -> None:
    path = Path(shutil.copytree(killed, tmp_path / "c"))
    refusals: dict[str, FieldmouseError] = {}
    for name in of_each_kind(path):
        (path / name).rename(tmp_path / "kept")
        become(path / name)
        before = tree(path)
        if not name.endswith(("crawl.json", "fieldmouse.toml")):  # read before anything is opened
            with pytest.raises(FieldmouseError) as refused:
                crawl(path, crawl__pages=30)
            refusals[name] = refused.value
        assert tree(path) == before, name
        remove_index_directory(path / name) if become is a_directory else (path / name).unlink()
        (tmp_path / "kept").rename(path / name)
    assert len(refusals) > 15
    for name, trouble in refusals.items():
        assert Path(name).name in str(trouble), name
        assert trouble.hint, name
    assert tree(path) == tree(killed)
    assert crawl(path).lost == 0


@pytest.mark.parametrize("become", [a_directory, a_dangling_link])
@pytest.mark.parametrize("name", ["journal", "outcomes.log", "held.log", "archive/digests.lmdb", "lock"])
def test_doctor_and_resume_name_the_odd_file(
    killed: Path, tmp_path: Path, name: str, become: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copytree(killed, tmp_path / "c"))
    (path / name).unlink(missing_ok=True)
    become(path / name)
    before = tree(path)
    assert main.run_command(["doctor", str(path)]) in (0, 1)
    assert main.run_command(["resume", str(path)]) == 1
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert name in told
    assert "hint: " in told
    assert tree(path) == before
    assert not (path / name).parent.joinpath("nowhere").exists()
