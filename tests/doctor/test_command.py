"""Doctor's findings agree with a later resume, for relative paths and older formats."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from fieldmouse.cli.main import run_command
from fieldmouse.doctor.repair.repair import crawl_lock, repair
from fieldmouse.errors import DamagedFile
from fieldmouse.search.snapshot import remove_index_directory
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.stats import Summary
from search.searchable import searchable_urls
from whole.virtual_time import bottled_crawl, outcomes

from .damaging import flip, troubles

FORMAT_1 = Path(__file__).parent.parent / "data" / "crawl-of-format-1.tar.xz"
YOUNG = Meadow(MeadowOptions(hosts=4, pages=60, seed=11, page_kb=1.0, links=8))
"""Site of the crawl of format 1, which has its first four pages."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old"
    with tarfile.open(FORMAT_1) as packed:
        packed.extractall(path, filter="data")
    return path


def resume(path: Path, **changes: object) -> Summary:
    summary, _ = bottled_crawl(
        path,
        lambda clock: MeadowFetcher(YOUNG, clock),
        YOUNG.seeds,
        politeness__delay="1s",
        network__allow_private=True,
        **changes,
    )
    return summary


def indexed(path: Path) -> list[str]:
    return sorted(row.url for row in outcomes(path) if row.indexed)


def test_a_crawl_is_healthy_by_a_relative_path(
    crawl: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(crawl.parent)
    assert run_command(["doctor", crawl.name, "--deep"]) == 0, capsys.readouterr().out
    assert run_command(["doctor", crawl.name, "--repair"]) == 0
    assert "mended" not in capsys.readouterr().err
    remove_index_directory(crawl / "index/shard-0")
    assert run_command(["doctor", crawl.name]) == 1
    assert run_command(["doctor", crawl.name, "--repair"]) == 0
    monkeypatch.chdir(crawl)
    assert run_command(["doctor", "."]) == 0
    assert sorted(searchable_urls(crawl)) == indexed(crawl)


def test_a_crawl_of_format_1_is_healthy_before_and_after_a_resume(old: Path) -> None:
    assert troubles(old, deep=True) == []
    resume(old, crawl__pages=10)
    assert troubles(old, deep=True) == []
    assert sorted(searchable_urls(old)) == indexed(old)


@pytest.mark.parametrize("pages", [4, 10])
def test_a_rebuilt_index_has_every_generation_that_a_resume_needs(old: Path, pages: int) -> None:
    """In an older fieldmouse the last generation was followed by another one, empty or not."""
    resume(old, crawl__pages=pages)
    flip(next(old.glob("index/shard-0/00000/*.store")))
    assert list(repair(CrawlDir.open(old)))
    assert troubles(old, deep=True) == []
    assert sorted(searchable_urls(old)) == indexed(old)
    resume(old, crawl__pages=pages + 10)
    assert len(indexed(old)) > pages
    assert sorted(searchable_urls(old)) == indexed(old)
    assert troubles(old, deep=True) == []


def test_a_missing_generation_is_damage_even_if_it_was_empty(old: Path) -> None:
    resume(old, crawl__pages=10)
    flip(next(old.glob("index/shard-0/00000/*.store")))
    list(repair(CrawlDir.open(old)))
    remove_index_directory(old / "index/shard-0/00001")
    assert [finding.subject for finding in troubles(old)] == ["index/shard-0"]
    with pytest.raises(DamagedFile, match="00001"):
        resume(old)


def test_a_damaged_index_is_kept_if_the_archive_has_fewer_pages(
    finished_crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = Path(shutil.copytree(finished_crawl, tmp_path / "c"))
    warcs = {path: path.rename(tmp_path / path.name) for path in crawl.glob("archive/*.warc.gz")}
    for part in crawl.glob("index/shard-0/*/*.pos"):
        flip(part)
    before = sorted(searchable_urls(crawl))
    assert before == indexed(crawl)
    assert run_command(["doctor", str(crawl), "--repair"]) == 1
    said = capsys.readouterr().err
    assert f"still holds {len(before)} pages" in said
    assert "WARC" in said
    assert sorted(searchable_urls(crawl)) == before
    assert not (crawl / "index/rebuilt").exists()
    for place, elsewhere in warcs.items():
        elsewhere.rename(place)
    assert run_command(["doctor", str(crawl), "--repair", "--deep"]) == 0
    assert sorted(searchable_urls(crawl)) == before


def test_a_lost_index_is_rebuilt_from_the_readable_pages(finished_crawl: Path, tmp_path: Path) -> None:
    crawl = Path(shutil.copytree(finished_crawl, tmp_path / "c"))
    rows = [row for row in outcomes(crawl) if row.indexed and not row.duplicate_of]
    victim = max(rows, key=lambda row: row.offset)
    remove_index_directory(crawl / "index/shard-0")
    flip(crawl / "archive" / victim.warc, victim.offset + 200)
    list(repair(CrawlDir.open(crawl)))
    held = set(searchable_urls(crawl))
    assert held
    assert held < set(indexed(crawl))
    assert victim.url not in held


def test_a_crawl_started_after_a_repair_is_not_reported_as_killed(killed_crawl: Path, tmp_path: Path) -> None:
    crawl = Path(shutil.copytree(killed_crawl, tmp_path / "c"))
    later = CrawlDir.open(crawl)

    class Crowded(CrawlDir):
        """Another process waits for the lock."""

        def unlock(self, *, as_found: bool = False) -> None:
            super().unlock(as_found=as_found)
            assert (crawl / "lock").read_text() == "1", "the kill before is still told"
            later.lock()

    with crawl_lock(Crowded(crawl, later.identity)):
        assert later.owner_pid() == os.getpid()
    assert later.owner_pid() == int((crawl / "lock").read_text()) == os.getpid()
    later.unlock()
    assert not later.was_killed


def test_lost_settings_can_be_rewritten_as_doctor_advises(old: Path) -> None:
    (old / "fieldmouse.toml").unlink()
    (finding,) = troubles(old)
    assert finding.subject == "fieldmouse.toml"
    assert "`seeds`" in finding.advice
    (old / "fieldmouse.toml").write_text(f"[crawl]\nseeds = {json.dumps(list(YOUNG.seeds))}\n")
    assert troubles(old) == []
