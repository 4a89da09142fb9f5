"""Hosts of a crawl as the source of an urn game."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fieldmouse.errors import FieldmouseError
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.url import host_of
from fieldmouse_lab.urn.game import Game
from fieldmouse_lab.urn.play import play
from fieldmouse_lab.urn.sources import empirical_source, host_url_counts
from fieldmouse_lab.urn.strategies import strategy

from .virtual_time import bottled_crawl, outcomes


def test_stored_and_waiting_urls_of_each_host_are_counted(tmp_path: Path) -> None:
    meadow = Meadow(MeadowOptions(hosts=12, pages=150, seed=3, page_kb=2.0, gamma=1.0, latency=0.0))
    half, whole = tmp_path / "half", tmp_path / "whole"
    for path, pages in ((half, 40), (whole, 0)):
        bottled_crawl(
            path,
            lambda clock: MeadowFetcher(meadow, clock),
            meadow.seeds,
            crawl__pages=pages,
            network__allow_private=True,
            politeness__delay="1s",
        )
    stored = Counter(host_of(row.url) for row in outcomes(whole) if row.kind == "page")
    assert host_url_counts(whole) == stored
    found = host_url_counts(half)
    crawled = Counter(host_of(row.url) for row in outcomes(half) if row.kind == "page")
    assert sum(found.values()) > crawled.total() >= 40
    assert all(found[host] >= number for host, number in crawled.items())
    source = empirical_source(list(host_url_counts(whole).values()))
    assert source.p.tolist() == sorted((n / stored.total() for n in stored.values()), reverse=True)
    assert play(Game(source, 5, 100, strategy("index")), 1).distinct_mean == 5.0


def test_a_crawl_without_hosts_raises_an_error(tmp_path: Path) -> None:
    CrawlDir.create(tmp_path / "c", shards=1, settings=b"")
    with pytest.raises(FieldmouseError, match="has no hosts yet"):
        host_url_counts(tmp_path / "c")
