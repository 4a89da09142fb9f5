"""Tests of plug-ins that kill their worker: this costs the rows of a page, never the page."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

import msgspec
import pytest

from fieldmouse.archive.warc_reader import read_page_rows
from fieldmouse.import_string import import_path
from fieldmouse.plugins.runner import PluginConfig
from fieldmouse.types.outcome import Page
from fieldmouse.workers.supervisor import MAX_PLUGIN_DEATHS, WorkerDeaths
from workers.responses import CONFIG, page, story
from workers.test_pool import Desk

PAGES = 8


def answer(number: int, deadly: set[int]) -> Page:
    where = "deadly" if number in deadly else "fine"
    return page(f"http://h.example.org/{where}/{number}", story(number))


def crawled(folder: Path, plugin: str, deadly: set[int], patience: float = 0.2) -> Desk:
    """Store all pages with one worker and its successors."""
    names = PluginConfig(extract=f"hostile_mice:{plugin}", patience=patience, path=import_path())
    desk = Desk(folder, msgspec.structs.replace(CONFIG, plugins=names), shards=1)

    async def life() -> None:
        indexer = desk.open()
        await indexer.start()
        await indexer.roll_back_and_accept()
        missing = set(range(1, PAGES + 1))
        for _ in range(2 * MAX_PLUGIN_DEATHS + 2):
            for number in sorted(missing):
                await desk.send(number, answer(number, deadly))
            await desk.checkpoint()
            missing -= desk.settled.keys()
            if not missing:
                break
        await indexer.merge_indexes_and_cdxj_logs()
        await indexer.close()

    asyncio.run(life())
    return desk


@pytest.mark.parametrize("plugin", ["deaf", "compiled_loop", "dies", "crashes"])
def test_page_is_stored_without_rows_and_with_reason(tmp_path: Path, plugin: str) -> None:
    desk = crawled(tmp_path, plugin, deadly={3})
    assert sorted(desk.settled) == list(range(1, PAGES + 1))
    for number, row in desk.settled.items():
        if number == 3:
            assert row.kind == "page"
            assert row.detail == f"`hostile_mice:{plugin}` was left out: plug-ins brought workers down"
        else:
            assert row.detail == ""
            assert [item["title"] for item in read_page_rows(tmp_path / "archive", row)] == [row.title]


def test_plug_in_that_kills_workers_repeatedly_is_disabled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        desk = crawled(tmp_path, "dies", deadly=set(range(1, PAGES + 1)))
    assert sorted(desk.settled) == list(range(1, PAGES + 1)), "and the crawl goes on"
    assert all(row.kind == "page" and not row.items for row in desk.settled.values())
    assert "from now on shard 0 reads pages without plug-ins" in caplog.text
    assert caplog.text.count("brought its worker down") == MAX_PLUGIN_DEATHS
    assert caplog.text.count("was left out") == 3, "the log has the first few, the outcomes have all"


def test_plug_in_output_goes_to_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    desk = crawled(tmp_path, "prints", deadly=set())
    assert all(row.items == 1 for row in desk.settled.values())
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("not data") == printed.err.count("nor this") == PAGES


def test_external_kill_is_not_blamed_on_the_plug_in() -> None:
    """An external SIGKILL may hit a worker inside a plug-in: one such kill does not cost the rows."""
    deaths = WorkerDeaths(Path("c"), 0)
    assert deaths.record_death("http://a/", -signal.SIGKILL, True) is None
    assert not deaths.should_skip_plugins("http://a/")
    assert deaths.record_death("http://a/", -signal.SIGKILL, True) is None
    assert deaths.should_skip_plugins("http://a/")
    assert not deaths.should_skip_plugins("http://b/")
    assert not deaths.should_give_up_page("http://a/")


def test_missing_plug_in_on_resume_is_reported(tmp_path: Path) -> None:
    from fieldmouse.errors import FieldmouseError

    with pytest.raises(FieldmouseError, match=r"extract `hostile_mice:no_longer_there` is not there"):
        crawled(tmp_path, "no_longer_there", deadly=set())
    assert not os.listdir(tmp_path)
