"""Sitemaps and feeds tell about many pages, and are believed as far as they proved right."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.policy.polling import registry
from fieldmouse.refresh.apply_outcomes import PageFlag
from fieldmouse.refresh.scheduler import PollScheduler
from fieldmouse.refresh.sitemap_hints import freshness_weights, parse_lastmod
from fieldmouse.types.outcome import ContentChange, OutcomeRow, Response
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import Url

from .chronicle import Chronicle, page, url

MAP = Url("http://h0.example/sitemap.xml")


def sitemap(entries: Iterable[tuple[str, float]]) -> bytes:
    said = (
        f"<url><loc>{name}</loc><lastmod>{datetime.fromtimestamp(at, UTC).isoformat()}</lastmod></url>"
        for name, at in entries
    )
    return f"<urlset>{''.join(said)}</urlset>".encode()


class Site:
    """A host of pages with a sitemap, whose words the test chooses."""

    def __init__(self, path: Path, pages: int = 200):
        self.chronicle = Chronicle(path, registry.create_policy("uniform"), "uniform")
        self.archive: dict[int, bytes] = {}
        first = OutcomeRow(MAP, OutcomeKind.PAGE, 1000.0, status=200, found_as="sitemap", digest="sha1:m")
        self.chronicle.settle([first, *(page(number, 1000.0) for number in range(pages))])
        self.reads = 0

    def read(self, warc: str, offset: int) -> Response:
        self.reads += 1
        return Response(200, b"", self.archive[offset], b"", "", 0.0, 0.0, 0.0)

    def scheduler(self, **options: object) -> PollScheduler:
        ledger, policy = self.chronicle.ledger, self.chronicle.policy
        return PollScheduler(ledger, policy, 0.02, read_answer=self.read, **options)  # type: ignore[arg-type]

    def told(self, at: float, entries: Iterable[tuple[str, float]]) -> None:
        """The sitemap was polled, and says this now."""
        offset = len(self.archive) + 1
        self.archive[offset] = sitemap(entries)
        row = OutcomeRow(
            MAP,
            OutcomeKind.PAGE,
            at,
            status=200,
            found_as="sitemap",
            polled="page",
            news=ContentChange.CHANGED,
            warc="w",
            offset=offset,
            digest=f"sha1:{offset}",
        )
        self.chronicle.settle([row], durable=False)

    @property
    def hinted(self) -> set[str]:
        ledger = self.chronicle.ledger
        rows = np.flatnonzero(ledger.column("flags") & PageFlag.HINTED)
        return {row.url for _, row in ledger.current_outcomes(rows)}


def test_a_page_is_hinted_if_a_sitemap_lists_a_change_since_the_last_poll(tmp_path: Path) -> None:
    site = Site(tmp_path / "c")
    scheduler = site.scheduler()
    site.told(2000.0, [(url(1), 1500.0), (url(2), 999.0), (url(3), 9e9), ("http://h0.example/new", 1900.0)])
    scheduler.take_due(2000.0, 0)
    assert site.hinted == {url(1)}, "an older time, one to come and an unknown page say nothing"
    scheduler.take_due(2001.0, 0)
    assert site.reads == 1


def test_an_unread_sitemap_is_read_after_a_kill(tmp_path: Path) -> None:
    site = Site(tmp_path / "c")
    site.told(2000.0, [(url(7), 1500.0)])
    site.chronicle.checkpoint()
    site.chronicle.reopen()
    site.scheduler().take_due(2000.0, 0)
    assert site.hinted == {url(7)}
    site.chronicle.checkpoint()
    site.chronicle.reopen()
    site.scheduler().take_due(2000.0, 0)
    assert site.hinted == {url(7)}
    assert site.reads == 1


def test_a_sitemap_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path / "c")
    site.told(2000.0, [(url(7), 1500.0)])
    site.archive.clear()
    scheduler = site.scheduler()
    scheduler.take_due(2000.0, 0)
    assert site.hinted == set()
    assert not site.chronicle.ledger.column("flags").any() & PageFlag.UNREAD


def taught(site: Site, right: bool, hints: int) -> None:
    """So many hints, each proved right or wrong by a poll."""
    scheduler = site.scheduler()
    at = 2000.0
    for number in range(hints):
        at += 100.0
        site.told(at, [(url(number), at - 10.0)])
        scheduler.take_due(at, 0)
        assert site.hinted == {url(number)}
        known = {"polled": "page", "news": ContentChange.CHANGED if right else ContentChange.SAME}
        site.chronicle.settle([page(number, at + 50.0, **known)], durable=False)
        assert site.hinted == set(), "a look answers it"


def first_poll(site: Site, at: float) -> float:
    """When the hinted page 150 is polled, if all pages have just been looked at."""
    rows = (page(number, at, polled="page", news=ContentChange.SAME) for number in range(200))
    site.chronicle.settle(rows, durable=False)
    site.told(at + 1.0, [(url(150), at + 0.5)])
    scheduler = site.scheduler(host_open=10**6)
    for now in np.arange(at + 2.0, at + 40_000.0, 20.0).tolist():
        if url(150) in {link.url for link in scheduler.take_due(now, 10)}:
            return now - at
    raise AssertionError


def test_hints_that_proved_right_are_believed_and_those_that_proved_wrong_are_not(tmp_path: Path) -> None:
    honest, liar = Site(tmp_path / "honest"), Site(tmp_path / "liar")
    taught(honest, True, 40)
    taught(liar, False, 40)
    trusted, distrusted = (float(site.chronicle.ledger.hint_trust_by_host()[0]) for site in (honest, liar))
    assert trusted > 0.9
    assert distrusted < 0.05
    soon, late = first_poll(honest, 10_000.0), first_poll(liar, 10_000.0)
    assert soon < 0.2 * late, (soon, late)
    assert late > 5000.0, "about once in its interval of ten thousand seconds"


def test_a_sitemap_of_many_pages_weighs_more_than_a_page(tmp_path: Path) -> None:
    site = Site(tmp_path / "c")
    known = freshness_weights(site.chronicle.ledger)
    assert known[1:].tolist() == [1.0] * 200
    assert 5.0 < known[0] < 10.0
    taught(site, False, 40)
    assert freshness_weights(site.chronicle.ledger)[0] < 3.0, "unless it tells lies"


def test_a_sitemap_may_be_read_in_a_thread(tmp_path: Path) -> None:
    site = Site(tmp_path / "c")
    site.told(2000.0, [(url(1), 1500.0)])
    with ThreadPoolExecutor(1) as pool:
        scheduler = site.scheduler(pool=pool)
        for _ in range(3):
            scheduler.take_due(2000.0, 0)
            pool.submit(int).result()
        scheduler.take_due(2000.0, 0)
    assert site.hinted == {url(1)}


DATES = r"\A\d{1,5}-\d\d?-\d\dT?[\d:]{0,8}(Z|[+-]\d\d:\d\d)?\Z"


@given(st.text(max_size=40) | st.from_regex(DATES))
def test_no_date_string_raises(text: str) -> None:
    told = parse_lastmod(text, 1e9)
    assert told is None or np.isfinite(told)


@pytest.mark.parametrize("written", ["2024-05-05", "2024-05-05T00:00:00Z", "Sun, 05 May 2024 00:00:00 GMT"])
def test_dates_of_sitemaps_and_of_feeds_mean_the_same(written: str) -> None:
    assert parse_lastmod(written, 1e9) == datetime(2024, 5, 5, tzinfo=UTC).timestamp()
