"""Plug-ins that bring their worker down cost the rows of their page, and no page."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

import msgspec
import pytest

from fieldmouse.indexer.deaths import PLUGINS, Deaths
from fieldmouse.indexer.items import items_of
from fieldmouse.named import search_path
from fieldmouse.plugins.names import PluginNames
from fieldmouse.records import Page
from indexer.answers import CONFIG, page, story
from indexer.test_indexer import Desk

PAGES = 8


def answer(number: int, deadly: set[int]) -> Page:
    where = "deadly" if number in deadly else "fine"
    return page(f"http://h.example.org/{where}/{number}", story(number))


def crawled(folder: Path, plugin: str, deadly: set[int], patience: float = 0.2) -> Desk:
    """All pages stored, whoever dies, by one worker."""
    names = PluginNames(extract=f"hostile_mice:{plugin}", patience=patience, path=search_path())
    desk = Desk(folder, msgspec.structs.replace(CONFIG, plugins=names), shards=1)

    async def life() -> None:
        indexer = desk.open()
        await indexer.start()
        await indexer.begin()
        missing = set(range(1, PAGES + 1))
        for _ in range(2 * PLUGINS + 2):
            for number in sorted(missing):
                await desk.send(number, answer(number, deadly))
            await desk.checkpoint()
            missing -= desk.settled.keys()
            if not missing:
                break
        await indexer.finish()
        await indexer.close()

    asyncio.run(life())
    return desk


@pytest.mark.parametrize("plugin", ["deaf", "compiled_loop", "dies", "crashes"])
def test_the_page_is_stored_without_its_rows_and_says_why(tmp_path: Path, plugin: str) -> None:
    desk = crawled(tmp_path, plugin, deadly={3})
    assert sorted(desk.settled) == list(range(1, PAGES + 1))
    for number, row in desk.settled.items():
        if number == 3:
            assert row.kind == "page"
            assert row.detail == f"`hostile_mice:{plugin}` was left out: plug-ins brought workers down"
        else:
            assert row.detail == ""
            assert [item["title"] for item in items_of(tmp_path / "archive", row)] == [row.title]


def test_one_that_brings_workers_down_again_and_again_is_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        desk = crawled(tmp_path, "dies", deadly=set(range(1, PAGES + 1)))
    assert sorted(desk.settled) == list(range(1, PAGES + 1)), "and the crawl goes on"
    assert all(row.kind == "page" and not row.items for row in desk.settled.values())
    assert "from now on shard 0 reads pages without plug-ins" in caplog.text
    assert caplog.text.count("brought its worker down") == PLUGINS
    assert caplog.text.count("was left out") == 3, "the log has the first few, the outcomes have all"


def test_what_is_printed_goes_to_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    desk = crawled(tmp_path, "prints", deadly=set())
    assert all(row.items == 1 for row in desk.settled.values())
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("not data") == printed.err.count("nor this") == PAGES


def test_a_kill_from_outside_is_not_taken_for_the_plug_ins_doing() -> None:
    """Whoever sends SIGKILL to a worker may hit it in a plug-in: once, its rows are not lost to that."""
    deaths = Deaths(Path("c"), 0)
    assert deaths.at_work("http://a/", -signal.SIGKILL, True) is None
    assert not deaths.bare("http://a/")
    assert deaths.at_work("http://a/", -signal.SIGKILL, True) is None
    assert deaths.bare("http://a/")
    assert not deaths.bare("http://b/")
    assert not deaths.condemned("http://a/")


def test_a_plug_in_that_is_gone_when_a_crawl_goes_on_is_named(tmp_path: Path) -> None:
    from fieldmouse.errors import FieldmouseError

    with pytest.raises(FieldmouseError, match=r"extract `hostile_mice:no_longer_there` is not there"):
        crawled(tmp_path, "no_longer_there", deadly=set())
    assert not os.listdir(tmp_path)
