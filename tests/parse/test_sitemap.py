"""Tests of sitemaps, valid and invalid."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterable
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.parse.sitemap import Sitemap, SitemapEntry, read_sitemap
from fieldmouse.url import resolve

BASE = "http://example.org/sitemap.xml"
SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def urlset(locs: Iterable[tuple[str, str]], prefix: str = "") -> bytes:
    rows = "".join(
        f"<{prefix}url><{prefix}loc> {escape(loc)}\n</{prefix}loc>"
        f"<{prefix}lastmod>{lastmod}</{prefix}lastmod>"
        f"<image:image><image:loc>/picture</image:loc></image:image></{prefix}url>"
        for loc, lastmod in locs
    )
    return f'<?xml version="1.0" encoding="UTF-8"?><{prefix}urlset {SPACE}>{rows}</{prefix}urlset>'.encode()


names = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), max_size=30)
entries = st.lists(
    st.tuples(names.map(lambda name: "http://example.org/" + name), st.sampled_from(["", "2026-11-15"])), max_size=20
)


@given(entries, st.booleans(), st.sampled_from(["", "sm:"]))
def test_every_url_is_found_in_order(locs: list[tuple[str, str]], packed: bool, prefix: str) -> None:
    body = urlset(locs, prefix)
    found = read_sitemap(gzip.compress(body) if packed else body, BASE)
    wanted = [SitemapEntry(url, lastmod) for loc, lastmod in locs if (url := resolve(loc.strip(), BASE))]
    assert found == Sitemap(wanted, [])


@given(entries, st.floats(0, 1))
def test_entries_before_an_error_are_kept(locs: list[tuple[str, str]], where: float) -> None:
    body = urlset(locs)
    cut = int(where * len(body))
    found = read_sitemap(body[:cut], BASE)
    whole = read_sitemap(body, BASE).urls
    assert found.urls == whole[: len(found.urls)]
    assert len(found.urls) == body[:cut].count(b"</url>")
    assert bool(found.error) == (0 < cut < len(body))


@given(st.one_of(st.binary(), st.binary().map(lambda tail: b"<urlset>" + tail), st.binary().map(gzip.compress)))
def test_arbitrary_bytes_never_raise(body: bytes) -> None:
    read_sitemap(body, BASE)


@given(st.integers(0, 30), st.integers(0, 30))
def test_number_of_urls_is_limited(there: int, limit: int) -> None:
    found = read_sitemap(urlset((f"/{n}", "") for n in range(there)), BASE, limit_urls=limit)
    assert [entry.url for entry in found.urls] == [f"http://example.org/{n}" for n in range(min(there, limit))]
    assert found.truncated == (there > limit)


def test_index_lists_sitemaps() -> None:
    body = f"<sitemapindex {SPACE}><sitemap><loc>/1.xml</loc><lastmod>2026</lastmod></sitemap></sitemapindex>"
    assert read_sitemap(body.encode(), BASE) == Sitemap([], [SitemapEntry(resolve("http://example.org/1.xml"), "2026")])  # type: ignore[arg-type]


def test_plain_lists_and_feeds_are_read() -> None:
    lines = b"\xef\xbb\xbfhttp://example.org/1\r\n\r\nftp://example.org/no\nhttp://example.org/2"
    rss = (
        b"<rss><channel><link>/</link><item><link>/1</link><pubDate>Sun</pubDate></item>"
        b"<item><link>/2</link></item></channel></rss>"
    )
    atom = (
        b'<feed><link href="/"/><entry><link href="/1"/></entry>'
        b'<entry><link rel="self" href="/0"/><link rel="alternate" href="/2"/></entry></feed>'
    )
    for body in (lines, rss, atom):
        assert [entry.url for entry in read_sitemap(body, BASE).urls] == [
            "http://example.org/1",
            "http://example.org/2",
        ]


@pytest.mark.parametrize("coding", ["utf-16", "iso-8859-1"])
def test_other_encodings_are_decoded(coding: str) -> None:
    body = f'<?xml version="1.0" encoding="{coding}"?><urlset><url><loc>/é</loc></url></urlset>'.encode(coding)
    assert [entry.url for entry in read_sitemap(body, BASE).urls] == ["http://example.org/%C3%A9"]


def test_entities_are_refused() -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    body = f'<!DOCTYPE x [<!ENTITY l0 "lol">{laughs}]><urlset><url><loc>/&l9;</loc></url></urlset>'
    assert read_sitemap(body.encode(), BASE) == Sitemap([], [], error="declares entities")


def test_external_entity_is_never_loaded() -> None:
    body = b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><urlset><url><loc>/a</loc></url></urlset>'
    assert [entry.url for entry in read_sitemap(body, BASE).urls] == ["http://example.org/a"]


MEGABYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"<urlset>", b"<url><loc>http://example.org/a</loc></url>"),
        (b"", b"<a>"),
        (b"<a ", b"b"),
        (b"<urlset><!--", b"comment "),
        (b"<urlset><url><loc>", b"http://example.org/"),
        (b"<urlset>", b" "),
        (b"http://", b"a"),
        (b"", b"http://example.org/a\n"),
    ],
    ids=["urls", "depth", "a tag", "a comment", "one url", "space", "a line", "lines"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_endless_sitemap_costs_a_bounded_amount(start: bytes, piece: bytes, packed: bool) -> None:
    body = start + piece * (5 * MEGABYTE // len(piece))
    if packed:
        body = gzip.compress(body, 1)
    tracemalloc.start()
    try:
        found = read_sitemap(body, BASE, limit_urls=1000, limit_bytes=4 * MEGABYTE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.error
    assert len(found.urls) <= 1000
    assert peak < 2 * MEGABYTE
