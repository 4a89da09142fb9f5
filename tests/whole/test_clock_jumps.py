"""Clock set back or forward between two runs: waits keep their true length."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.formatting import format_duration
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.reader.explain import describe_next_poll, next_poll
from fieldmouse.storage.changes_from_outcomes import ChangeKind
from fieldmouse.storage.checkpoint import read_checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.stats import Summary

from .changing import HOST, ChangingSite, Shown, Versions
from .virtual_time import bottled_crawl, bottled_kill, outcomes

HOUR = 3600.0
# Every host answers the first request for a page with 429 and ten minutes to wait; some pages fail once.
OPTIONS = MeadowOptions(
    hosts=3, pages=40, seed=3, page_kb=1.0, links=15, busy=1.0, busy_seconds=600, server_error=0.2, stalling=0.5
)


@pytest.mark.parametrize("jump", [-5 * HOUR, -300.0, 5 * HOUR])
@pytest.mark.parametrize("kills", [(100.0,), (100.0, 30.0)])
def test_waits_keep_their_length_after_a_clock_jump(tmp_path: Path, jump: float, kills: tuple[float, ...]) -> None:
    meadow = Meadow(OPTIONS)
    now, real = virtual_time.EPOCH, 0.0  # the time on the clock, and the time that has really passed
    visits: list[tuple[float, str, str]] = []
    for after in (*kills, None):
        run = {"epoch": now, "politeness__delay": "2s", "network__allow_private": True}
        if after is not None:
            summary, web = bottled_kill(
                tmp_path / "c",
                lambda clock: MeadowFetcher(meadow, clock),
                meadow.seeds,
                after=after,
                storage__checkpoint="20s",
                **run,
            )
            assert summary is None
            lasted = after
        else:
            summary, web = bottled_crawl(
                tmp_path / "c", lambda clock: MeadowFetcher(meadow, clock), meadow.seeds, **run
            )
            assert summary is not None
            lasted = summary.seconds
        visits += [(a.t - now + real, a.host, a.path) for a in web.arrivals]
        now, real = now + lasted + jump, real + lasted
    assert summary.lost == summary.waiting == 0
    assert lasted < 2 * HOUR
    for host in {host for _, host, _ in visits}:
        times = [t for t, name, _ in visits if name == host]
        assert min(later - sooner for sooner, later in itertools.pairwise(times)) >= 2.0 - 1e-6
        if jump <= 0:  # forward, the clock may say that the time is over
            asked = [t for t, name, path in visits if name == host and path != "/robots.txt"]
            assert asked[1] - asked[0] >= 600.0 - 1e-6
    stored = {row.url for row in outcomes(tmp_path / "c") if row.kind == "page"}
    assert stored == {fact.url for fact in meadow.true_urls() if fact.allowed and fact.status == 200}


# -- known pages, whose times are in the page table and the checkpoint

AHEAD = 2 * HOUR
ONCE = RefreshRunMode(once=True, hold_waiting=True, refresh_only=True)


def site(number: int = 12) -> Versions:
    every = {f"/{n}": Shown(f"old{n}") for n in range(1, number)}
    return Versions({"/": Shown("home", links=tuple(every)), **every})


def visit(
    path: Path,
    now: Versions,
    at: float,
    order: RefreshRunMode | None = None,
    *,
    after: float | None = None,
    **changes: object,
) -> Summary | None:
    """Crawl or refresh with the clock at `at`; with `after` it is killed that number of seconds later."""
    wanted: dict[str, object] = {
        "storage__checkpoint": "5s",
        "politeness__delay": "1s",
        "network__allow_private": True,
        "network__resolve": ["example.org=127.0.0.1"],
        "refresh__policy": "uniform",
    }
    run: dict[str, Any] = {"epoch": virtual_time.EPOCH + at, "order": order, **wanted, **changes}
    now.asked.clear()
    if after is not None:
        return bottled_kill(path, lambda clock: ChangingSite(clock, now), [f"{HOST}/"], after=after, **run)[0]
    return bottled_crawl(path, lambda clock: ChangingSite(clock, now), [f"{HOST}/"], **run)[0]


def polled(now: Versions) -> list[str]:
    return sorted(path for _, path, _ in now.asked if path != "/robots.txt")


def test_a_round_polls_every_page_after_the_clock_was_ahead(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    visit(path, now, AHEAD)
    for at in (0.0, 600.0, AHEAD + 600.0, 1200.0):  # ahead once more, between two rounds
        summary = visit(path, now, at, ONCE)
        assert summary is not None
        assert summary.refreshed is not None
        assert (summary.refreshed.polls, summary.refreshed.unchanged) == (12, 12)
        assert polled(now) == sorted(now.pages)


def test_a_budget_is_spent_after_the_clock_was_ahead(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    visit(path, now, AHEAD)
    visit(path, now, AHEAD + 60.0, ONCE)
    for_a_minute = RefreshRunMode(hold_waiting=True, refresh_only=True)
    summary = visit(path, now, 0.0, for_a_minute, refresh__budget="1/s", crawl__time="60s")
    assert summary is not None
    assert summary.refreshed is not None
    assert 40 <= summary.refreshed.polls <= 65
    assert set(polled(now)) == set(now.pages)


@pytest.mark.parametrize("began_ahead", [True, False])
def test_a_round_polls_each_page_once_after_the_clock_was_set_back(tmp_path: Path, began_ahead: bool) -> None:
    path, now = tmp_path / "c", site(40)
    visit(path, now, AHEAD - 600.0 if began_ahead else 0.0)
    # Checkpoints come every five seconds: polls before the last of them count.
    assert visit(path, now, AHEAD, ONCE, after=21.0) is None
    before = polled(now)
    assert 10 < len(before) < 30
    assert visit(path, now, 900.0, ONCE, after=16.0) is None
    between = polled(now)
    summary = visit(path, now, 1000.0, ONCE)
    assert summary is not None
    repeated = len(before) + len(between) + len(polled(now)) - 40
    assert {*before, *between, *polled(now)} == set(now.pages)
    assert repeated <= 12  # at most the polls since the last checkpoint before either kill
    assert visit(path, now, 2000.0, ONCE) is not None
    assert polled(now) == sorted(now.pages)


def test_held_urls_stay_and_new_ones_are_fetched_after_the_clock_was_ahead(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site(30)
    visit(path, now, AHEAD, crawl__pages=10)
    for at in (0.0, 300.0):
        now.pages["/"] = Shown(f"home {at}", links=(*now.pages["/"].links, f"/new{at}"))
        now.pages[f"/new{at}"] = Shown("new")
        summary = visit(path, now, at, ONCE)
        assert summary is not None
        assert (summary.waiting, summary.lost) == (20, 0)
        assert f"/new{at}" in polled(now)


def test_only_pages_found_after_the_clock_correction_are_new(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    visit(path, now, AHEAD)
    visit(path, now, AHEAD + 60.0, ONCE)  # here the baseline is set, two hours ahead
    now.pages["/"] = Shown("home again", links=(*now.pages["/"].links, "/early"))
    now.pages["/early"] = Shown("found while the clock was ahead")
    visit(path, now, AHEAD + 120.0, ONCE)
    now.pages["/"] = Shown("home once more", links=(*now.pages["/"].links, "/late"))
    now.pages["/late"] = Shown("found after it was set right")
    visit(path, now, 0.0, ONCE)
    new = [c.url.removeprefix(HOST) for c in CrawlReader(path).changes() if c.kind is ChangeKind.NEW]
    assert sorted(new) == ["/early", "/late"]


def test_explain_never_shows_a_poll_later_than_its_interval(tmp_path: Path) -> None:
    path, now = tmp_path / "c", site()
    visit(path, now, AHEAD)
    visit(path, now, AHEAD + 60.0, ONCE, refresh__budget="1/s")
    due = next_poll(CrawlDir.open(path), f"{HOST}/1", read_checkpoint(CrawlDir.open(path)))
    assert due is not None
    assert due.every is not None
    assert f"next in {format_duration(due.every)}" in describe_next_poll(due, virtual_time.EPOCH)
