"""Meadow (a synthetic web) with sitemaps, kept fresh: their dates are read, and prove to be right."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fieldmouse.clock import Clock
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.policy.change_rate import ClaimReliability
from fieldmouse.refresh.apply_outcomes import PageFlag
from fieldmouse.refresh.page_table import read_page_table
from fieldmouse.storage.checkpoint import read_checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions

from .virtual_time import bottled_crawl

HOUR = 3600.0


def test_a_sitemap_is_polled_as_a_hint_and_becomes_trusted(tmp_path: Path) -> None:
    path, options = (
        tmp_path / "c",
        MeadowOptions(
            hosts=1,
            pages=60,
            seed=5,
            page_kb=1.0,
            robots=1.0,
            sitemaps=1.0,
            changing=1.0,
            change_every=HOUR,
            rewriting=True,
            began=virtual_time.EPOCH,
            traps=0.0,
        ),
    )
    meadow = Meadow(options)
    asked = {"politeness__delay": "1s", "network__allow_private": True, "refresh__policy": "uniform"}

    def web(clock: Clock) -> MeadowFetcher:
        return MeadowFetcher(meadow, clock)

    bottled_crawl(path, web, meadow.seeds, **asked)
    bottled_crawl(
        path,
        web,
        meadow.seeds,
        epoch=virtual_time.EPOCH + HOUR,
        order=RefreshRunMode(hold_waiting=True, refresh_only=True),
        **asked,
        crawl__time="2h",
        refresh__budget="100/h",
        storage__checkpoint="10m",
    )
    home = CrawlDir.open(path)
    ledger = read_page_table(home, read_checkpoint(home))
    sitemaps = np.flatnonzero(ledger.column("flags") & PageFlag.SIGNAL)
    assert len(sitemaps)
    pages = np.flatnonzero(ledger.column("flags") & PageFlag.SIGNAL == 0)
    assert ledger.read_cells("polls", sitemaps).max() > 2 * ledger.read_cells("polls", pages).mean()
    assert ledger.hint_trust_by_host()[0] > 0.8 > 2 * ClaimReliability().probability_right()
    ledger.close()
