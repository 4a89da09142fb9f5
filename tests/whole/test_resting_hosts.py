"""Hosts and pages that fail in a refresh: the round continues without them, and its summary names them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from fieldmouse.clock import Clock
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.request import Request
from fieldmouse.types.stats import RefreshSummary, Summary
from fieldmouse.url import Host

from .changing import ChangingSite, Shown, Versions
from .virtual_time import bottled_crawl
from .virtual_time import outcomes as rows_of

ONCE = RefreshRunMode(once=True, hold_waiting=True, refresh_only=True)
HOUR = 3600.0
WELL, ILL = "http://well.example", "http://ill.example"
BUSY = Shown(status=503)
ASKS_FOR_AN_HOUR = Shown(status=503, headers=(("retry-after", "3600"),))


class TwoSites:
    """`Fetcher` of two hosts."""

    def __init__(self, clock: Clock, sites: dict[str, Versions]):
        self._sites = {host: ChangingSite(clock, site) for host, site in sites.items()}

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        return await self._sites[host].fetch(link, host, address, body_limit=body_limit)

    async def close(self) -> None:
        pass


def sites(pages: int = 12) -> dict[str, Versions]:
    every = {f"/{n}": Shown(f"old{n}") for n in range(1, pages)}
    return {host: Versions({"/": Shown("home", links=tuple(every)), **every}) for host in (WELL, ILL)}


def visit(
    path: Path, web: dict[str, Versions], at: float, order: RefreshRunMode | None = None, **changes: object
) -> Summary:
    wanted: dict[str, object] = {
        "storage__checkpoint": "5s",
        "politeness__delay": "1s",
        "network__allow_private": True,
        "network__resolve": ["well.example=127.0.0.1", "ill.example=127.0.0.2"],
        "refresh__policy": "uniform",
    }
    for site in web.values():
        site.asked.clear()
    summary, _ = bottled_crawl(
        path,
        lambda clock: TwoSites(clock, web),
        [f"{host}/" for host in web],
        epoch=virtual_time.EPOCH + at,
        order=order,
        **(wanted | changes),
    )
    for site in web.values():  # one request a second, whatever happens
        times = [t for t, _, _ in site.asked]
        assert all(later - sooner >= 1.0 - 1e-6 for sooner, later in itertools.pairwise(times))
    assert summary.lost == 0
    for finding in check_crawl(CrawlDir.open(path), deep=True):
        assert finding.healthy, finding.says
    return summary


def refreshed(path: Path, web: dict[str, Versions], at: float, **changes: object) -> tuple[Summary, RefreshSummary]:
    """One round; all polls are in its summary."""
    summary = visit(path, web, at, ONCE, **changes)
    told = summary.refreshed
    assert told is not None
    assert told.polls == told.changed + told.gone + told.unchanged + told.failed + told.refused
    assert told.failed + told.refused == sum(told.reasons.values())
    return summary, told


def asked(site: Versions) -> list[str]:
    return sorted(path for _, path, _ in site.asked if path != "/robots.txt")


def test_one_busy_page_delays_a_round_by_seconds(tmp_path: Path) -> None:
    path, web = tmp_path / "c", sites()
    visit(path, web, 0.0)
    calm, _ = refreshed(path, web, HOUR)
    web[ILL].pages["/5"] = BUSY
    for at in (2 * HOUR, 2 * HOUR + calm.seconds + 30.0):
        summary, told = refreshed(path, web, at)
        assert (summary.exit, told.polls, told.unchanged, told.failed) == (0, 24, 23, 1)
        assert told.postponed == 0
        assert summary.seconds < calm.seconds + 20.0
        assert web[ILL].times("/5") <= 3


def test_failed_pages_are_in_the_summary(tmp_path: Path) -> None:
    path, web = tmp_path / "c", sites()
    visit(path, web, 0.0)
    for number in range(1, 6):
        web[ILL].pages[f"/{number}"] = Shown(status=500)
    web[WELL].pages["/1"] = Shown("other")
    web[WELL].pages["/2"] = Shown(status=410)
    web[WELL].pages["/3"] = Shown(status=302, location="/4")
    web[WELL].robots_txt = "User-agent: *\nDisallow: /7\n"
    _, told = refreshed(path, web, HOUR)
    assert (told.polls, told.changed, told.gone, told.unchanged) == (24, 1, 1, 16)
    assert (told.failed, told.refused) == (5, 1)
    assert told.reasons == {"server error status": 5, "excluded by robots.txt": 1}
    assert "5 failed" in str(told)


def test_a_host_that_asks_for_an_hour_does_not_delay_the_round(tmp_path: Path) -> None:
    path, web = tmp_path / "c", sites()
    visit(path, web, 0.0)
    calm, _ = refreshed(path, web, HOUR)
    web[ILL].pages = dict.fromkeys(web[ILL].pages, ASKS_FOR_AN_HOUR)
    summary, told = refreshed(path, web, 2 * HOUR)
    assert summary.exit == 0
    assert summary.seconds < calm.seconds + 20.0
    assert len(asked(web[ILL])) == 1
    assert asked(web[WELL]) == sorted(web[WELL].pages)
    assert (told.polls, told.postponed) == (12, 12)
    (rest,) = told.resting
    assert rest.host == ILL
    assert virtual_time.EPOCH + 3 * HOUR <= rest.until < virtual_time.EPOCH + 3 * HOUR + summary.seconds
    assert "12 pages are postponed" in str(told)
    soon, told = refreshed(path, web, 2 * HOUR + 300.0)  # it rests still
    assert (told.polls, told.postponed, asked(web[ILL])) == (12, 12, [])
    assert soon.seconds < calm.seconds + 20.0
    web[ILL] = sites()[ILL]
    summary, told = refreshed(path, web, 4 * HOUR)
    assert (told.polls, told.unchanged, told.postponed) == (24, 24, 0)
    assert asked(web[ILL]) == asked(web[WELL]) == sorted(web[WELL].pages)


def test_postponed_pages_come_first_in_the_next_round(tmp_path: Path) -> None:
    path, web = tmp_path / "c", sites(60)
    del web[WELL]
    visit(path, web, 0.0)
    web[ILL].pages["/9"] = ASKS_FOR_AN_HOUR
    _, told = refreshed(path, web, HOUR)
    first = set(asked(web[ILL])) - {"/9"}
    assert told.polls == len(first)
    assert told.postponed == 60 - len(first)
    web[ILL].pages["/9"] = Shown("old9")
    refreshed(path, web, 3 * HOUR)
    order = [name for _, name, _ in web[ILL].asked if name != "/robots.txt"]
    assert sorted(order) == sorted(web[ILL].pages)
    assert set(order[: told.postponed]) == set(web[ILL].pages) - first


def test_a_round_waits_for_ordinary_delays_however_long(tmp_path: Path) -> None:
    path, web = tmp_path / "c", sites(4)
    visit(path, web, 0.0)
    web[ILL].robots_txt = "User-agent: *\nCrawl-delay: 120\n"
    summary, told = refreshed(path, web, HOUR)
    assert (told.polls, told.postponed) == (8, 0)
    assert summary.seconds > 360.0


@pytest.mark.parametrize("budget", ["1/s", "360/h"])
def test_a_round_with_a_budget_polls_other_hosts_while_one_rests(tmp_path: Path, budget: str) -> None:
    path, web = tmp_path / "c", sites()
    visit(path, web, 0.0)
    web[ILL].pages = dict.fromkeys(web[ILL].pages, ASKS_FOR_AN_HOUR)
    _, told = refreshed(path, web, HOUR, refresh__budget=budget)
    assert asked(web[WELL]) == sorted(web[WELL].pages)
    assert (told.unchanged, told.postponed) == (12, 12)


def test_a_new_busy_url_waits_for_a_later_round(tmp_path: Path) -> None:
    path, web = tmp_path / "c", sites()
    visit(path, web, 0.0)
    web[ILL].pages["/"] = Shown("home", links=(*web[ILL].pages["/"].links, "/new"))
    web[ILL].pages["/new"] = ASKS_FOR_AN_HOUR
    summary, told = refreshed(path, web, HOUR)
    assert (summary.exit, summary.waiting) == (0, 1)
    assert told.polls + told.postponed == 24
    web[ILL].pages["/new"] = Shown("new")
    summary, told = refreshed(path, web, 3 * HOUR)
    assert (summary.waiting, told.postponed) == (0, 0)
    assert f"{ILL}/new" in {row.url for row in rows_of(path) if row.kind == "page"}


def test_a_host_that_refuses_every_connection_ends_the_round_too(tmp_path: Path) -> None:
    path, web = tmp_path / "c", sites(30)
    visit(path, web, 0.0)
    calm, _ = refreshed(path, web, HOUR)
    web[ILL].pages = {name: Shown(silent=True) for name in web[ILL].pages}
    summary, told = refreshed(path, web, 2 * HOUR)
    assert told.polls + told.postponed == 60
    assert asked(web[WELL]) == sorted(web[WELL].pages)
    assert summary.seconds < calm.seconds + 60.0
