"""Tests of the search for pages that link to a URL which was never fetched, and for the rule behind it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fieldmouse.reader.explain_missing import find_linking_pages
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.types.outcome import Page
from fieldmouse.url import Url
from fieldmouse.workers.shard_writer import LockedShard, ShardWriter
from workers.responses import CONFIG, page

TARGET = Url("http://a.example/hidden/page.html?x=1&y=2")
MARKED = "the link is marked rel=nofollow"
WHOLE = "the page asks robots not to follow its links (nofollow)"


def searched(home: Path, *pages: Page, **words: int) -> list[tuple[Url, str]]:
    shard = ShardWriter(LockedShard(home, 0, CONFIG, ShardState()))
    for number, one in enumerate(pages, 1):
        shard.process_outcome(number, one)
    state = shard.prepare_commit()
    shard.close()
    return find_linking_pages(home / "archive", [state], TARGET, **words)[0]


@pytest.mark.parametrize(
    ("html", "headers", "rule"),
    [
        ("<a rel='noopener NoFollow' href='/hidden/page.html?x=1&amp;y=2'>", {}, MARKED),
        ("<base href=/hidden/><area rel=nofollow href='page.html?x=1&y=2#top'>", {}, MARKED),
        ("<meta name=robots content=nofollow><a href='hidden/page.html?x=1&y=2'>", {}, WHOLE),
        ("<a href='hidden/page.html?x=1&y=2'>", {"x_robots_tag": "none"}, WHOLE),
        ("<a rel=nofollow href='hidden/page.html?x=1&y=2'><a href='hidden/page.html?x=1&y=2'>", {}, ""),
    ],
)
def test_rule_that_excluded_a_link_is_reported(tmp_path: Path, html: str, headers: dict[str, str], rule: str) -> None:
    mentions = searched(tmp_path, page("http://a.example/", html.encode(), **headers))
    assert mentions == [("http://a.example/", rule)]


def test_page_without_a_link_to_the_url_is_not_a_mention(tmp_path: Path) -> None:
    html = b"page.html <a href='/hidden/page.html?x=1'>other</a> <a href='/hidden/page.html'>third</a>"
    assert searched(tmp_path, page("http://a.example/", html)) == []


def test_encoded_page_is_read_and_the_search_ends_at_its_budget(tmp_path: Path) -> None:
    packed = gzip.compress(b"<a rel=nofollow href='/hidden/page.html?x=1&y=2'>")
    pages = [page(f"http://a.example/{n}", packed, content_encoding="gzip") for n in range(6)]
    assert [rule for _, rule in searched(tmp_path, *pages)] == [MARKED] * 3
    assert find_linking_pages(tmp_path / "archive", [], TARGET, budget=300) == ([], False)
