"""Several crawls read as one: for a URL in more than one, the newest outcome counts."""

from __future__ import annotations

import json
import shutil
import tempfile
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fieldmouse
from fieldmouse.cli import main
from fieldmouse.cli.read.export import OUTCOME_FIELDS
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.errors import NotACrawl, UsageError
from fieldmouse.reader.crawl_reader import CrawlPrecedence, CrawlReader, MultiCrawlReader
from fieldmouse.reader.explain import REJECTED_LOG
from fieldmouse.storage.changes_from_outcomes import ChangeKind
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Log
from fieldmouse.storage.outcome_log_reader import read_latest_outcomes
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.url import Url
from whole.virtual_time import bottled_crawl

from .changing import DAY, GONE, HOME, ChangingWeb, Shown
from .conftest import QUICK
from .written import write_rows

LINKS = "".join(f"<a href=/{name}>x</a>" for name in ("same", "other", "gone", "hidden", "early", "late", "back"))
PAGES: dict[str, list[Shown]] = {
    "/": [f"<title>Door</title>burrow {LINKS}"],
    "/same": ["<title>Same</title>hedgehog stays"],
    "/other": ["<title>Old</title>badger acorn", "<title>New</title>badger walnut", "<title>Third</title>pear"],
    "/gone": ["<title>Gone</title>weasel", GONE],
    "/hidden": ["<title>Hidden</title>stoat", "<meta name=robots content=noindex><title>Hidden</title>stoat"],
    "/early": ["<title>Early</title>vole morning", 500],
    "/late": [500, "<title>Late</title>vole evening"],
    "/back": [GONE, "<title>Back</title>ferret"],
}

Said = pytest.CaptureFixture[str]


def crawl_on(path: Path, day: int, pages: dict[str, list[Shown]] = PAGES, order: RefreshRunMode | None = None) -> Path:
    """Crawl the site as of a day, or poll known pages again."""
    settings = {"politeness__patience": "0", "refresh__policy": "uniform", **QUICK}
    fetcher, epoch = partial(ChangingWeb, pages, day=day), virtual_time.EPOCH + day * DAY
    bottled_crawl(path, fetcher, [HOME + "/"], epoch=epoch, order=order, **settings)  # type: ignore[arg-type]
    return path


