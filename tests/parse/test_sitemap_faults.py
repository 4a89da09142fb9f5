"""Tests of errors in sitemaps and feeds: each costs at most one entry."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from itertools import pairwise
from typing import Any, SupportsIndex
from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from webencodings.labels import LABELS

from fieldmouse.http.decoding import FIRST_PIECE, MAX_GZIP_MEMBERS
from fieldmouse.parse import xml_stream
from fieldmouse.parse.charset import codec_for_label
from fieldmouse.parse.sitemap import Sitemap, read_sitemap
from fieldmouse.parse.xml_stream import XmlStreamParser, unescape

BASE = "http://example.org/dir/sitemap.xml"


def found(body: bytes | str) -> list[str]:
    """Return the paths of the URLs read."""
    listed = read_sitemap(body.encode() if isinstance(body, str) else body, BASE)
    return [entry.url.removeprefix("http://example.org") for entry in listed.urls]


def urlset(*locs: str, declaration: str = "") -> str:
    return declaration + "<urlset>" + "".join(f"<url><loc>{loc}</loc></url>" for loc in locs) + "</urlset>"


# -- encodings


@pytest.mark.parametrize("label", [*sorted(LABELS), "ANSI", "utf8mb4", "UTF8", "unknown", "x", "none", "utf-7", "ucs4"])
def test_ascii_urls_are_found_with_any_declared_encoding(label: str) -> None:
    text = urlset("/a", "/b", declaration=f'<?xml version="1.0" encoding="{label}"?>\n')
    assert found(text) == ["/a", "/b"]


LOCAL_NAMES = (
    "Shift_JIS=/野ねずみ GBK=/田鼠 gb18030=/田鼠 Big5=/田鼠 "
    "EUC-JP=/野ねずみ EUC-KR=/들쥐 ISO-2022-JP=/野ねずみ KOI8-R=/мышь "
    "windows-1251=/мышь iso-8859-1=/é windows-1252=/é UTF-8=/é utf-16=/é"
)


@pytest.mark.parametrize(("label", "text"), [pair.split("=") for pair in LOCAL_NAMES.split()])
def test_urls_are_decoded_with_the_declared_encoding(label: str, text: str) -> None:
    body = urlset(text, "/b", declaration=f"<?xml version='1.0' encoding='{label}'?>")
    wanted = found(urlset(text, "/b"))
    assert (
        found(body.encode(codec_for_label(label) if label != "utf-16" else label) if text.isascii() is False else body)
        == wanted
    )


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("declared", ["", "<?xml version='1.0' encoding='UTF-16'?>", "<?xml version='1.0'?>\n", "\n\n"])
def test_utf_16_is_detected_by_mark_or_zeros(codec: str, declared: str) -> None:
    assert found(urlset("/é", "/b", declaration=declared).encode(codec)) == ["/%C3%A9", "/b"]


def test_ansi_means_windows_1252() -> None:
    assert found(urlset("/é", declaration='<?xml version="1.0" encoding="ANSI"?>').encode("cp1252")) == ["/%C3%A9"]
    assert found(urlset("/é").encode("cp1252")) == ["/%C3%A9"]
    assert found(urlset("/é", declaration='<?xml version="1.0" encoding="utf8mb4"?>')) == ["/%C3%A9"]


# -- errors


AMONG = [
    ("/x?a=1&b=2", "/x?a=1&b=2"),
    ("/x?a=1&amp;b=2", "/x?a=1&b=2"),
    ("/x?copy=1&copy=2", "/x?copy=1&copy=2"),
    ("/x&nbsp;", "/x&nbsp;"),
    ("/x&;&#xD800;&#0;&#9999999;", None),
    ("/x<y", None),
    ("/<b>x</b>", None),
    ("<![CDATA[/x?a=1&amp;b]]>", "/x?a=1&amp;b"),
    ("<![CDATA[/x<y]]>", "/x%3Cy"),
    ("/x<!-- no -->y", "/xy"),
    ("&#47;x&#x79;", "/xy"),
    ("&lt;x&gt;", "/dir/%3Cx%3E"),
    ("\x00\x01\x08", None),
    ("mailto:x", None),
    ("", None),
    ("http://[::1", None),
    ("/" + "x" * 5000, None),
    ("<loc>/x</loc>", None),
    ("\n /x \t", "/x"),
]


@pytest.mark.parametrize(("loc", "path"), AMONG)
def test_error_costs_at_most_one_entry(loc: str, path: str | None) -> None:
    paths = found(urlset("/before", loc, "/after"))
    assert paths[0] == "/before"
    assert paths[-1] == "/after"
    if path is not None:
        assert paths == ["/before", path, "/after"]


PREFIXES = (
    "|\ufeff|\n|\ufeff\n|\n\ufeff|\r\n\t \ufeff\ufeff|\x00|\u00a0|<!-- hello -->|<?xml-stylesheet?>|"
    "<!DOCTYPE urlset>|<!DOCTYPE urlset [<!ELEMENT x ANY>]>|<b>Warning</b>: a line from PHP\n|"
    "ChangeBatch: x\n"
).split("|")


@pytest.mark.parametrize("before", PREFIXES)
def test_text_before_a_sitemap_is_skipped(before: str) -> None:
    assert found(before + urlset("/a")) == ["/a"]
    assert found(before + urlset("/a", declaration='<?xml version="1.0" encoding="UTF-8"?>')) == ["/a"]


@pytest.mark.parametrize(
    "inner",
    [
        '<xhtml:link rel="alternate" hreflang="de" href="/de"/>',
        "<image:image><image:loc>/i</image:loc></image:image>",
        "<video:video><video:player_loc>/v</video:player_loc></video:video>",
        "<lastmod>2026</lastmod>",
        "<changefreq/>",
        '<link rel="alternate" href="/amp"/>',
        "<news:news><news:title>a &amp; b</news:title></news:news>",
        "</p>",
        "<url><loc>/inner</loc></url>",
        "<image><url>/i</url><loc>/i</loc></image>",
        "<a b='>'/>",
        '<a b="/>',
        "text < text",
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_only_the_url_element_gives_the_url(inner: str, first: bool) -> None:
    loc = "<loc>/page</loc>"
    entry = inner + loc if first else loc + inner
    assert found(f"<urlset><url>{entry}</url><url><loc>/next</loc></url></urlset>") == ["/page", "/next"]


@pytest.mark.parametrize("inner", ["<br>", '<a b=">', "<loc>", "<![CDATA[]]>", "<>", "<1>", "< a>", "<?x?>"])
def test_invalid_tag_costs_at_most_one_entry(inner: str) -> None:
    around = "<url><loc>/a</loc></url><url>{}<loc>/b</loc></url><url><loc>/c</loc></url>"
    paths = found(f"<urlset>{around.format(inner)}</urlset>")
    assert (paths[0], paths[-1]) == ("/a", "/c")


def test_elements_left_open_end_with_those_around_them() -> None:
    assert found("<urlset><url><loc>/a</url><url><loc>/b</loc></url></urlset>") == ["/a", "/b"]
    assert found("<urlset></url><url><loc>/a</loc></url></x></urlset>") == ["/a"]
    assert found("<URLSET><Url><LOC>/a</LOC></Url></URLSET>") == ["/a"]


def test_html_page_is_not_a_sitemap() -> None:
    page = "<!doctype html><html><head><link rel=alternate href=/a></head><url><loc>/b</loc></url></html>"
    assert read_sitemap(page.encode(), BASE) == Sitemap([], [], error="a page of HTML")


def test_one_entity_declaration_ends_reading() -> None:
    body = b'<!DOCTYPE x [<!ENTITY a "b">]><urlset><url><loc>/&a;</loc></url></urlset>'
    assert read_sitemap(body, BASE) == Sitemap([], [], error="declares entities")


# -- compressed


@given(st.lists(st.integers(0, 40), min_size=1, max_size=5), st.sampled_from([b"", b"\0\0\0", b"padding"]))
def test_gzip_of_several_members_is_one_file(cuts: list[int], padding: bytes) -> None:
    body = urlset("/a", "/b", "/c").encode()
    places = sorted({0, *(min(cut, len(body)) for cut in cuts), len(body)})
    members = [body[a:b] for a, b in pairwise(places)]
    packed = b"".join(gzip.compress(member) for member in [b"", *members])
    assert read_sitemap(packed + padding, BASE) == read_sitemap(body, BASE)


def test_damaged_gzip_member_is_reported_and_earlier_ones_count() -> None:
    whole, second = gzip.compress(urlset("/a").encode()), gzip.compress(urlset("/b").encode())
    for broken in (second[:-9], second[:5] + b"\xff" * 20):
        listed = read_sitemap(whole + broken, BASE)
        assert [entry.url for entry in listed.urls][:1] == ["http://example.org/a"]
        assert listed.error


class Counted(bytes):
    """Bytes that count how many of them were copied."""

    handed = 0

    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        piece = super().__getitem__(place)
        self.handed += len(piece) if isinstance(piece, bytes) else 1
        return piece


def test_tiny_gzip_members_are_copied_once_and_limited() -> None:
    first = gzip.compress(urlset("/a").encode())
    for size in (0, 500, 2000):
        member = gzip.compress(b"\n".join(b"%d" % n for n in range(size)))
        few = Counted(member * 100)
        read_sitemap(few, BASE)
        assert few.handed <= 3 * len(few) + 100 * 3 * FIRST_PIECE
    empty = gzip.compress(b"")
    many = Counted(first + empty * MAX_GZIP_MEMBERS * 5)
    listed = read_sitemap(many, BASE)
    assert [entry.url for entry in listed.urls] == ["http://example.org/a"]
    assert listed.error == f"more than {MAX_GZIP_MEMBERS:,} gzip members"
    assert many.handed <= MAX_GZIP_MEMBERS * 3 * FIRST_PIECE


# -- lists


@given(
    st.lists(st.sampled_from(["/a", "/b?x=1&y=2", "/é"]), max_size=6),
    st.sampled_from(["\n", "\r", "\r\n", "\r\r", "\n \n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"]),
    st.booleans(),
)
def test_plain_list_has_one_url_per_line(paths: list[str], end: str, codec: str, packed: bool) -> None:
    text = end.join(f"http://example.org{path}" for path in paths)
    body = text.encode(codec)
    wanted = [path.replace("é", "%C3%A9") for path in paths]
    assert found(gzip.compress(body) if packed else body) == wanted


# -- feeds


ITEM = "<item><title>x</title><link>{}</link><pubDate>Sun, 15 Nov 2026 10:00:00 GMT</pubDate></item>"
RSS = "<rss version='2.0'><channel><link>/home</link>{}</channel></rss>"
FEEDS = {
    "RSS 2.0": RSS.format(ITEM.format("/1") + ITEM.format("/2")),
    "RSS 0.91": "<rss version='0.91'><channel>" + ITEM.format("/1") + ITEM.format("/2") + "</channel></rss>",
    "RSS 1.0": "<rdf:RDF xmlns='http://purl.org/rss/'><channel rdf:about='/c'><link>/home</link></channel>"
    "<item rdf:about='/1'><link>/1</link><dc:date>2026</dc:date></item><item rdf:about='/2'/></rdf:RDF>",
    "RSS with pictures": RSS.format(
        "<image><url>/i.png</url><link>/home</link></image>"
        "<item><image><url>/i.png</url><link>/no</link></image><link>/1</link></item>"
        "<item><link>/2</link><image><url>/i.png</url><link>/no</link></image></item>"
    ),
    "RSS with Atom links": RSS.format(
        "<atom:link rel='self' href='/no'/><item><atom:link rel='replies' href='/no'/><link>/1</link></item>"
        "<item><link>/2</link><atom:link rel='alternate' href='/no'/></item>"
    ),
    "RSS with permanent links": RSS.format(
        "<item><guid>http://example.org/1</guid></item>"
        "<item><guid isPermaLink='false'>http://example.org/no</guid></item>"
        "<item><guid isPermaLink='true'>http://example.org/2</guid></item>"
    ),
    "RSS with pages in it": RSS.format(
        "<item><description><![CDATA[<item><link>/no</link></item>]]></description><link>/1</link></item>"
        "<item><description><p>a<br>b<a href='/no'>c</a></description><link><![CDATA[ /2 ]]></link></item>"
    ),
    "Atom": "<feed><link href='/home'/><entry><link href='/1'/><updated>2026</updated></entry>"
    "<entry><link rel='self' href='/no'/><link rel='via' href='/no'/>"
    "<link rel='ALTERNATE' href='/2'/></entry></feed>",
    "Atom with sources": "<a:feed><a:entry><a:source><a:link href='/no'/></a:source><a:link href='/1'/>"
    "</a:entry><a:entry><a:link href='/2'></a:link><a:link href='/no'/></a:entry></a:feed>",
    "JSON Feed": '{"version":"https://jsonfeed.org/version/1.1","title":"x","items":[{"id":"1","url":"/1"},'
    '{"id":2,"url":null},{"id":"2","url":" /2 ","date_modified":"2026"},{"id":"3"},17]}',
}


@pytest.mark.parametrize("text", FEEDS.values(), ids=FEEDS.keys())
def test_feeds_of_all_kinds_are_read(text: str) -> None:
    assert found(text) == ["/1", "/2"]


def test_atom_link_is_relative_to_the_enclosing_base() -> None:
    entries = (
        "<entry><link href='a'/></entry><entry xml:base='deep/'><link href='b'/></entry>"
        "<entry><link xml:base='http://example.org/other/' href='c'/></entry><entry><link href='d'/></entry>"
    )
    assert found(f"<feed xml:base='http://example.org/base/'>{entries}</feed>") == [
        "/base/a",
        "/base/deep/b",
        "/other/c",
        "/base/d",
    ]
    assert found("<feed><entry><link href='a'/></entry></feed>") == ["/dir/a"]


@pytest.mark.parametrize(
    "text", ['{"items":[{"url":"/a"}]}', "{", '{"version":"jsonfeed.org","items":{}}', "[" * 10_000, '{"a":' * 10_000]
)
def test_other_json_is_not_a_feed(text: str) -> None:
    assert read_sitemap(text.encode(), BASE).urls == []


# -- arbitrary bytes


VALID = [urlset("/a", "/b&amp;c", "<![CDATA[/d]]>").encode(), b"http://example.org/a\r\nhttp://example.org/b\n"]
VALID += [urlset("/a", declaration='<?xml version="1.0" encoding="shift_jis"?>').encode()]
VALID += [text.encode() for text in FEEDS.values()]
VALID += [FEEDS["Atom"].encode("utf-16"), gzip.compress(VALID[0]), gzip.compress(VALID[0]) * 2]
NASTY = (
    b"<|>|&|]]>|<![CDATA[|<!--|-->|<?xml|?>|<!ENTITY|\x00|\xff\xfe|\x1f\x8b|encoding='hz'|\x1b$B|~{|"
    b"&#x110000;|<url>|</url>|xml:base='//['|\xed\xa0\x80"
).split(b"|")


def test_equivalent_files_are_read_without_error() -> None:
    chance = random.Random(7)
    for _ in range(4000):
        body = bytearray(chance.choice(VALID))
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(body) + 1)
            match chance.randrange(4):
                case 0:
                    body[place:place] = chance.choice(NASTY)
                case 1:
                    del body[place : place + chance.randint(1, 20)]
                case 2:
                    body[place : place + 1] = bytes([chance.randrange(256)])
                case _:
                    other = chance.choice(VALID)
                    body[place:place] = other[chance.randrange(len(other)) :]
        listed = read_sitemap(bytes(body), BASE, limit_bytes=chance.choice([10, 100, 100_000]))
        assert isinstance(listed, Sitemap)


labels = st.sampled_from(
    [*sorted(LABELS), "ANSI", "utf8mb4", "rot13", "hex", "zlib", "idna", "punycode", "unicode_escape"]
)


escapes = st.sampled_from(
    [b"\x1b", b"\x1b$", b"\x1b$B", b"\x1b(I", b"\x1b$)C", b"~{", b"~}", b"\x0e", b"\x8f", b"\x81"]
)


@given(labels, st.lists(st.binary(max_size=40) | escapes, max_size=12).map(b"".join))
@example("hz-gb-2312", b"~{\xff\xff~")
@example("iso-2022-jp", b"\xcb\x1d\x1b$\x1c\xca\x0f\x01\xdc\x00\xd8")
@example("iso-2022-kr", b"~}\xeel\x1b$|\x15~}\xcc4\x8es")
def test_arbitrary_bytes_in_any_encoding_never_raise(label: str, rest: bytes) -> None:
    read_sitemap(b"<?xml version='1.0' encoding='" + label.encode() + b"'?><urlset>" + rest, BASE)


@given(st.text(st.sampled_from("<>&!-[]?/'\"= ab:CDATA"), max_size=120), st.lists(st.integers(0, 120), max_size=6))
def test_segmentation_does_not_matter(text: str, cuts: list[int]) -> None:
    class Told:
        """Parse events, with adjacent texts joined."""

        def __init__(self) -> None:
            self.said: list[tuple[str, str]] = []

        def start(self, name: str, attributes: str) -> None:
            self.said.append(("start", name + attributes))

        def end(self, name: str) -> None:
            self.said.append(("end", name))

        def text(self, text: str) -> None:
            if self.said and self.said[-1][0] == "text":
                text = self.said.pop()[1] + text
            if text:
                self.said.append(("text", text))

    whole, pieces = Told(), Told()
    stream = XmlStreamParser(whole)
    stream.feed(text)
    places = sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    parts = XmlStreamParser(pieces)
    for a, b in pairwise(places):
        parts.feed(text[a:b])
    assert pieces.said == whole.said


@given(st.text(max_size=50))
def test_escaping_is_undone(text: str) -> None:
    assert unescape(escape(text)) == text


ENDLESS = (
    b"<url><loc>/a|<a href='|<![CDATA[|&amp|<!--|<?|<!|</|<a |'|<feed xml:base='a/'>|<item rdf:about='x'>|\r"
).split(b"|")


@pytest.mark.parametrize("piece", ENDLESS)
@pytest.mark.parametrize("start", [b"<urlset>", b'{"items":['])
def test_endless_errors_take_bounded_memory(start: bytes, piece: bytes) -> None:
    body = start + piece * (150_000 // len(piece))
    tracemalloc.start()
    try:
        read_sitemap(body, BASE, limit_urls=100)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000


@pytest.mark.parametrize("piece", ["<", "<a/>", "<!x>", "<url></url>"])
def test_number_of_tags_is_limited(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(piece * 400 + urlset("/a")) == ["/a"]
    monkeypatch.setattr(xml_stream, "MAX_TAGS", 300)
    listed = read_sitemap((piece * 400 + urlset("/a")).encode(), BASE)
    assert listed == Sitemap([], [], error="too many tags")
