"""Code and commands of the plug-in guides, extracted and run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.plugins.page import FoundLink, PageText, ParsedPage, RawPage
from fieldmouse.reader.crawl_reader import CrawlReader

from .crawling import exported, run
from .test_sign import Site, sites

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
MODULES = {"extract": "shop", "reader": "tables", "admit": "wanted", "sign": "login"}


def code_of(guide: str) -> str:
    """The first block of code in a guide."""
    block = re.search(r"^```python\n(.*?)^```", (GUIDES / f"{guide}.md").read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    return block[1]


def commands_of(guide: str) -> list[list[str]]:
    text = (GUIDES / f"{guide}.md").read_text()
    return [shlex.split(line)[1:] for line in re.findall(r"^\$ (fieldmouse .*)$", text, re.MULTILINE)]


def settings_of(guide: str) -> list[str]:
    """The settings that a guide's command for a new crawl names."""
    (words,) = [words for words in commands_of(guide) if words[0] == "crawl"]
    return [word for place, word in enumerate(words) if words[place - 1] == "--set"]


@pytest.fixture
def crawled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Site, Site]]:
    """A site behind a token, crawled with all plug-ins of the guides."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATLAS_TOKEN", "s3cret")
    for guide, module in MODULES.items():
        assert f"`{module}.py`" in (GUIDES / f"{guide}.md").read_text()
        (tmp_path / f"{module}.py").write_text(code_of(guide))
    words = [word for guide in MODULES for setting in settings_of(guide) for word in ("--set", setting)]
    with sites() as (own, other):
        own.pages["/"] = (
            "<title>Start</title><main><h1>All voles</h1></main><a href=/private>x</a><a href=/t.csv>x</a>"
            "<a href=/list?page=2>x</a><article><h2>Short</h2></article>"
        )
        own.pages["/t.csv"] = "name,link\nfield vole,/from-table\n"
        own.pages["/from-table"] = "<title>Deep</title>"
        own.pages["/list?page=2"] = "<title>Not wanted</title>"
        run("crawl", "atlas", "--seed", own.origin + "/", "--delay", "0s", "--allow-private", *words)
        yield tmp_path / "atlas", own, other


def test_the_plugins_of_the_guides_work_together(crawled: tuple[Path, Site, Site]) -> None:
    home, own, _ = crawled
    titles = {page["url"].removeprefix(own.origin): page["title"] for page in exported(home)}
    assert titles == {"/": "Start", "/private": "For members", "/t.csv": "name link", "/from-table": "Deep"}
    assert set(own.asked.values()) == {"Bearer s3cret"}
    assert "/list?page=2" not in own.asked, "admit did not want it"
    assert [hit["url"] for hit in run("search", home, "field vole")] == [own.origin + "/t.csv"]
    rows = [(row["url"].removeprefix(own.origin), row["heading"]) for row in exported(home, "--items")]
    assert rows == [("/", "All voles"), ("/", "Short")]
    assert [item["heading"] for item in CrawlReader(home).items()] == ["All voles", "Short"]


def test_the_commands_of_the_rows_guide_write_rows(crawled: tuple[Path, Site, Site]) -> None:
    home, _, _ = crawled
    exports = [words for words in commands_of("extract") if words[0] == "export"]
    assert len(exports) == 2
    for words in exports:
        assert run(*words)["items"] == 2
    assert (home.parent / "items.csv").read_text().splitlines()[0] == "url,fetched_at,heading,picture,links"


def test_a_scrapy_callback_becomes_a_function_of_a_page() -> None:
    from selectolax.lexbor import LexborHTMLParser

    space: dict[str, Any] = {}
    exec(code_of("coming-from"), space)
    html = (
        "<cite>Somebody else</cite><article class=quote><p> Mice <b>are</b> nice </p><cite>A. Vole</cite>"
        "<a class=tag href=/t/mice>mice</a><a class=tag href=/t/voles>voles</a></article><a href=../up>up</a>"
    )
    url, fields = "http://q.example/a/b", (("vary", "a"), ("vary", "b"))
    answer = RawPage(url=url, status=200, mime="text/html", body=html.encode(), fields=fields)
    read = PageText(links=["/t/mice", "/t/voles", "../up", "mailto:x@y", "/t/mice"])
    link = FoundLink(url, via="", depth=0, found_as="page")
    page = ParsedPage(answer, read, link, at=0.0, base=url, tree=lambda: LexborHTMLParser(html))
    assert list(space["quotes"](page)) == [{"text": "Mice are nice", "author": "A. Vole", "tags": ["mice", "voles"]}]
    assert page.get_all("a", "href") == ["/t/mice", "/t/voles", "../up"]
    assert page.links == ["http://q.example/t/mice", "http://q.example/t/voles", "http://q.example/up"]
    assert page.absolute("../up") == "http://q.example/up"
    assert page.absolute(page.get("img", "src")) == "", "what is not there leads nowhere"
    assert (page.get("h1"), page.get("a", "title"), page.headers) == ("", "", {"vary": "a, b"})


def test_every_row_of_the_migration_tables_has_four_columns() -> None:
    """Whether the settings exist is checked in test_docs."""
    text = (GUIDES / "coming-from.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 30
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
