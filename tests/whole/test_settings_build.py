"""Every accepted setting can be crawled with: no value passes the reader and breaks a stage."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.api.crawl_preparation import check_settings
from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import Settings, keys_of, parse, render
from fieldmouse.crawler.builder import build_crawl
from fieldmouse.errors import SettingsError, UsageError
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.workers.inline_worker import InlineWorker

from .virtual_time import bottled_kill

HUGE = (1 << 63) - 1
TRIED: list[Any] = [0, 1, 2, HUGE, HUGE + 1, 10**30, -1, 0.0, 5e-324, 1e308, float("inf"), True, False]
TRIED += ["0s", "1e-300s", "900y", "52000w", "1e90w", "1e-30/w", "52000/ms", "none", "same", "never"]
TRIED += ["0B", "1B", "15MiB", "4000MiB", "4GiB", "8000TiB", "1e20TiB", "0B/s", "1e-300B/s", "1e90TiB/s"]
TRIED += ["", "a", "a/1", "x" * 100, "x" * 300, "/nowhere", "json:loads", "no.such:Name"]
TRIED += ["fixed", "thresholds", "auto", "page", "host", "site", "web", "wait", "lose"]
TRIED += ["index", "mice-and-elephants", "greedy", "neutral"]
TRIED += [[], [""], ["a"], ["*"], [HUGE], [0], [3, 1], [1], ["("], ["(?i)a", "(?P<x>b)", "(?P<x>c)"]]
TRIED += [["a{99999999999}"], ["(" * 5000], ["a=1.1.1.1"], ["a=999.1.1.1"], ["*=[::1]:1"], ["=1.1.1.1"]]
TRIED += [["a=1.1.1.1:"], ["1.1.1.1:53"], ["999.1.1.1"], ["[::1]:53"], ["example.org"], ["http://"]]
TRIED += [["http://a.test/"], ["http://[::1]:99999/"]]
TRIED += [{}, {"X_From": "a"}, {"X-From": "a"}, {"": "a"}, {"X": "\N{SNOWMAN}"}, {"X": "a\r\nHost: b"}, {"X": 1}]
"""Values a user might write, by kind: the least, the largest, the odd."""

ABOUT_THE_WIRE = ("crawl.", "robots.", "limits.", "network.")
SMALL = Meadow(MeadowOptions(hosts=1, pages=2, seed=1, page_kb=1, links=2))
GIVEN: dict[str, object] = {"crawl.seeds": SMALL.seeds, "network.allow_private": True, "index.shards": 1}
GIVEN |= {"storage.min_free": "0B", "storage.checkpoint": "10m", "control.robots": [8, 2], "control.limits": [5]}


def accepted(name: str) -> Iterator[tuple[object, Settings]]:
    """The least and the largest value that the reader accepts for a setting, and the result.

    `FIELDMOUSE_EXPLORE=1` tries all accepted values.
    """
    section, _, key = name.partition(".")
    met: dict[str, tuple[object, Settings]] = {}
    for value in TRIED:
        try:
            asked = Settings().override({**GIVEN, name: value})
        except SettingsError:
            continue
        meaning = repr(getattr(getattr(asked, section), key))
        met.setdefault(meaning, (value, asked))
    ordered = sorted(met, key=lambda meaning: (len(meaning), meaning))
    for meaning in ordered if os.environ.get("FIELDMOUSE_EXPLORE") else {*ordered[:1], *ordered[-1:]}:
        yield met[meaning]


@pytest.mark.parametrize(
    "name",
    [f"{section}.{key}" for section, table in settings_file.sections_of(Settings).items() for key in keys_of(table)],
)
def test_every_accepted_setting_can_be_crawled_with(name: str, tmp_path: Path) -> None:
    for number, (value, asked) in enumerate(accepted(name)):
        assert parse(render(asked)) == asked, value
        try:
            check_settings(asked, tmp_path)
        except UsageError:
            continue  # said before anything is made
        home = tmp_path / str(number)
        changes = {one.replace(".", "__"): it for one, it in {**GIVEN, name: value}.items()}
        if name.startswith(ABOUT_THE_WIRE):
            open_with_wire(CrawlDir.create(home, shards=1, settings=render(asked).encode()), asked)
        bottled_kill(home, lambda clock: MeadowFetcher(SMALL, clock), SMALL.seeds, after=1.0, **changes)


def open_with_wire(home: CrawlDir, asked: Settings) -> None:
    """Open every stage for a real network, and put all of it away."""

    async def opened() -> None:
        crew = build_crawl(home, asked, lambda reading: None, lane=InlineWorker)
        await crew.close()

    asyncio.run(opened())
