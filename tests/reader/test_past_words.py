"""`search --versions`: text of pages before they were changed, moved or gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fieldmouse.cli import main
from fieldmouse.reader.crawl_reader import CrawlReader, MultiCrawlReader
from fieldmouse.reader.versions import VersionSearchHit
from fieldmouse.testing import virtual_time

from .changing import DAY, GONE, HOME, ChangingCrawl, Shown

STORY = "The harvest mouse builds its nest high in the grass and leaves it in the autumn. " * 3
HIDDEN = "<meta name=robots content=noindex>"


def page(title: str, words: str, head: str = "") -> str:
    return f"<title>{title}</title>{head}<p>{STORY}</p><p>{words}</p>"


def clock(day: int, words: str = "cogwheel") -> str:
    return page("Clock", words) + f"<footer>Served at 12:0{day}:30 by node {day}{day}7</footer>"


PATHS = ("terms", "back", "gone", "moved", "excluded", "hidden", "clock", "same", "returned")
PAGES: dict[str, list[Shown]] = {
    "/": ["<title>Door</title>" + "".join(f"<a href=/{path}>{path}</a> " for path in PATHS)],
    "/robots.txt": [GONE, GONE, "User-agent: *\nDisallow: /excluded\n"],
    "/terms": [page("Terms", "quince within thirty days"), page("Terms", "medlar within fourteen days")],
    "/back": [page("A", "quince"), page("B", "not so"), page("A", "quince")],
    "/gone": [page("Soon gone", "quince jelly"), GONE],
    "/moved": [page("Here", "quince tart"), (301, "/there")],
    "/there": [page("There", "elsewhere")],
    "/excluded": [page("Excluded", "quince one"), page("Excluded", "quite another thing")],
    "/hidden": [page("Hidden", "quince two"), page("Hidden", "no more of it", HIDDEN)],
    "/clock": [*(clock(day) for day in range(5)), clock(5, "pendulum"), clock(6, "pendulum")],
    "/same": [page("Same", "quince for ever")],
    "/returned": [page("Returned", "quince again"), GONE, page("Returned", "quince again")],
}
DAYS = 7


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = ChangingCrawl(tmp_path_factory.mktemp("past") / "c", PAGES)
    made.next_days(DAYS - 1)
    return made.path


def placed(hit: VersionSearchHit) -> tuple[str, int, int, bool]:
    """Path, version, day, and whether it is shown now."""
    return hit.url.removeprefix(HOME), hit.version, int((hit.at - virtual_time.EPOCH) // DAY), hit.newest


def test_search_finds_the_words_of_every_version_once(crawl: Path) -> None:
    room = CrawlReader(crawl)
    found = sorted(hit.url.removeprefix(HOME) for hit in room.search("quince", 50))
    assert found == ["/back", "/returned", "/same"]
    old = [(path, 1, 0, False) for path in ("/back", "/gone", "/moved", "/terms")]
    shown = [("/back", 3, 2, True), ("/returned", 1, 0, True), ("/same", 1, 0, True)]
    assert sorted(map(placed, room.search_versions("quince", 50))) == sorted(old + shown)
    assert [placed(hit) for hit in room.search_versions('"within thirty days"')] == [("/terms", 1, 0, False)]
    assert room.search_versions("title:B so")[0].url == f"{HOME}/back"
    assert room.search_versions("quince host:example.org") == []
    assert room.search_versions("") == room.search_versions("never") == []
    assert len(room.search_versions("quince", 3)) == 3


def test_versions_that_differ_only_in_noise_count_once(crawl: Path) -> None:
    room = CrawlReader(crawl)
    assert [placed(hit) for hit in room.search_versions("cogwheel")] == [("/clock", 1, 0, False)]
    assert [placed(hit)[0::3] for hit in room.search_versions("pendulum")] == [("/clock", True)]


def test_versions_found_by_search_can_be_compared(crawl: Path) -> None:
    room = CrawlReader(crawl)
    for hit in room.search_versions("quince", 50):
        version = room.versions(hit.url)[hit.version - 1]
        assert (version.row.at, version.title) == (hit.at, hit.title)
        assert "quince" in version.text


def test_search_command_names_the_version(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run_command(["search", str(crawl), "--versions", "days", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["version"], one["newest"]) for one in told] == [(2, True), (1, False)]
    assert {"url", "title", "snippet", "score", "at"} < set(told[0])
    assert main.run_command(["search", str(crawl), "--versions", "days"]) == 0
    out = capsys.readouterr().out
    assert ", no longer current" in out
    assert "version 2, current since " in out


def test_versions_of_several_crawls_are_searched_as_one(crawl: Path, tmp_path: Path) -> None:
    other = ChangingCrawl(tmp_path / "d", {"/": [page("Door", "quince of old"), page("Door", "new")]})
    other.next_days(1)
    alone = CrawlReader(other.path).search_versions("quince")
    assert [placed(hit) for hit in alone] == [("/", 1, 0, False)]
    both = MultiCrawlReader([crawl, other.path]).search_versions("quince", 50)
    assert {hit.directory for hit in both} == {crawl, other.path}
    assert len(both) == 8


def test_explain_names_the_pages_that_moved_to_a_url(crawl: Path) -> None:
    told = CrawlReader(crawl).explain(f"{HOME}/there")
    assert told.moved_here == [f"{HOME}/moved"]
    assert any(line.startswith(f"{HOME}/moved moved here, ") for line in told.says)
    assert CrawlReader(crawl).explain(f"{HOME}/same").moved_here == []
    gone = CrawlReader(crawl).explain(f"{HOME}/gone")
    assert not [line for line in gone.says if "versions of it" in line], "a 404 is no version"
