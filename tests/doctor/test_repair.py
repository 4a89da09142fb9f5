"""Repair rebuilds derived files exactly, and names the damage it cannot repair."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fieldmouse.cli.main import run_command
from fieldmouse.doctor.repair.repair import repair
from fieldmouse.search.search import search_crawl
from fieldmouse.search.snapshot import remove_index_directory
from fieldmouse.storage.directory import CrawlDir
from search.searchable import searchable_urls
from whole.virtual_time import outcomes

from .damaging import flip, is_healthy, replace, resume_for_good, troubles

WORDS = "meadow OR mouse OR field OR grass OR nectar"
MADE_AGAIN = ("archive/index.cdxj", "archive/shard-0.cdxj", "archive/digests.lmdb", "index/shard-0")


def lose(path: Path) -> None:
    remove_index_directory(path) if path.is_dir() else path.unlink()


def spoil(path: Path) -> None:
    """Change a byte in each file that a reader needs."""
    if path.is_dir():
        for file in filter(lambda file: file.stat().st_size, path.rglob("*.*")):
            flip(file)
    elif path.name == "digests.lmdb":
        replace(path, b"\0" * path.stat().st_size)
    else:
        flip(path)


@pytest.mark.parametrize(("state", "damage"), [("finished", spoil), ("killed", lose)])
@pytest.mark.parametrize("name", MADE_AGAIN)
def test_derived_files_are_rebuilt(
    state: str, name: str, damage: Callable[[Path], None], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    crawl = Path(shutil.copytree(request.getfixturevalue(f"{state}_crawl"), tmp_path / "c"))
    if not (crawl / name).exists():
        pytest.skip("a crawl that was killed has none yet")
    lines = {path: path.read_bytes() for path in (crawl / "archive").glob("*.cdxj")}
    counted = sorted(row.url for row in outcomes(crawl) if row.indexed)
    seen = hits(crawl)
    damage(crawl / name)
    assert not is_healthy(crawl)
    assert list(repair(CrawlDir.open(crawl)))
    assert troubles(crawl, deep=True) == []
    for path, before in lines.items():
        # Data that a killed crawl wrote after its last checkpoint is not written again.
        assert before.startswith(path.read_bytes())
    held = sorted(searchable_urls(crawl))
    assert set(held) >= set(counted)
    if "index" in name:
        assert held == counted
    assert {url: hit for url, hit in seen.items() if url in counted}.items() <= hits(crawl).items()
    resume_for_good(crawl)


def hits(crawl: Path) -> dict[str, tuple[str, str]]:
    return {hit.url: (hit.title, hit.snippet) for hit in search_crawl(crawl, WORDS, 1000)}


def test_a_page_stored_as_a_reference_is_indexed_with_the_text_of_its_original(
    tmp_path: Path, finished_crawl: Path
) -> None:
    crawl = Path(shutil.copytree(finished_crawl, tmp_path / "c"))
    twins = [row for row in outcomes(crawl) if row.duplicate_of and row.indexed]
    assert twins, "the meadow has mirrors"
    before = hits(crawl)
    lose(crawl / "index/shard-0")
    list(repair(CrawlDir.open(crawl)))
    assert all(hits(crawl)[row.url] == before[row.url] for row in twins if row.url in before)


def test_a_damaged_journal_is_reported_and_repaired(crawl: Path) -> None:
    flip(crawl / "journal", 20)
    assert [finding.what for finding in troubles(crawl)] == ["journal"]
    assert list(repair(CrawlDir.open(crawl)))
    assert is_healthy(crawl)
    resume_for_good(crawl)


def test_a_resume_repairs_the_journal(crawl: Path) -> None:
    flip(crawl / "journal", 20)
    resume_for_good(crawl)


@pytest.mark.parametrize("damage", [lose, spoil])
def test_sieve_keys_are_rebuilt_from_settled_and_waiting_urls(crawl: Path, damage: Callable[[Path], None]) -> None:
    damage(next(crawl.glob("frontier/run-*.keys")))
    assert {finding.what for finding in troubles(crawl)} == {"frontier", "accounts"}
    assert list(repair(CrawlDir.open(crawl)))
    assert is_healthy(crawl)
    resume_for_good(crawl)


@pytest.mark.parametrize("name", ["outcomes.log", "archive/*.warc.gz", "frontier/hosts-*.log"])
def test_repair_leaves_files_that_cannot_be_rebuilt(crawl: Path, name: str) -> None:
    (victim,) = crawl.glob(name)
    flip(victim)
    damaged = victim.read_bytes()
    assert run_command(["doctor", str(crawl), "--repair", "--deep", "--json"]) == 1
    assert victim.read_bytes() == damaged


def test_repair_of_a_healthy_crawl_changes_nothing(crawl: Path) -> None:
    def everything() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in crawl.rglob("*") if path.is_file()}

    before = everything()
    assert list(repair(CrawlDir.open(crawl))) == []
    assert everything() == before | {str(crawl / "lock"): everything()[str(crawl / "lock")]}


def test_a_running_crawl_is_not_repaired(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = CrawlDir.open(crawl)
    home.lock()
    try:
        assert run_command(["doctor", str(crawl), "--repair"]) == 1
        assert "is in use by" in capsys.readouterr().err
    finally:
        home.unlock()
