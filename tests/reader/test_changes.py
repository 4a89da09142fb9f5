"""Changes of a site: listing, withdrawn noise, and new noise rules applied to the past."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fieldmouse.cli import main
from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.reader.user_input import parse_time
from fieldmouse.storage.changes_from_outcomes import Change
from fieldmouse.testing import virtual_time

from .changing import DAY, GONE, HOME, SILENT, ChangingCrawl, Shown

DAYS = 6
STORY = "The harvest mouse builds its nest high in the grass and leaves it in the autumn. " * 3


def door(*links: str) -> str:
    return "<title>Door</title>" + "".join(f"<a href={link}>{link}</a> " for link in links)


def clocked(day: int) -> str:
    return f"<title>Clock</title><p>{STORY}</p><footer class=served>Served at 12:0{day}:30 by web{day}</footer>"


ALL = ("/same", "/changed", "/back-and-forth", "/clock", "/both", "/gone", "/moved", "/away", "/shaky", "/picture")
PAGES: dict[str, list[Shown]] = {
    "/": [door(*ALL), door(*ALL), door(*ALL, "/new")],
    "/same": [f"<title>Same</title><p>{STORY}"],
    "/changed": [f"<title>Old</title><p>{STORY}", f"<title>New</title><p>{STORY}<p>And it is rare now."],
    "/back-and-forth": [
        f"<title>A</title><p>{STORY}",
        f"<title>B</title><p>not {STORY}",
        f"<title>A</title><p>{STORY}",
    ],
    "/clock": [clocked(day) for day in range(DAYS)],
    "/both": [
        *(clocked(day) for day in range(4)),
        clocked(4).replace("nest", "round nest of woven leaves"),
        clocked(5).replace("nest", "round nest of woven leaves"),
    ],
    "/gone": [f"<title>Soon gone</title>{STORY}", GONE, GONE, f"<title>Soon gone</title>{STORY}"],
    "/moved": [f"<title>Here</title>{STORY}", (301, "/there")],
    "/there": [f"<title>There</title>{STORY} 2"],
    "/away": [f"<title>Away</title>{STORY}", (302, "/there"), f"<title>Away</title>{STORY}"],
    "/shaky": [f"<title>Shaky</title>{STORY}", SILENT, f"<title>Shaky</title>{STORY}"],
    "/picture": [b"\x89PNG one" * 50, b"\x89PNG two" * 50],
    "/new": [GONE, GONE, f"<title>New page</title>{STORY} 3"],
}


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> ChangingCrawl:
    crawl = ChangingCrawl(tmp_path_factory.mktemp("changing") / "c", PAGES)
    crawl.next_days(DAYS - 1)
    return crawl


def told(crawl: ChangingCrawl, path: str) -> list[tuple[str, int]]:
    """Kind and day of all listed changes of one page."""
    return [
        (change.kind.value, int((change.at - virtual_time.EPOCH) // DAY))
        for change in CrawlReader(crawl.path).changes()
        if change.url == HOME + path
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/same", []),
        ("/changed", [("changed", 1)]),
        ("/back-and-forth", [("changed", 1), ("changed", 2)]),
        ("/clock", []),
        ("/both", [("changed", 4)]),
        ("/gone", [("gone", 1), ("new", 3)]),
        ("/moved", [("moved", 1)]),
        ("/there", [("new", 1)]),
        ("/away", []),
        ("/shaky", []),
        ("/picture", [("changed", 1)]),
        ("/new", [("new", 2)]),
        ("/", [("changed", 2)]),
    ],
)
def test_changes_list_what_a_reader_would_notice(
    changed: ChangingCrawl, path: str, expected: list[tuple[str, int]]
) -> None:
    assert told(changed, path) == expected


def test_changes_are_ordered_have_unique_ids_and_gone_pages_keep_their_title(changed: ChangingCrawl) -> None:
    listed = list(CrawlReader(changed.path).changes())
    assert [change.at for change in listed] == sorted(change.at for change in listed)
    assert len({change.id for change in listed}) == len(listed)
    titles = {(change.kind.value, change.url): change.title for change in listed}
    assert titles["gone", HOME + "/gone"] == "Soon gone"
    assert titles["moved", HOME + "/moved"] == "Here"
    assert next(change.target for change in listed if change.kind == "moved") == HOME + "/there"


def test_changes_can_be_filtered_by_time_and_host(changed: ChangingCrawl) -> None:
    room = CrawlReader(changed.path)
    third = virtual_time.EPOCH + 3 * DAY
    late = [change for change in room.changes() if change.at >= third]
    assert late
    assert list(room.changes(since=third)) == late
    assert list(room.changes(since=datetime.fromtimestamp(third, UTC))) == late
    assert list(room.changes(since=timedelta(days=30_000))) == list(room.changes())
    assert list(room.changes(host="example.org")) == []
    assert list(room.changes(host="127.0.0.1")) == list(room.changes())


def test_versions_are_the_stored_pages_that_differ_from_the_one_before(changed: ChangingCrawl) -> None:
    room = CrawlReader(changed.path)
    assert [version.title for version in room.versions(HOME + "/back-and-forth")] == ["A", "B", "A"]
    assert [version.text for version in room.versions(HOME + "/changed")][1].endswith("And it is rare now.")
    assert len(room.versions(HOME + "/same")) == 1
    assert len(room.versions(HOME + "/clock")) == DAYS, "noise is stored, too"
    assert room.versions(HOME + "/never") == []


def test_difference_shows_removed_and_added_text_without_noise(changed: ChangingCrawl) -> None:
    room = CrawlReader(changed.path)
    seen = room.difference(HOME + "/both")
    assert seen.numbers == (4, 5)
    assert seen.hunks is not None
    assert [(len(hunk.old), len(hunk.new)) for hunk in seen.hunks] == [(1, 1)]
    assert "woven" in seen.hunks[0].new[0]
    assert 0 < seen.share < 0.3
    assert room.difference(HOME + "/clock").numbers == (DAYS - 1, DAYS), "what was withdrawn is no change"
    clock = room.difference(HOME + "/clock", -2, -1)
    assert clock.same
    assert room.difference(HOME + "/back-and-forth", 1, 3).same
    by_day = room.difference(HOME + "/both", "2001-01-01T00:00:00" if virtual_time.EPOCH < 978_307_200 else None, 5)
    assert by_day.numbers[1] == 5


def test_missing_versions_raise_a_clear_error(changed: ChangingCrawl) -> None:
    room = CrawlReader(changed.path)
    with pytest.raises(FieldmouseError, match="only one version"):
        room.difference(HOME + "/same")
    with pytest.raises(FieldmouseError, match=r"is stored, of .*; the page is moved, as seen at ") as moved:
        room.difference(HOME + "/moved")
    assert moved.value.hint == f"`fieldmouse explain {changed.path} {HOME}/moved` says more"
    with pytest.raises(FieldmouseError, match=r"is stored, of .*; the page is new, as seen at "):
        room.difference(HOME + "/new")
    with pytest.raises(FieldmouseError, match="no version of") as unknown:
        room.difference(HOME + "/never")
    assert unknown.value.hint == f"`fieldmouse explain {changed.path} {HOME}/never` says why"
    with pytest.raises(UsageError, match="there is no version 9"):
        room.difference(HOME + "/changed", new=9)
    with pytest.raises(UsageError, match="is no moment"):
        room.difference(HOME + "/changed", new="soon")
    with pytest.raises(UsageError, match="there was no version at"):
        room.difference(HOME + "/changed", old="1980-01-01")


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main.run_command(words)
    out, err = capsys.readouterr()
    return code, out, err


def test_changes_command_prints_machine_readable_output(
    changed: ChangingCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(["changes", str(changed.path), "--json"], capsys)
    listed = json.loads(out)
    assert (code, err) == (0, "")
    assert {(row["url"], row["kind"], row["at"]) for row in listed} == {
        (change.url, change.kind.value, change.at) for change in CrawlReader(changed.path).changes()
    }
    assert {row["kind"] for row in listed} == {"new", "changed", "gone", "moved"}
    code, out, _ = run(["changes", str(changed.path), "--kind", "gone", "--kind", "new", "--json"], capsys)
    assert json.loads(out) == [row for row in listed if row["kind"] in ("gone", "new")]
    code, out, _ = run(["changes", str(changed.path), "--limit", "1", "--json"], capsys)
    assert json.loads(out) == listed[-1:]


def test_changes_command_prints_human_readable_output(
    changed: ChangingCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(["changes", str(changed.path)], capsys)
    assert code == 0
    assert len(out.splitlines()) == len(list(CrawlReader(changed.path).changes()))
    assert f"{HOME}/moved -> {HOME}/there" in out
    assert "1 gone, 1 moved" in err
    code, out, err = run(["changes", str(changed.path), "--since", "2100-01-01"], capsys)
    assert (code, out) == (0, "")
    assert "no change is recorded" in err
    code, _, err = run(["changes", str(changed.path), "--since", "soon"], capsys)
    assert code == 2
    assert "is no moment" in err
    code, _, err = run(["changes", str(changed.path), "--from", "1"], capsys)
    assert code == 2


def test_difference_has_no_colours_when_the_output_is_not_a_terminal(
    changed: ChangingCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(["changes", str(changed.path), "--diff", HOME + "/both"], capsys)
    assert code == 0
    assert "{+round+} nest {+of woven leaves+}" in out
    assert "\x1b" not in out
    assert "Served" not in "".join(line for line in out.splitlines() if line[:1] in "-+~")
    code, out, _ = run(["changes", str(changed.path), "--diff", HOME + "/changed", "--json"], capsys)
    seen = json.loads(out)
    assert seen["hunks"][0] == {"old": ["Old"], "new": ["New"]}
    code, out, _ = run(["changes", str(changed.path), "--diff", HOME + "/picture"], capsys)
    assert "different bytes" in out
    code, out, _ = run(["changes", str(changed.path), "--versions", HOME + "/both"], capsys)
    assert len(out.splitlines()) == DAYS
    told_of_each = [line.split()[2] for line in out.splitlines()]
    assert told_of_each == ["first", "noise", "noise", "noise", "changed", "noise"], "as it is held by now"


def test_noise_rules_apply_to_past_changes(tmp_path: Path) -> None:
    pages: dict[str, list[Shown]] = {
        "/": [door("/shop", "/plain")],
        "/shop": [
            f"<p>{STORY}<div class=ad>buy one</div><p>price <b id=price>3</b> euro",
            f"<p>{STORY}<div class=ad>buy two or more of them today</div><p>price <b id=price>3</b> euro",
            f"<p>{STORY}<div class=ad>buy three or not</div><p>price <b id=price>4</b> euro",
        ],
        "/plain": [f"<p>{STORY}<p>one", f"<p>{STORY}<p>two"],
    }
    crawl = ChangingCrawl(tmp_path / "c", pages)
    crawl.next_days(2)
    assert told(crawl, "/shop") == [("changed", 1), ("changed", 2)]
    for rule in ("127.0.0.1 css .ad", "* xpath //div[@class='ad']", "* regex buy .*", HOME + "/shop css .ad"):
        crawl.set(noise__ignore=[rule])
        assert told(crawl, "/shop") == [("changed", 2)], rule
        assert told(crawl, "/plain") == [("changed", 1)]
        seen = CrawlReader(crawl.path).difference(HOME + "/shop", 1, 3)
        assert seen.hunks is not None
        assert [hunk.new for hunk in seen.hunks] == [["price 4 euro"]]
    crawl.set(noise__ignore=["* css #price"])
    assert told(crawl, "/shop") == [("changed", 1), ("changed", 2)]
    crawl.set(noise__ignore=[], noise__only=[HOME + "/shop css #price"])
    assert told(crawl, "/shop") == [("changed", 2)]
    crawl.set(noise__only=["example.org css #price"])
    assert told(crawl, "/shop") == [("changed", 1), ("changed", 2)]


def test_list_and_difference_agree_on_the_newest_change_after_noise_rules(tmp_path: Path) -> None:
    def shop(text: str, price: int) -> str:
        return f"<h1>Shop</h1><p>{text} is sold here and nowhere else.</p><p id=price>{price} coins</p>"

    days: list[Shown] = [shop("Cheese", 1), shop("Bread", 1), shop("Bread", 2), shop("Bread", 3)]
    crawl = ChangingCrawl(tmp_path / "c", {"/": ['<a href="/shop">s</a>'], "/shop": days})
    crawl.next_days(3)
    crawl.set(noise__ignore=["* css #price"])
    room = CrawlReader(crawl.path)
    (listed,) = [change for change in room.changes() if change.url == HOME + "/shop"]
    shown = room.difference(HOME + "/shop")
    assert shown.numbers == (1, 2)
    assert (shown.new.row.at, shown.share) == (listed.at, listed.difference)
    crawl.set(noise__ignore=["* css p"])
    assert not [change for change in CrawlReader(crawl.path).changes() if change.url == HOME + "/shop"]
    assert CrawlReader(crawl.path).difference(HOME + "/shop").same


def test_noise_rules_and_learning_switched_off_apply_to_fetched_pages(tmp_path: Path) -> None:
    pages: dict[str, list[Shown]] = {
        "/": [door("/clock", "/price")],
        "/clock": [clocked(day) for day in range(5)],
        "/price": [f"<p>{STORY}<p>price {day} euro" for day in range(5)],
    }
    crawl = ChangingCrawl(tmp_path / "c", pages, noise__ignore=["* css footer.served"], noise__learn=False)
    crawl.next_days(4)
    rows = list(CrawlReader(crawl.path).rows())
    assert {row.news.value for row in rows if row.url.endswith("/clock")} == {"", "noise"}
    assert told(crawl, "/price") == [("changed", day) for day in range(1, 5)]


def test_rules_are_proposed_for_places_that_differ_at_every_look(
    changed: ChangingCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    proposals = CrawlReader(changed.path).propose_noise_rules()
    assert proposals[0].rule == "127.0.0.1:8000 css footer.served"
    assert proposals[0].pages == 2
    assert "Served at" in proposals[0].sample
    _, out, _ = run(["changes", str(changed.path), "--propose-rules"], capsys)
    assert '"127.0.0.1:8000 css footer.served",' in out
    assert CrawlReader(changed.path).propose_noise_rules(host="example.org") == []


def test_a_proposed_rule_silences_its_place(tmp_path: Path) -> None:
    nameless = [f"<p>{STORY}</p><p>Page made in 0.{day}3 seconds by host{day}</p>" for day in range(6)]
    crawl = ChangingCrawl(tmp_path / "c", {"/": [door("/x")], "/x": list(nameless)})
    crawl.next_days(5)
    (proposal,) = CrawlReader(crawl.path).propose_noise_rules()
    assert " regex " in proposal.rule
    crawl.set(noise__ignore=[proposal.rule], noise__learn=False)
    assert CrawlReader(crawl.path).difference(HOME + "/x", 1, 6).same
    assert CrawlReader(crawl.path).propose_noise_rules() == []


def test_a_crawl_without_polls_lists_no_changes(small_crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(CrawlReader(small_crawl).changes()) == []
    code, out, err = run(["changes", str(small_crawl)], capsys)
    assert (code, out) == (0, "")
    assert "fieldmouse refresh" in err


def test_read_moment_parses_ages_days_and_times() -> None:
    now = 1_800_000_000.0
    assert parse_time("2h", now) == now - 7200
    assert parse_time("2026-11-16", now) == datetime(2026, 11, 16, tzinfo=UTC).timestamp()
    assert parse_time("2026-11-16T08:30+01:00", now) == datetime(2026, 11, 16, 7, 30, tzinfo=UTC).timestamp()
    for nonsense in ("", "yesterday", "2026-13-01", "1"):
        with pytest.raises(UsageError):
            parse_time(nonsense, now)


def test_a_change_has_all_fields_for_a_notification(changed: ChangingCrawl) -> None:
    for change in CrawlReader(changed.path).changes():
        assert isinstance(change, Change)
        assert change.id
        assert 0.0 < change.difference <= 1.0
