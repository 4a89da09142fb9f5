"""A crawl is refreshed: pages are asked again, and search, export, archive and books are right after it."""

from __future__ import annotations

from pathlib import Path

from fieldmouse.crawldir import CrawlDir, read_checkpoint, sealed_outcomes
from fieldmouse.crawldir.outcomes import pages
from fieldmouse.indexer.search import documents
from fieldmouse.lab import bottle
from fieldmouse.reading.examination import examine
from fieldmouse.records import News, OutcomeRow
from fieldmouse.settings.order import Order
from fieldmouse.summary import Summary

from .bottled import bottled_crawl
from .bottled import outcomes as rows_of
from .changing import HOST, ChangingSite, Shown, Versions

ONCE = Order(once=True, hold=True, only=True)
DAY = 86_400.0


def site(number: int = 12) -> Versions:
    every = {f"/{n}": Shown(f"old{n}") for n in range(1, number)}
    return Versions({"/": Shown("home", links=tuple(every)), **every})


def crawl(
    path: Path, now: Versions, day: float = 0.0, order: Order | None = None, **changes: object
) -> Summary:
    wanted: dict[str, object] = {
        "storage__checkpoint": "5s", "politeness__delay": "1s", "network__allow_private": True,
        "network__resolve": ["example.org=127.0.0.1"], "refresh__policy": "uniform",
    }  # fmt: skip
    summary, _ = bottled_crawl(
        path, lambda clock: ChangingSite(clock, now), [f"{HOST}/"], epoch=bottle.EPOCH + day * DAY,
        order=order, **(wanted | changes),
    )  # fmt: skip
    return summary


def found(path: Path) -> list[str]:
    return sorted(url.removeprefix(HOST) for url in documents(path))


def exported(path: Path) -> dict[str, OutcomeRow]:
    home = CrawlDir.open(path)
    last = read_checkpoint(home)
    assert last is not None
    return {row.url.removeprefix(HOST): row for row in pages(home, length=sealed_outcomes(last))}


def newest(path: Path, at: str) -> OutcomeRow:
    return [row for row in rows_of(path) if row.url == HOST + at][-1]


def check_health(path: Path) -> None:
    for finding in examine(CrawlDir.open(path), deep=True):
        assert finding.healthy, finding.says


def test_a_round_asks_every_page_once_and_fetches_what_is_new(tmp_path: Path) -> None:
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
    assert newest(path, "/3").news is News.CHANGED
    assert newest(path, "/4").news is News.SAME
    check_health(path)
