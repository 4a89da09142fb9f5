"""Refresh of a crawl: pages are polled, and search, export, archive and totals are right afterwards."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fieldmouse.cli.main import run_command
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.errors import UsageError
from fieldmouse.formatting import format_time
from fieldmouse.policy.retry import GIVEN_UP_REST
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.reader.status import CrawlState
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.outcome_log_reader import newest_page_rows
from fieldmouse.testing import virtual_time
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.stats import Summary
from search.searchable import searchable_urls

from .changing import HOST, ChangingSite, Shown, Versions
from .virtual_time import bottled_crawl
from .virtual_time import outcomes as rows_of

ONCE = RefreshRunMode(once=True, hold_waiting=True, refresh_only=True)
WITHIN_BUDGET = RefreshRunMode(once=False, hold_waiting=True, refresh_only=True)
DAY = 86_400.0


def site(number: int = 12) -> Versions:
    every = {f"/{n}": Shown(f"old{n}") for n in range(1, number)}
    return Versions({"/": Shown("home", links=tuple(every)), **every})


def crawl(
    path: Path, now: Versions, day: float = 0.0, order: RefreshRunMode | None = None, **changes: object
) -> Summary:
    wanted: dict[str, object] = {
        "storage__checkpoint": "5s",
        "politeness__delay": "1s",
        "network__allow_private": True,
        "network__resolve": ["example.org=127.0.0.1"],
        "refresh__policy": "uniform",
    }
    summary, _ = bottled_crawl(
        path,
        lambda clock: ChangingSite(clock, now),
        [f"{HOST}/"],
        epoch=virtual_time.EPOCH + day * DAY,
        order=order,
        **(wanted | changes),
    )
    return summary


def found(path: Path) -> list[str]:
    return sorted(url.removeprefix(HOST) for url in searchable_urls(path))


def exported(path: Path) -> dict[str, OutcomeRow]:
    home = CrawlDir.open(path)
    last = read_checkpoint(home)
    assert last is not None
    return {row.url.removeprefix(HOST): row for row in newest_page_rows(home, length=sealed_outcome_bytes(last))}


def newest(path: Path, at: str) -> OutcomeRow:
    return [row for row in rows_of(path) if row.url == HOST + at][-1]


def check_health(path: Path) -> None:
    for finding in check_crawl(CrawlDir.open(path), deep=True):
        assert finding.healthy, finding.says


def test_a_round_polls_every_page_once_and_fetches_new_urls(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    first = crawl(path, now)
    assert (first.pages, first.waiting, first.refreshed) == (12, 0, None)
    now.pages["/3"] = Shown("other", links=("/new",))
    now.pages["/new"] = Shown("newcomer", links=("/newer",))
    now.pages["/newer"] = Shown("later")
    now.asked.clear()
    after = crawl(path, now, 1, ONCE)
    assert after.exit == 0
    assert after.refreshed is not None
    assert (after.refreshed.polls, after.refreshed.changed, after.refreshed.unchanged) == (12, 1, 11)
    assert after.refreshed.new == 2
    assert (after.pages, after.waiting, after.lost) == (14, 0, 0)
    assert [now.times(at) for at in (*map("/{}".format, range(1, 12)), "/", "/new", "/newer")] == [1] * 14
    assert found(path) == sorted(now.pages)
    assert newest(path, "/3").news is ContentChange.CHANGED
    assert newest(path, "/4").news is ContentChange.SAME
    check_health(path)


def test_urls_waiting_before_a_refresh_stay_unless_requested(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site(30)
    stopped = crawl(path, now, crawl__pages=10)
    assert (stopped.pages, stopped.waiting) == (10, 20)
    now.pages["/"] = Shown("home again", links=(*now.pages["/"].links, "/new"))
    now.pages["/new"] = Shown("new")
    after = crawl(path, now, 1, ONCE)
    assert (after.exit, after.pages, after.waiting, after.lost) == (0, 11, 20, 0)
    assert "/new" in found(path)
    check_health(path)
    all_of_it = crawl(path, now, 2, RefreshRunMode(once=True, refresh_only=True))
    assert (all_of_it.exit, all_of_it.pages, all_of_it.waiting) == (0, 31, 0)
    assert found(path) == sorted(now.pages)
    check_health(path)


def test_gone_pages_leave_search_and_may_return(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    crawl(path, now)
    kept = {at: now.pages[at] for at in ("/1", "/2")}
    now.pages["/1"], now.pages["/2"] = Shown(status=404), Shown(status=410)
    after = crawl(path, now, 1, ONCE)
    assert after.refreshed is not None
    assert after.refreshed.gone == 2
    assert (after.pages, after.failed, after.pages_per_second) == (10, 2, 0.0)
    assert found(path) == sorted(exported(path)) == sorted(set(now.pages) - {"/1", "/2"})
    assert newest(path, "/1").news is ContentChange.GONE
    check_health(path)
    still = crawl(path, now, 1.5, ONCE)
    assert still.refreshed is not None
    assert (still.refreshed.gone, still.refreshed.unchanged) == (0, 12)
    now.pages |= kept
    back = crawl(path, now, 2, ONCE)
    assert (back.pages, back.failed, back.reasons) == (12, 0, {})
    assert found(path) == sorted(exported(path)) == sorted(now.pages)
    check_health(path)


def test_network_failures_do_not_change_the_stored_copy(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    crawl(path, now)
    before = exported(path)
    now.pages["/1"], now.pages["/2"] = Shown(status=503), Shown(status=500)
    now.pages["/3"], now.pages["/4"] = Shown(silent=True), Shown(status=403)
    after = crawl(path, now, 1, ONCE)
    assert (after.pages, after.failed) == (12, 0)
    assert found(path) == sorted(before)
    for at in ("/1", "/2", "/3", "/4"):
        assert exported(path)[at] == before[at]
        assert (newest(path, at).kind, newest(path, at).news) == ("failed", ContentChange.NONE)
    check_health(path)
    now.pages["/2"] = site().pages["/2"]
    crawl(path, now, 2, ONCE)
    assert f"unchanged at {format_time(newest(path, '/2').at)}" in CrawlReader(path).explain(f"{HOST}/2").says


def test_newly_excluded_pages_leave_search_but_stay_in_the_archive(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    crawl(path, now)
    now.robots_txt = "User-agent: *\nDisallow: /1\n"
    now.asked.clear()
    after = crawl(path, now, 1, ONCE)
    excluded = {"/1", "/10", "/11"}
    assert (after.pages, after.refused, after.reasons) == (9, 3, {"excluded by robots.txt": 3})
    assert not sum(map(now.times, excluded))
    assert found(path) == sorted(exported(path)) == sorted(set(now.pages) - excluded)
    assert {row.url.removeprefix(HOST) for row in rows_of(path) if row.warc} == set(now.pages)
    check_health(path)
    now.robots_txt = ""
    back = crawl(path, now, 2, ONCE)
    assert (back.pages, back.refused, back.reasons) == (12, 0, {})
    assert found(path) == sorted(now.pages)
    says = CrawlReader(path).explain(f"{HOST}/10").says
    (excluded_at,) = (number for number, sentence in enumerate(says) if "excluded by robots.txt" in sentence)
    assert says[excluded_at + 1] == f"unchanged at {format_time(newest(path, '/10').at)}, and in search again"
    check_health(path)


def test_newly_allowed_pages_are_reported_unless_unchanged(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    now.pages["/"].links += ("/secret",)
    now.pages["/secret"] = Shown("at last")
    now.robots_txt = "User-agent: *\nDisallow: /secret\n"
    first = crawl(path, now)
    assert (first.pages, first.refused) == (12, 1)
    crawl(path, now, 1, ONCE)
    now.robots_txt = "User-agent: *\nDisallow: /\n"
    crawl(path, now, 2, ONCE)
    assert found(path) == []
    now.robots_txt, now.pages["/5"], now.pages["/6"] = "", Shown("changed meanwhile"), Shown(status=404)
    back = crawl(path, now, 3, ONCE)
    assert back.refreshed is not None
    assert (back.refreshed.changed, back.refreshed.unchanged, back.refreshed.gone) == (2, 10, 1)
    told = {change.url.removeprefix(HOST): change.kind.value for change in CrawlReader(path).changes()}
    assert told == {"/secret": "new", "/5": "new", "/6": "gone"}
    assert found(path) == sorted(set(now.pages) - {"/6"})
    check_health(path)


def test_a_page_that_turns_noindex_leaves_search(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    crawl(path, now)
    now.pages["/1"].headers = (("x-robots-tag", "noindex"),)  # with a 304
    now.pages["/2"].head = "<meta name=robots content=noindex>"
    after = crawl(path, now, 1, ONCE)
    assert [status for _, at, status in now.asked if at == "/1"] == [200, 304]
    assert after.pages == 12
    assert found(path) == sorted(set(now.pages) - {"/1", "/2"})
    assert [at for at, row in exported(path).items() if not row.indexed] == ["/1", "/2"]
    check_health(path)
    now.pages["/1"] = Shown("anew")
    crawl(path, now, 2, ONCE)
    assert found(path) == sorted(set(now.pages) - {"/2"})
    check_health(path)


def test_a_permanently_moved_page_leaves_search_once_its_target_is_stored(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    crawl(path, now)
    now.pages["/1"] = Shown(status=301, location="/2")  # known
    now.pages["/3"] = Shown(status=308, location="/there")  # comes later
    now.pages["/there"] = Shown("moved here")
    now.pages["/4"] = Shown(status=301, location="/nowhere")  # never comes
    now.pages["/5"] = Shown(status=301, location="/over")  # comes by another redirect
    now.pages["/over"] = Shown(status=301, location="/far")
    now.pages["/far"] = Shown("far away")
    after = crawl(path, now, 1, ONCE)
    moved = {"/1", "/3", "/5"}
    assert found(path) == sorted(exported(path)) == sorted(set(now.pages) - moved - {"/over"})
    assert {row.url.removeprefix(HOST) for row in rows_of(path) if row.news is ContentChange.MOVED} == moved
    assert newest(path, "/3").target == f"{HOST}/there"
    assert (after.moved, after.exit) == (4, 0)
    check_health(path)
    asked = now.times("/4")
    crawl(path, now, 2, ONCE)
    assert now.times("/4") == asked + 1
    assert "/4" in found(path)
    check_health(path)


def test_temporary_redirects_change_nothing(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    crawl(path, now)
    before = exported(path)
    for at, status in (("/1", 302), ("/2", 303), ("/3", 307)):
        now.pages[at] = Shown(status=status, location="/elsewhere")
    now.pages["/elsewhere"] = Shown("elsewhere")
    after = crawl(path, now, 1, ONCE)
    assert (after.pages, after.moved) == (13, 0)
    assert found(path) == sorted([*before, "/elsewhere"])
    assert {at: exported(path)[at] for at in ("/1", "/2", "/3")} == {at: before[at] for at in ("/1", "/2", "/3")}
    check_health(path)


def test_unchanged_pages_are_archived_as_revisits_or_not_at_all(tmp_path: Path) -> None:
    for revisits in (True, False):
        for validators in (True, False):
            path, now = tmp_path / f"c{revisits}{validators}", site()
            now.validators = validators
            crawl(path, now)
            size = archived(path)
            after = crawl(path, now, 1, ONCE, refresh__revisits=revisits)
            assert after.refreshed is not None
            assert after.refreshed.unchanged == 12
            robots_txt = 1
            assert archived(path) == size + (12 if revisits else 0) + robots_txt
            assert found(path) == sorted(now.pages)
            check_health(path)


def archived(path: Path) -> int:
    """Responses in the archive."""
    lines = [log.read_bytes().count(b"\n") for log in (path / "archive").glob("shard-*.cdxj")]
    return sum(lines)


def test_a_budget_holds_over_any_period_and_spreads_polls_evenly(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site(40)
    crawl(path, now)
    now.asked.clear()
    for run in range(3):  # with breaks between, which are not made up for
        crawl(
            path,
            now,
            1 + run,
            RefreshRunMode(hold_waiting=True, refresh_only=True),
            refresh__budget="360/h",
            crawl__time="20m",
            storage__checkpoint="1m",
        )
    times = [at for at, path_, _ in now.asked if path_ != "/robots.txt"]
    assert 0.9 * 3 * 120 <= len(times) <= 3 * 121
    for first, later in zip(times, times[7:], strict=False):
        assert later - first >= 6 * 10.0 - 1.0
    counts = sorted(now.times(at) for at in now.pages)
    assert counts[-1] - counts[0] <= 2
    check_health(path)


def test_polls_that_wait_from_a_refresh_without_a_budget_do_not_exceed_a_later_budget(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site(200)
    crawl(path, now)
    long = RefreshRunMode(hold_waiting=True, refresh_only=True)
    unlimited = crawl(path, now, 1, long, crawl__time="30s")
    assert unlimited.refreshed is not None
    assert 0 < unlimited.refreshed.polls < 100
    limited = crawl(path, now, 2, long, refresh__budget="60/h", crawl__time="30m")
    assert limited.refreshed is not None
    assert 25 <= limited.refreshed.polls <= 31
    check_health(path)
    round_after = crawl(path, now, 3, ONCE)
    assert round_after.refreshed is not None
    assert round_after.refreshed.polls == 200
    check_health(path)


def test_a_crawl_with_refresh_on_polls_while_it_discovers_and_ends_by_a_limit(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site(40)
    summary = crawl(path, now, refresh__on=True, refresh__budget="none", crawl__time="5m", storage__checkpoint="30s")
    assert (summary.exit, summary.stopped_by, summary.waiting, summary.pages) == (3, "time", 0, 40)
    assert summary.refreshed is not None
    assert summary.refreshed.polls > 100
    check_health(path)


def test_each_round_tries_hosts_that_were_given_up_again(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    crawl(path, now)
    now.down_until = math.inf
    failed = crawl(path, now, 1, ONCE)
    assert failed.refreshed is not None
    assert (failed.exit, failed.refreshed.polls, failed.refreshed.failed) == (1, 12, 12)
    assert host_status(path) != ""
    now.down_until = 0.0
    after = crawl(path, now, 2, ONCE)
    assert after.refreshed is not None
    assert (after.exit, after.refreshed.polls, after.refreshed.unchanged) == (0, 12, 12)
    assert host_status(path) == ""
    check_health(path)


def test_a_long_refresh_polls_a_host_that_was_given_up_again_after_an_hour(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    crawl(path, now)
    now.down_until = virtual_time.EPOCH + DAY + 6 * 3600.0
    long = RefreshRunMode(hold_waiting=True, refresh_only=True)
    after = crawl(path, now, 1, long, refresh__budget="360/h", crawl__time="12h", storage__checkpoint="1m")
    asked = sorted(at for at, _, _ in now.asked if at >= virtual_time.EPOCH + DAY)
    given_up = [later - first for first, later in itertools.pairwise(asked) if later - first > 1800.0]
    assert given_up, "it is asked rarely while it fails"
    assert all(gap >= GIVEN_UP_REST for gap in given_up)
    assert after.refreshed is not None
    assert after.refreshed.unchanged > 12
    assert host_status(path) == ""
    check_health(path)


def host_status(path: Path) -> str:
    found = CrawlReader(path).explain(f"{HOST}/1").host
    assert found is not None
    return found.verdict


class FirstPageOnly:
    """Polling policy of a user: the whole budget goes to one page."""

    width = 0

    def initial_state(self, pages: int) -> npt.NDArray[np.float32]:
        return np.empty((pages, 0), np.float32)

    def observe(self, state: Any, belief: Any, gap: Any, changed: Any) -> Any:
        return state

    def plan(self, state: Any, belief: Any, budget: float, **limits: Any) -> Any:
        return np.where(np.arange(len(belief)) == 0, budget, 0.0)


class Raising(FirstPageOnly):
    def plan(self, state: Any, belief: Any, budget: float, **limits: Any) -> Any:
        raise ZeroDivisionError("no pages")


def test_a_mistake_in_a_polling_policy_stops_the_refresh_in_order(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    crawl(path, now)
    with pytest.raises(UsageError, match="ZeroDivisionError"):
        crawl(path, now, 1.0, WITHIN_BUDGET, refresh__policy=f"{__name__}:Raising", refresh__budget="100/h")
    assert CrawlReader(path).status().standing is not CrawlState.KILLED
    check_health(path)


def test_freshness_shows_the_plan_of_a_policy_of_the_user_if_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, now = tmp_path / "c", site()
    crawl(path, now)
    crawl(path, now, 1.0, ONCE, refresh__budget="100/h")
    reader, name = CrawlReader(path), f"{__name__}:FirstPageOnly"
    planned = [page.every for page in reader.freshness(policy=name).top_pages]
    assert planned.count(None) == len(planned) - 1
    assert reader.freshness(policy=name).policy == name
    assert None not in [page.every for page in reader.freshness().top_pages]
    for options, says in (([], "policy of the last refresh: `uniform`"), (["--policy", name], f"planned by `{name}`")):
        assert run_command(["freshness", str(path), *options]) == 0
        assert says in capsys.readouterr().out


def test_polls_that_we_refuse_are_not_counted(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    crawl(path, now)
    refused = crawl(path, now, 1.0, ONCE, network__allow_private=False)
    assert refused.refreshed is not None
    assert refused.refreshed.refused == 12
    report = CrawlReader(path).freshness()
    assert (report.polls, report.expected) == (0, None)
    assert not any(line.startswith("polled") for line in CrawlReader(path).explain(f"{HOST}/1").says)