def poll_on(path: Path, day: int) -> Path:
    return crawl_on(path, day, order=RefreshRunMode(once=True, hold_waiting=True, refresh_only=True))


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same site, crawled on two days into two directories."""
    home = tmp_path_factory.mktemp("days")
    return [crawl_on(home / f"day-{day}", day) for day in range(2)]


@pytest.fixture(params=["in order", "turned round"])
def rooms(days: list[Path], request: pytest.FixtureRequest) -> MultiCrawlReader:
    """In both orders."""
    return fieldmouse.open(days if request.param == "in order" else days[::-1])


def exported(tmp_path: Path, directory: Path, *others: Path, words: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    also = [word for other in others for word in ("--with", str(other))]
    target = tmp_path / "rows.jsonl"
    assert main.run_command(["export", str(directory), *also, "--to", str(target), *words]) == 0
    return [json.loads(line) for line in target.read_text().splitlines()]


def test_a_page_stored_by_two_crawls_is_shown_once_in_its_newest_version(
    rooms: MultiCrawlReader, days: list[Path]
) -> None:
    shown = {page.url.removeprefix(HOME): (page.title, page.directory) for page in rooms.pages()}
    early, late = days
    newest = {f"/{title.lower()}": (title, late) for title in ("Same", "Hidden", "Late", "Back")}
    assert shown == newest | {"/": ("Door", late), "/other": ("New", late), "/early": ("Early", early)}
    assert len(list(rooms.pages())) == len(shown)
    for page in rooms.pages():
        alone = rooms.page(page.url)
        assert alone is not None
        assert (alone.row, alone.directory, alone.body) == (page.row, page.directory, page.body)
    assert rooms.page(HOME + "/gone") is None
    assert rooms.page(HOME + "/nowhere") is None
    assert [page.url for page in rooms.pages(host="elsewhere.example")] == []


def merged(tmp_path: Path, directories: list[Path]) -> dict[str, dict[str, Any]]:
    """For each URL, the newest exported row that states whether it is a page."""
    last: dict[str, tuple[str, dict[str, Any]]] = {}
    for directory in directories:
        for row in exported(tmp_path, directory, words=("--all",)):
            if row["kind"] == "page" or row["status"] in (404, 410):
                row["directory"] = str(directory)
                before = last.get(row["url"], ("", {}))
                last[row["url"]] = max(before, (row["fetched_at"], row), key=itemgetter(0))
    return {
        url: {field: value for field, value in row.items() if field not in OUTCOME_FIELDS}
        for url, (_, row) in last.items()
        if row["kind"] == "page"
    }


def test_export_of_two_crawls_equals_the_merge_of_both_exports(days: list[Path], tmp_path: Path) -> None:
    together = exported(tmp_path, *days)
    assert {row["url"]: row for row in together} == merged(tmp_path, days)
    assert len({row["url"] for row in together}) == len(together)
    assert together == sorted(together, key=lambda row: str(row["fetched_at"])), "about by time"


def test_three_crawls_of_a_changing_site_read_as_one(tmp_path: Path) -> None:
    """Pages change, appear and vanish between the three crawls; only the first crawl sees every page."""
    plain = partial(MeadowOptions, hosts=5, pages=120, seed=4, page_kb=1.0, links=8, traps=0.0, duplicates=0.0)
    lively = partial(plain, changing=0.6, change_every=DAY, appearing=0.3, vanishing=0.4, staying=DAY)
    meadow = Meadow(lively(rewriting=True, began=virtual_time.EPOCH))
    looks = []
    for number, (day, most) in enumerate([(0, 0), (3, 80), (6, 40)]):
        looks.append(tmp_path / f"look-{number}")
        settings = {"scope__mode": "web", "crawl__pages": most, **QUICK}
        fetcher, epoch = partial(MeadowFetcher, meadow), virtual_time.EPOCH + day * DAY
        bottled_crawl(looks[-1], fetcher, meadow.seeds, epoch=epoch, **settings)  # type: ignore[arg-type]
    expected = merged(tmp_path, looks)
    for order in (looks, looks[::-1]):
        together = exported(tmp_path, *order)
        assert {row["url"]: row for row in together} == expected
        assert len(together) == len(expected)
    shares = [sum(row["directory"] == str(look) for row in expected.values()) for look in looks]
    assert min(shares) >= 10, "each has the last word on some"
    alone = {page.url for look in looks for page in CrawlReader(look).pages()}
    assert alone - set(expected), "and something was there, and is gone"
    rooms = MultiCrawlReader(looks)
    hits = {hit.url: hit.directory for hit in rooms.search("-nowhere", limit=1000)}
    assert hits == {url: Path(row["directory"]) for url, row in expected.items() if row["indexed"]}


def test_export_of_one_crawl_is_unchanged_and_of_several_has_all_outcomes(days: list[Path], tmp_path: Path) -> None:
    alone = [exported(tmp_path, directory, words=("--all",)) for directory in days]
    assert all("directory" not in row for rows in alone for row in rows)
    together = exported(tmp_path, *days, words=("--all",))
    for directory, rows in zip(days, alone, strict=True):
        there = [row for row in together if row["directory"] == str(directory)]
        assert [{field: row[field] for field in rows[0]} for row in there] == rows
    assert len(together) == sum(map(len, alone))


def test_search_finds_the_newest_version_once_and_names_its_directory(
    rooms: MultiCrawlReader, days: list[Path]
) -> None:
    early, late = days

    def found(words: str) -> list[tuple[str, Path]]:
        return [(hit.url.removeprefix(HOME), hit.directory) for hit in rooms.search(words)]

    assert found("hedgehog") == [("/same", late)]
    assert found("walnut") == found("badger") == [("/other", late)]
    assert found("acorn") == [], "so it was yesterday"
    assert found("weasel") == [], "it is gone"
    assert found("stoat") == [], "it asks by now not to be found"
    assert sorted(found("vole")) == [("/early", early), ("/late", late)]
    assert found("ferret") == [("/back", late)]


def test_search_command_names_the_directory_only_for_several_crawls(days: list[Path], capsys: Said) -> None:
    assert main.run_command(["search", str(days[0]), "--with", str(days[1]), "vole", "--json"]) == 0
    hits = json.loads(capsys.readouterr().out)
    assert {hit["directory"] for hit in hits} == set(map(str, days))
    assert main.run_command(["search", str(days[0]), "vole", "--json"]) == 0
    assert [set(hit) for hit in json.loads(capsys.readouterr().out)] == [{"url", "title", "snippet", "score"}]
    assert main.run_command(["search", str(days[0]), "--with", str(days[1]), "walnut"]) == 0
    assert f"{HOME}/other  in `{days[1]}`" in capsys.readouterr().out
    assert main.run_command(["search", str(days[0]), "--with", str(days[1]), "acorn"]) == 0
    assert f"no page in `{days[0]}` or `{days[1]}` matches: acorn" in capsys.readouterr().err


def test_explain_names_the_directory_of_each_outcome(rooms: MultiCrawlReader, days: list[Path], capsys: Said) -> None:
    early, late = map(str, days)
    told = rooms.explain(HOME + "/other")
    assert [(directory, row.title) for directory, row in told.outcomes] == [(early, "Old"), (late, "New")]
    assert (told.directory, told.place) == (late, "done")
    (together,) = told.says
    assert f"of 2 crawls that asked for it `{late}` was the last" in together
    assert together.endswith("its copy is shown")
    assert str(told).index(f"in `{rooms.paths[0]}`:") < str(told).index(f"in `{rooms.paths[1]}`:")
    (gone,) = rooms.explain(HOME + "/gone").says
    assert gone.endswith("it is no longer a page")
    assert rooms.explain(HOME + "/late").outcomes[-1][1].title == "Late"
    assert rooms.explain(HOME + "/late").says == [], "there is nothing to choose from: a 500 says nothing"
    assert main.run_command(["explain", early, "--with", late, HOME + "/other", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert [row["directory"] for row in plain["outcomes"]] == [early, late]
    assert [one["directory"] for one in plain["crawls"]] == [early, late]
    assert plain["directory"] == late
    assert main.run_command(["explain", early, "--with", late, HOME + "/other"]) == 0
    assert capsys.readouterr().out == str(MultiCrawlReader(days).explain(HOME + "/other")) + "\n"


def test_archives_are_searched_for_a_reason_only_if_no_crawl_took_the_url(days: list[Path], tmp_path: Path) -> None:
    apart = tmp_path / "apart"
    bottled_crawl(apart, lambda clock: ChangingWeb({"/x": ["x"]}, clock, 0), [HOME + "/x"], **QUICK)
    rooms = fieldmouse.open([days[0], apart])
    known = rooms.explain(HOME + "/same").crawls
    assert "no link to it was accepted" in known[str(apart)].says
    assert not any("has a link to it" in says for says in known[str(apart)].says)
    unknown = rooms.explain(HOME + "/nowhere")
    assert (unknown.directory, unknown.place) == (None, "never seen")
    assert all(any("has a link to it" in says for says in told.says) for told in unknown.crawls.values())


def test_explain_names_an_outcome_that_the_coordinator_rejected(days: list[Path], tmp_path: Path) -> None:
    shutil.copytree(days[0], tmp_path / "agent")
    room = CrawlReader(tmp_path / "agent")
    row = room.explain(HOME + "/other").outcomes[0]
    log = Log(tmp_path / "agent" / REJECTED_LOG)
    log.append(msgspec.msgpack.encode((HOME + "/same", row.at)))
    log.append(msgspec.msgpack.encode((row.url, row.at)))
    log.close()
    (says,) = [says for says in room.explain(row.url).says if "booked" in says]
    assert says.startswith("another agent's outcome was booked before this one")
    assert not [says for says in room.explain(HOME + "/early").says if "booked" in says]
    page = fieldmouse.open([days[1], tmp_path / "agent"]).page(HOME + "/early")
    assert page is not None


def test_versions_and_differences_include_all_crawls(rooms: MultiCrawlReader, days: list[Path]) -> None:
    versions = rooms.versions(HOME + "/other")
    assert [(page.title, page.directory) for page in versions] == list(zip(("Old", "New"), days, strict=True))
    assert len(rooms.versions(HOME + "/same")) == 1, "the same bytes are no other version"
    told = rooms.difference(HOME + "/other")
    assert told.hunks is not None
    assert [(hunk.old, hunk.new) for hunk in told.hunks] == [(["Old", "badger acorn"], ["New", "badger walnut"])]


def test_a_change_seen_by_two_crawls_is_listed_once(tmp_path: Path) -> None:
    first, second = (crawl_on(tmp_path / name, 0) for name in "ab")
    for path, day in ((first, 1), (second, 1), (second, 2)):
        poll_on(path, day)
    alone = [
        [(change.url.removeprefix(HOME), change.kind) for change in CrawlReader(path).changes()]
        for path in (first, second)
    ]
    new = {("/late", ChangeKind.NEW), ("/back", ChangeKind.NEW)}
    assert set(alone[0]) == new | {("/other", ChangeKind.CHANGED), ("/gone", ChangeKind.GONE)}
    assert set(alone[1]) == set(alone[0])
    assert len(alone[1]) == len(alone[0]) + 1, "it changed a second time"
    together = [(change.url.removeprefix(HOME), change.kind) for change in fieldmouse.open([first, second]).changes()]
    assert sorted(together) == sorted(alone[1])


def test_changes_command_names_the_crawl_that_saw_each_change(tmp_path: Path, capsys: Said) -> None:
    first, second = (crawl_on(tmp_path / name, 0) for name in "ab")
    words = ["changes", str(first), "--with", str(second)]
    assert main.run_command(words) == 0
    said = capsys.readouterr()
    assert f"no change is recorded in `{first}` or `{second}`" in said.err
    assert f"fieldmouse refresh {first} --once" in said.err
    for path, day in ((first, 1), (second, 2)):
        poll_on(path, day)
    assert main.run_command([*words, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    told = fieldmouse.open([first, second]).changes()
    assert sorted(row["id"] for row in listed) == sorted(change.id for change in told)
    assert listed == sorted(listed, key=lambda row: float(row["at"]))
    assert [row["directory"] for row in listed if row["url"] == HOME + "/other"] == [str(first), str(second)]
    assert [row["directory"] for row in listed if row["url"] == HOME + "/gone"] == [str(first)], "told once"
    assert main.run_command([*words, "--kind", "gone"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert str(first) in line
    assert main.run_command([*words, "--versions", HOME + "/other", "--json"]) == 0
    versions = json.loads(capsys.readouterr().out)
    expected = [("Old", str(first)), ("New", str(first)), ("Third", str(second))]
    assert [(row["title"], row["directory"]) for row in versions] == expected
    assert main.run_command([*words, "--diff", HOME + "/other"]) == 0
    assert "+ Third" in capsys.readouterr().out
    assert main.run_command([*words, "--propose-rules"]) == 2
    assert "one crawl at a time" in capsys.readouterr().err


def test_a_page_is_new_only_if_no_crawl_had_it(tmp_path: Path) -> None:
    """The second crawl finds a link after its baseline, to a page that the first one has."""
    grown = dict(PAGES) | {
        "/": ["<title>Door</title>", "<title>Door</title><a href=/early>y</a>"],
        "/early": ["<title>Early</title>vole"],
    }
    first = crawl_on(tmp_path / "a", 0)
    second = crawl_on(tmp_path / "b", 0, grown)
    crawl_on(second, 1, grown, RefreshRunMode(once=True, hold_waiting=True))
    told = [(change.url, change.kind) for change in CrawlReader(second).changes()]
    assert (HOME + "/early", ChangeKind.NEW) in told
    together = [(change.url, change.kind) for change in fieldmouse.open([second, first]).changes()]
    assert (HOME + "/early", ChangeKind.NEW) not in together
    assert together == [change for change in told if change != (HOME + "/early", ChangeKind.NEW)]


def test_an_open_reader_follows_the_crawl_and_a_fixed_one_does_not(tmp_path: Path) -> None:
    first, second = crawl_on(tmp_path / "a", 0), tmp_path / "b"
    CrawlDir.create(second, shards=1, settings=(first / "fieldmouse.toml").read_bytes())
    rooms = MultiCrawlReader([first, second])
    before = [(page.url, page.title) for page in rooms.pages()]
    assert before == [(page.url, page.title) for page in CrawlReader(first).pages()], "the other has no checkpoint"
    assert [hit.url for hit in rooms.search("acorn")] == [HOME + "/other"]
    still = rooms.pinned()
    assert rooms.explain(HOME + "/other").crawls[str(second)].place == "unknown"
    assert list(rooms.changes()) == list(CrawlReader(first).changes())
    crawl_on(second, 1)
    assert rooms.search("acorn") == []
    assert {page.url: page.title for page in rooms.pages()}[HOME + "/other"] == "New"
    assert [(page.url, page.title) for page in still.pages()] == before
    assert [(page.url, page.title) for page in still.pages()] == before, "and again"
    poll_on(first, 2)
    assert {page.url: page.title for page in rooms.pages()}[HOME + "/other"] == "Third"
    assert [hit.directory for hit in rooms.search("pear")] == [first]
    assert rooms.search("walnut") == []


def test_invalid_lists_of_directories_raise_a_clear_error(days: list[Path], tmp_path: Path, capsys: Said) -> None:
    (tmp_path / "again").symlink_to(days[0])
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotACrawl):
        fieldmouse.open([days[0], tmp_path / "empty"])
    with pytest.raises(UsageError, match="is named twice"):
        fieldmouse.open([days[0], days[1], str(days[0])])
    with pytest.raises(UsageError, match=r"`.*day-0` and `.*again` are the same"):
        fieldmouse.open([days[0], tmp_path / "again"])
    with pytest.raises(UsageError, match="there is no crawl to read"):
        fieldmouse.open([])
    one = str(days[0])
    for other, code in ((one, 2), (str(tmp_path / "again"), 2), (str(tmp_path / "empty"), 1)):
        for words in (["search", one, "vole"], ["explain", one, HOME], ["export", one, "--to", "-"], ["changes", one]):
            assert main.run_command([*words, "--with", other]) == code
            said = capsys.readouterr()
            assert said.err.startswith("error: `"), said.err
            assert "hint: " in said.err
            assert "Traceback" not in said.err


def test_extracted_rows_are_those_of_the_newest_copies(tmp_path: Path) -> None:
    for day in range(2):
        settings = {"scope__mode": "page", "plugins__extract": "reader.harvesting:titles", **QUICK}
        fetcher, epoch = partial(ChangingWeb, PAGES, day=day), virtual_time.EPOCH + day * DAY
        bottled_crawl(tmp_path / f"day-{day}", fetcher, [HOME + "/other"], epoch=epoch, **settings)
    rooms = MultiCrawlReader(tmp_path / f"day-{day}" for day in range(2))
    (item,) = rooms.items()
    assert (item["title"], item["directory"]) == ("New", str(tmp_path / "day-1"))
    assert [item["title"] for item in rooms.items(all=True)] == ["Old", "New"]


# -- arbitrary logs

URLS = [Url(f"http://example.org/{number}") for number in range(5)]


def statement_of(row: OutcomeRow) -> bool | None:
    """Whether a row states that its URL is a page; None if it states nothing."""
    if row.kind is OutcomeKind.PAGE:
        return True
    told_gone = row.kind is OutcomeKind.FAILED and row.status in (404, 410)
    moved = row.kind is OutcomeKind.MOVED and row.news is ContentChange.MOVED
    excluded = row.kind is OutcomeKind.REFUSED and row.reason is OutcomeReason.ROBOTS_TXT_EXCLUDED
    return False if told_gone or (row.polled and (moved or excluded)) else None


def listed_unless_unchanged(row: OutcomeRow) -> OutcomeRow:
    """Only for an unchanged page can the headers have changed alone."""
    return msgspec.structs.replace(row, unlisted=row.unlisted and row.kind is OutcomeKind.UNCHANGED)


logs = st.lists(
    st.lists(
        st.builds(
            OutcomeRow,
            st.sampled_from(URLS),
            st.sampled_from([kind for kind in OutcomeKind if kind is not OutcomeKind.WITHDRAWN]),
            st.integers(1, 20).map(float),
            status=st.sampled_from([200, 404, 410, 500]),
            reason=st.sampled_from([OutcomeReason.NONE, OutcomeReason.ROBOTS_TXT_EXCLUDED]),
            polled=st.sampled_from(["", "page"]),
            news=st.sampled_from([ContentChange.NONE, ContentChange.MOVED]),
            digest=st.sampled_from(["a", "b"]),
            indexed=st.just(True),
            unlisted=st.booleans(),
        ).map(listed_unless_unchanged),
        max_size=12,
    ).map(lambda rows: sorted(rows, key=lambda row: row.at)),
    min_size=1,
    max_size=4,
)


def newest_of(crawls: list[list[OutcomeRow]], url: Url) -> tuple[int, OutcomeRow] | None:
    """Which crawl's page counts, and as what: the rule in its plainest form."""
    last: tuple[int, int] | None = None  # the crawl, and the index in its log
    for number, rows in enumerate(crawls):
        for place, row in enumerate(rows):
            if row.url != url or statement_of(row) is None:
                continue
            if last is None or last[0] == number or row.at > crawls[last[0]][last[1]].at:
                last = number, place
    if last is None or not statement_of(crawls[last[0]][last[1]]):
        return None
    shown = crawls[last[0]][last[1]]
    listed = not any(
        row.unlisted and row.url == url and (row.at > shown.at if number != last[0] else place > last[1])
        for number, rows in enumerate(crawls)
        for place, row in enumerate(rows)
    )
    return last[0], msgspec.structs.replace(shown, indexed=listed)


