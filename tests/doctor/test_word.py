"""Doctor's word is what a resume will find: of crawls named in any way, and of those that are older."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from fieldmouse.cli import run
from fieldmouse.indexer.search import documents
from fieldmouse.lab.meadow.fetcher import MeadowFetcher
from fieldmouse.lab.meadow.meadow import Meadow
from fieldmouse.lab.meadow.options import MeadowOptions
from fieldmouse.records import Summary
from whole.bottled import bottled_crawl, outcomes

from .sickbed import troubles

FORMAT_1 = Path(__file__).parent.parent / "data" / "crawl-of-format-1.tar.xz"
YOUNG = Meadow(MeadowOptions(hosts=4, pages=60, seed=11, page_kb=1.0, links=8))
"""What the crawl of format 1 crawled: it has the first four pages."""


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


def test_a_crawl_is_as_healthy_by_a_relative_name(
    crawl: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(crawl.parent)
    assert run(["doctor", crawl.name, "--deep"]) == 0, capsys.readouterr().out
    assert run(["doctor", crawl.name, "--repair"]) == 0
    assert "mended" not in capsys.readouterr().err
    shutil.rmtree(crawl / "index/shard-0")
    assert run(["doctor", crawl.name]) == 1
    assert run(["doctor", crawl.name, "--repair"]) == 0
    monkeypatch.chdir(crawl)
    assert run(["doctor", "."]) == 0
    assert sorted(documents(crawl)) == indexed(crawl)


def test_a_crawl_of_format_1_is_healthy_before_and_after_a_resume(old: Path) -> None:
    assert troubles(old, deep=True) == []
    resume(old, crawl__pages=10)
    assert troubles(old, deep=True) == []
    assert sorted(documents(old)) == indexed(old)
