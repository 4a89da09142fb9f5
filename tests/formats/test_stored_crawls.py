"""Crawls that were made before the modules were renamed: they open, are healthy, go on and can be read.

`tests/formats/make_crawls.py` made them, and `smallsite` is what they crawled.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fieldmouse
from cluster.coordinators import a_server, needs_server
from formats.golden import DATA, ROOT, ask, run
from formats.make_crawls import restore
from formats.smallsite import CHANGING, GONE, MISSING, MOVED, MOVING, NEW, SECRET, SmallSite, pages, running_site

QUICK = ("--delay", "0s")


@pytest.fixture(scope="module")
def site() -> Iterator[SmallSite]:
    with running_site() as small:
        yield small


@pytest.fixture(autouse=True)
def beside_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """`formats.sample_plugins` is found from there."""
    monkeypatch.chdir(ROOT / "tests")


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(DATA / f"crawl-{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "crawl"


def stored(home: Path) -> set[str]:
    """The URLs of the pages that `export` lists."""
    target = home.parent / "pages.jsonl"
    ask("export", home, "--to", target)
    return {json.loads(line)["url"] for line in target.read_text().splitlines()}


def hits(home: Path, *words: str) -> set[str]:
    return {hit["url"] for hit in ask("search", home, *words)}


def check_healthy(home: Path) -> None:
    report = ask("doctor", home, "--deep")
    assert report["healthy"], report


def reason(home: Path, url: str) -> str:
    """What `explain` says came of a URL."""
    told: dict[str, Any] = ask("explain", home, url)
    return json.dumps(told)


def test_finished_crawl_is_read(tmp_path: Path) -> None:
    home = unpacked("finished", tmp_path)
    check_healthy(home)
    assert stored(home) == pages(1)
    assert hits(home, "acorns") == {CHANGING, "http://a.fence.test/two.html"}
    assert {hit.url for hit in fieldmouse.open(home).search("acorns")} == hits(home, "acorns")
    assert "excluded by robots.txt" in reason(home, SECRET)
    assert "client error status" in reason(home, MISSING)
    ask("export", home, "--items", "--to", tmp_path / "items.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    assert len(rows) == len(pages(1))
    assert "Bank voles" in {row["title"] for row in rows}


def test_finished_crawl_is_refreshed(tmp_path: Path, site: SmallSite) -> None:
    home = unpacked("finished", tmp_path)
    site.edition = 2
    done = run("refresh", home, "--once", *site.words, *QUICK)
    site.edition = 1
    assert (done["polls"], done["refreshed"]["new"], done["gone"]) == (13, 2, 1)
    assert stored(home) == pages(2)
    assert hits(home, "ninety") == {CHANGING}
    kinds = {change["url"]: change["kind"] for change in ask("changes", home)}
    assert kinds.items() >= {CHANGING: "changed", GONE: "gone", NEW: "new", MOVING: "moved"}.items()
    assert (home / "changes.atom").stat().st_size
    check_healthy(home)


def test_stopped_crawl_is_resumed(tmp_path: Path, site: SmallSite) -> None:
    home = unpacked("stopped", tmp_path)
    check_healthy(home)
    before = stored(home)
    assert len(before) == 4
    done = run("resume", home, *site.words)
    assert (done["waiting"], done["lost"], done["pages"]) == (0, 0, len(pages(1)))
    assert stored(home) == pages(1)
    assert hits(home, "shrews") == {MOVING}
    check_healthy(home)


def test_refreshed_crawl_is_read_and_refreshed_again(tmp_path: Path, site: SmallSite) -> None:
    home = unpacked("refreshed", tmp_path)
    check_healthy(home)
    assert stored(home) == pages(2)
    kinds = {change["url"]: change["kind"] for change in ask("changes", home)}
    assert kinds.items() >= {CHANGING: "changed", GONE: "gone", NEW: "new", MOVING: "moved"}.items()
    assert len(ask("changes", home, "--versions", CHANGING)) == 2
    assert "ninety" in json.dumps(ask("changes", home, "--diff", CHANGING))
    assert hits(home, "twelve") == set()
    assert hits(home, "--versions", "twelve") == {CHANGING}
    assert MOVED in reason(home, MOVING)
    done = run("refresh", home, "--once", *site.words, *QUICK)  # back to the first edition
    assert done["refreshed"]["changed"] >= 1
    assert hits(home, "twelve") == {CHANGING}
    assert NEW not in stored(home)
    check_healthy(home)


@needs_server
def test_agent_rejoins_its_cluster_and_finishes(tmp_path: Path, site: SmallSite) -> None:
    home = unpacked("agent", tmp_path)
    check_healthy(home)
    with a_server() as server:
        restore(server.client(), json.loads((tmp_path / "redis.json").read_text()))
        where = ("--board", server.url, "--crawl", "fence")
        before = ask("cluster", "status", *where)
        assert (before["pages"], before["seen"], before["waiting"]) == (5, 11, 5)
        # The server is another one, so nothing is leased for 17 s: let them be over on its clock.
        server.client().hincrby("fm:{fence}:meta", "skew", 20_000)
        run("agent", home, *where, *site.words)
        after = ask("cluster", "status", *where)
        assert (after["done"], after["waiting"], after["pages"]) == (True, 0, len(pages(1)))
    assert stored(home) == pages(1)
    assert hits(home, "acorns") == {CHANGING, "http://a.fence.test/two.html"}
    check_healthy(home)
