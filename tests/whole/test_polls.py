"""Polls of known pages while the page limit is reached: the totals of both stay right.

A meadow (a synthetic web) is crawled in virtual time up to a page limit, with URLs left. Then every page
is polled: some are unchanged, some have changed, some are gone, some fail.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from fieldmouse.api.crawl_preparation import plan_to_resume
from fieldmouse.clock import Clock
from fieldmouse.config.settings_file import Settings
from fieldmouse.crawler.builder import build_crawl
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.frontier.durable_parts import frontier_state_of
from fieldmouse.storage import outcome_log_reader
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_counters, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.outcome import Failed, OutcomeRow, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.types.stats import Summary
from fieldmouse.url import Host, Url
from fieldmouse.workers.inline_worker import InlineWorker

from .virtual_time import CALM, bottled_crawl
from .virtual_time import outcomes as rows_of_crawl

LIMIT = 60
SAME, CHANGED, GONE, SILENT = range(4)


class Aged(MeadowFetcher):
    """The same meadow a day later."""

    fate: dict[str, int]

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        answer = await super().fetch(link, host, address, body_limit=body_limit)
        fate = self.fate.get(link.url, SAME)
        if isinstance(answer, Failed) or fate == SAME:
            return answer
        if fate == SILENT:
            return Failed(link, OutcomeReason.CLIENT_ERROR, answer.ended_at, "nobody there")
        if fate == GONE:
            head = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\r\n"
            return msgspec.structs.replace(answer, status=404, head=head, body=b"gone", headers=())
        headers = (("content-type", "text/html"),)
        body = b"<title>new</title><p>changed " + link.url.encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
        return msgspec.structs.replace(answer, status=200, head=head, body=body, headers=headers)


def polled(path: Path, meadow: Meadow, fate: dict[str, int], links: list[Request], limit: int) -> Summary:
    settings = Settings().override(
        {
            "crawl.seeds": list(meadow.seeds),
            "crawl.pages": limit,
            "politeness.delay": "1s",
            "network.allow_private": True,
            **CALM,
        }
    )

    async def life(clock: Clock) -> Summary:
        web = Aged(meadow, clock)
        web.fate = fate
        home = CrawlDir.open(path)
        crew = build_crawl(home, settings, clock=clock, fetcher=web, lane=InlineWorker)
        try:
            crew.crawler._frontier.enqueue_polls(links)
            return await asyncio.wait_for(crew.crawler.crawl([]), 1e6)
        finally:
            await crew.close()

    return virtual_time.run_in_virtual_time(life, epoch=virtual_time.EPOCH + 86_400.0)


def known(row: OutcomeRow) -> Request:
    return Request(row.url, row.depth, row.via, RequestKind(row.found_as), row.seen_at, was=row.kind, digest=row.digest)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Meadow, Path, Summary]:
    meadow = Meadow(MeadowOptions(hosts=6, pages=200, seed=4, page_kb=1.0, links=12, not_found=0.1, changing=0.0))
    path = tmp_path_factory.mktemp("polls") / "c"
    summary, _ = bottled_crawl(
        path,
        lambda clock: MeadowFetcher(meadow, clock),
        meadow.seeds,
        crawl__pages=LIMIT,
        politeness__delay="1s",
        network__allow_private=True,
    )
    assert summary.pages == LIMIT
    assert summary.waiting > 20
    return meadow, path, summary


def test_polls_are_counted_separately_and_ignore_the_page_limit(first: tuple[Meadow, Path, Summary]) -> None:
    meadow, path, before = first
    pages = [row for row in rows_of_crawl(path) if row.kind == "page"]
    fate = {str(row.url): number % 4 for number, row in enumerate(pages)}
    after = polled(path, meadow, fate, [known(row) for row in pages], LIMIT)
    quarter = LIMIT // 4
    assert (after.polls, after.changed, after.gone) == (LIMIT, quarter, quarter)
    assert after.unchanged == quarter
    assert (after.pages, after.failed) == (before.pages - quarter, before.failed + quarter)
    assert (after.seen, after.waiting, after.lost) == (before.seen, before.waiting, 0), "nothing was discovered"
    home = CrawlDir.open(path)
    last = read_checkpoint(home)
    assert last is not None
    listed = {str(row.url) for row in outcome_log_reader.newest_page_rows(home, length=sealed_outcome_bytes(last))}
    assert listed == {url for url, what in fate.items() if what != GONE}
    assert sealed_counters(last).pages == len(listed)
    assert frontier_state_of(last).polls == 0
    findings = {finding.what: finding for finding in check_crawl(home)}
    for what in ("outcomes", "frontier", "accounts"):
        assert findings[what].healthy, findings[what].says
    assert plan_to_resume(path, {}, {}).lifted_limits == ("pages",), "what is gone leaves no room"
    check_rest_is_fetched(path, meadow, fate, after)


def check_rest_is_fetched(path: Path, meadow: Meadow, fate: dict[str, int], before: Summary) -> None:
    """Without the limit both continue: returned pages are pages again, the rest is discovered."""
    back = [Request(Url(url), was="failed") for url, what in fate.items() if what == GONE]
    after = polled(path, meadow, {}, back, 0)
    assert after.waiting == after.lost == 0
    assert after.polls == before.polls + len(back)
    assert after.changed == before.changed + len(back)
    assert after.pages > before.pages + len(back)
    home = CrawlDir.open(path)
    findings = {finding.what: finding for finding in check_crawl(home)}
    assert findings["accounts"].healthy, findings["accounts"].says
    assert findings["outcomes"].healthy, findings["outcomes"].says
