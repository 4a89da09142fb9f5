"""Extracted rows are exactly as durable as their pages."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from meadowland import running_meadow

from .crawling import check_warcs, exported, run
from .test_kills import _crawl_with_kills

KILLS = 3
CODE = """
def rows(page):
    yield {"page": page.url, "heading": page.title, "size": len(page.body)}
    if page.found_as == "page":
        yield {"page": page.url, "words": page.text.split()[:3], "links": page.links}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a module of the user's own in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_rows.py").write_text(CODE)
    return tmp_path


def items(home: Path, *words: str) -> list[dict[str, Any]]:
    return exported(home, "--items", *words)


def test_after_kills_exactly_the_rows_of_stored_pages_exist(here: Path) -> None:
    home, name = here / "c", "plugins.extract=own_rows:rows"
    with running_meadow(hosts=40, pages=150 * KILLS, seed=9, latency=0.04, latency_spread=0.0) as meadow:
        assert _crawl_with_kills(meadow, home, random.Random(2028), KILLS, "--set", name) == KILLS
        assert run("resume", home)["lost"] == 0
        pages = {page["url"]: page for page in exported(home)}
        assert sorted(pages) == sorted(meadow.pages())
    found = items(home)
    first = [item for item in found if "heading" in item]
    second = [item for item in found if "words" in item]
    assert {item["page"]: (item["heading"], item["size"]) for item in first} == {
        url: (page["title"], page["size"]) for url, page in pages.items()
    }
    assert {item["page"] for item in second} == {u for u, page in pages.items() if page["found_as"] == "page"}
    assert (len(first), len(second)) == (len(pages), len({item["page"] for item in second})), "each once"
    assert all(item["url"] == item["page"] for item in found)
    check_warcs(home)
    assert run("doctor", home, "--deep")["healthy"]


def test_rows_are_exported_in_every_format_without_the_plugin(here: Path) -> None:
    home = here / "c"
    with running_meadow(hosts=3, pages=12, seed=2) as meadow:
        options = ("--delay", "0s", "--allow-private", "--set", "plugins.extract=own_rows:rows")
        run("crawl", home, "--seed", meadow.seeds[0], *options)
    (here / "own_rows.py").unlink()
    found = items(home)
    assert items(home, "--all") == found, "nothing was fetched twice"
    run("export", home, "--to", here / "i.csv", "--items")
    with (here / "i.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert list(cells[0]) == ["url", "fetched_at", "page", "heading", "size", "words", "links"]
    assert [json.loads(row["links"]) for row in cells if row["links"]] == [
        item["links"] for item in found if "links" in item
    ]
    run("export", home, "--to", here / "i.parquet", "--items")
    table = pq.read_table(here / "i.parquet").to_pylist()
    assert [row["size"] for row in table] == [item.get("size") for item in found]
    assert [row["heading"] for row in table] == [item.get("heading") for item in found]
    for words in (["doctor", home], ["explain", home, meadow.seeds[0]], ["search", home, "field"]):
        run(*words)


def test_a_missing_plugin_prevents_start_and_resume(here: Path) -> None:
    home = here / "c"
    options = ("--allow-private", "--pages", "3", "--delay", "0s", "--set", "plugins.extract=own_rows:rows")
    with running_meadow(hosts=3, pages=30, seed=2) as meadow:
        (here / "own_rows.py").rename(here / "away.py")
        told = run("crawl", home, "--seed", meadow.seeds[0], *options, expect=2)
        assert "No module named 'own_rows'" in told["error"]
        assert "the directory that holds it" in told["hint"]
        assert not home.exists()
        (here / "away.py").rename(here / "own_rows.py")
        run("crawl", home, "--seed", meadow.seeds[0], *options, expect=3)
        (here / "own_rows.py").unlink()
        before = {path: path.stat().st_mtime_ns for path in home.rglob("*") if path.is_file()}
        assert "No module named 'own_rows'" in run("resume", home, expect=2)["error"]
        after = {path: path.stat().st_mtime_ns for path in home.rglob("*") if path.is_file()}
        assert {path.name for path in after if before.get(path) != after[path]} <= {"lock"}