@given(logs)
@settings(max_examples=40)
def test_several_crawls_read_as_one_log_of_all_their_rows(crawls: list[list[OutcomeRow]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        paths = [write_rows(Path(name) / str(number), rows) for number, rows in enumerate(crawls)]
        rooms = MultiCrawlReader(paths)
        expected = {url: told for url in URLS if (told := newest_of(crawls, url)) is not None}
        pages = list(rooms.pages())
        assert {page.url: (paths.index(page.directory), page.row) for page in pages} == expected
        assert len(pages) == len(expected)
        for url in URLS:
            page = rooms.page(url)
            assert (None if page is None else (paths.index(page.directory), page.row)) == expected.get(url)
        volumes = [room.snapshot() for room in rooms.rooms]
        precedence = CrawlPrecedence([read_latest_outcomes(volume.home, volume.length) for volume in volumes])
        for url, (number, row) in expected.items():
            foreign = any(
                told.unlisted and told.url == url and told.at > row.at
                for other, rows in enumerate(crawls)
                if other != number
                for told in rows
            )  # its own index already knows its own rows
            assert not foreign or not precedence.is_searchable(number, url)
            assert not row.indexed or precedence.is_searchable(number, url)
            assert not any(
                precedence.is_searchable(other, url)
                for other, rows in enumerate(crawls)
                if other != number and any(told.url == url and statement_of(told) is not None for told in rows)
            )
        assert sorted(rooms.rows(), key=repr) == sorted((row for rows in crawls for row in rows), key=repr)
