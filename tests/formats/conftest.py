"""Small crawls that the code of today makes, once for all tests of their files and of what is printed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cluster.coordinators import MISSING, PROGRAM, a_server
from formats.golden import ROOT, ask, run
from formats.make_crawls import agent, dump, finished, stopped
from formats.smallsite import running_site


@dataclass
class Live:
    """Directories of crawls, what commands printed on the way, and file names at moments that are over."""

    folder: Path
    printed: dict[str, Any] = field(default_factory=dict)
    files: dict[str, set[str]] = field(default_factory=dict)
    redis: dict[str, Any] = field(default_factory=dict)

    def home(self, name: str) -> Path:
        return self.folder / name

    def note_files(self, moment: str, name: str) -> None:
        home = self.home(name)
        self.files[moment] = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


@contextmanager
def _tests_as_directory() -> Iterator[None]:
    before = os.getcwd()
    os.chdir(ROOT / "tests")
    try:
        yield
    finally:
        os.chdir(before)


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Live:
    """A crawl that is finished and then refreshed, and one that is stopped and then resumed."""
    crawls = Live(tmp_path_factory.mktemp("live"))
    with running_site() as site, _tests_as_directory():
        home, other = crawls.home("refreshed"), crawls.home("resumed")
        crawls.printed["crawl"] = finished(site, home)
        crawls.note_files("finished", "refreshed")
        crawls.printed["crawl stopped"] = stopped(site, other)
        crawls.note_files("stopped", "resumed")
        crawls.printed["explain waiting"] = ask("explain", other, "http://c.fence.test/last.html")
        crawls.printed["resume"] = run("resume", other, *site.words)
        site.edition = 2
        crawls.printed["refresh"] = run("refresh", home, "--once", *site.words, "--delay", "0s")
        crawls.note_files("refreshed", "refreshed")
    return crawls


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Live:
    """An agent that is stopped and comes back, and the keys of its server while it works and afterwards."""
    if PROGRAM is None:
        pytest.skip(MISSING)
    crawls = Live(tmp_path_factory.mktemp("cluster"))
    home = crawls.home("agent")
    with running_site() as site, a_server() as server:
        where = ("--board", server.url, "--crawl", "fence")

        def during() -> None:
            crawls.redis["working"] = dump(server.client())
            crawls.printed["cluster status working"] = ask("cluster", "status", *where)

        crawls.printed["agent stopped"] = agent(site, home, server.url, during=during)
        crawls.note_files("agent stopped", "agent")
        crawls.redis["stopped"] = dump(server.client())
        crawls.printed["agent"] = run("agent", home, *where, *site.words)
        crawls.note_files("agent finished", "agent")
        crawls.redis["finished"] = dump(server.client())
        name = crawls.printed["cluster status working"]["agents"][0]["agent"]
        for words in (
            ["status", *where],
            ["list", *where[:2]],
            ["forget", name, "--again", *where],
            ["remove", "fence", *where[:2]],
        ):
            crawls.printed[f"cluster {words[0]}"] = ask("cluster", *words)
        crawls.printed["cluster rebuild"] = ask("cluster", "rebuild", home, *where)
        crawls.redis["rebuilt"] = dump(server.client())
    return crawls
