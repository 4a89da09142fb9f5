"""Reading a page: against the standard library's parser, and against what broken pages do."""

from __future__ import annotations

from html import escape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.indexer.language import guess
from fieldmouse.indexer.parse import Rules, parse, read_robots_tag
from fieldmouse.url import Url

HERE = Url("http://example.org/a/b.html")


class Oracle(HTMLParser):
    """Hrefs and text as the standard library sees them; good for well-formed pages."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.hrefs: list[str] = []
        self.words: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "style"):
            self._silent += 1
        rel = (given.get("rel") or "").lower().split()
        if tag in ("a", "area") and given.get("href") is not None and "nofollow" not in rel:
            self.hrefs.append(given["href"] or "")
        if tag == "iframe" and given.get("src"):
            self.hrefs.append(given["src"] or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._silent -= 1

    def handle_data(self, text: str) -> None:
        if not self._silent:
            self.words += text.split()


texts = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="\ufeff"), max_size=12)
attributes = st.lists(st.tuples(st.sampled_from(["class", "title", "rel", "REL"]), texts), max_size=2)
hrefs = st.sampled_from(["/x", "y.html", "?q=1&r=2", "http://a.b/c d", "é", ""]) | texts


def element(name: str, href: str, extra: list[tuple[str, str]], words: str) -> str:
    more = "".join(f' {key}="{escape(value)}"' for key, value in dict(extra).items())
    return f'<{name} href="{escape(href)}"{more}>{escape(words)}</{name}> '


pieces = st.one_of(
    st.builds(lambda words: f"<p>{escape(words)} </p>", texts),
    st.builds(element, st.sampled_from(["a", "A"]), hrefs, attributes, texts),
    st.builds(lambda h, w: f"<a href='{escape(h)}' rel='x NoFollow'>{escape(w)}</a> ", hrefs, texts),
    st.builds(lambda h: f'<map><area href="{escape(h)}"></map>', hrefs),
    st.builds(lambda h: f"<iframe src='{escape(h)}'></iframe>", hrefs),
    st.just("<script>var a = '<a href=/no>no</a>';</script>"),
    st.just("<style>a { color: red }</style>"),
    st.just("<!-- <a href=/hidden>hidden</a> -->"),
)


@given(st.lists(pieces, max_size=12))
def test_links_and_text_are_those_the_standard_library_finds(parts: list[str]) -> None:
    html = f"<!doctype html><html><head></head><body>{''.join(parts)}</body></html>"
    oracle = Oracle()
    oracle.feed(html)
    page = parse(html, HERE)
    assert page.hrefs == oracle.hrefs
    assert page.text.split() == oracle.words
    assert parse(html.encode(), HERE) == page


@given(st.binary(max_size=400) | st.text("<>/=\"'!-& aehrf#;x[]?\0", max_size=200).map(str.encode))
def test_whatever_the_bytes_a_page_comes_of_it(junk: bytes) -> None:
    page = parse(junk, HERE)
    for href in page.hrefs:
        href.encode()
    page.text.encode()
    page.title.encode()


def test_a_head_is_read_whole() -> None:
    page = parse(
        b"""<html lang="de-AT"><head><base href="/base/"><title> A
        title &amp; more </title><link rel=canonical href=c.html><link rel=stylesheet href=s.css>
        <link rel="next" href="n.html"><link rel="alternate" type="application/rss+xml" href="feed">
        <link rel=icon href=i.png><meta http-equiv=Refresh content="3; URL='r.html'">
        <base href="/second/"></head><body><a href=x>x</a>""",
        HERE,
    )
    assert page.title == "A title & more"
    assert page.language == "de-at"
    assert page.base == "http://example.org/base/"
    assert page.canonical == "http://example.org/base/c.html"
    assert page.hrefs == ["c.html", "n.html", "r.html", "x"]


@pytest.mark.parametrize(
    ("markup", "nofollow", "noindex"),
    [
        ("<meta name=robots content=nofollow>", True, False),
        ("<META NAME=ROBOTS CONTENT='NoIndex, Follow'>", False, True),
        ("<meta name=robots content=none>", True, True),
        ("<meta name=fieldmouse content=noindex><meta name=robots content=nofollow>", True, True),
        ("<meta name=otherbot content=none>", False, False),
        ("<meta name=robots content='index, follow'>", False, False),
        ("<p><meta name=robots content=noindex>", False, True),
    ],
)
def test_meta_robots_is_understood(markup: str, nofollow: bool, noindex: bool) -> None:
    rules = parse(markup, HERE).rules
    assert (rules.nofollow, rules.noindex) == (nofollow, noindex)


@pytest.mark.parametrize(
    ("tag", "nofollow", "noindex"),
    [
        ("noindex, nofollow", True, True),
        ("otherbot: noindex, nofollow", False, False),
        ("otherbot: noindex, fieldmouse: nofollow", True, False),
        ("unavailable_after: 25 Jun 2030 15:00:00 PST, noindex", False, True),
        ("Fieldmouse: NONE", True, True),
        ("max-snippet: 5", False, False),
    ],
)
def test_robots_tags_in_headers_are_understood(tag: str, nofollow: bool, noindex: bool) -> None:
    rules = Rules()
    read_robots_tag(tag, rules)
    assert (rules.nofollow, rules.noindex) == (nofollow, noindex)


def test_deep_nesting_is_read_as_long_as_it_is_cheap() -> None:
    depth = 3000
    page = parse(b"<div>" * depth + b"deep <a href=/x>down</a>" + b"</div>" * depth, HERE)
    assert page.hrefs == ["/x"]
    assert page.text.split() == ["deep", "down"]


@pytest.mark.parametrize(
    "tag", [b"<b>", b"<a href=x>", b"<table><tr><td>", b"<p><i>", b"<svg><g>", b"<!--", b"<"]
)
def test_unclosed_tags_without_number_cost_bounded_work(tag: bytes) -> None:
    assert len(parse(tag * 20_000, HERE).hrefs) <= 20_000


def test_huge_attributes_and_nul_bytes_do_no_harm() -> None:
    page = parse(b"<a href='" + b"x" * 1_000_000 + b"'>a</a><a hr\0ef=/n>\0b\0</a><a href=/ok>c</a>", HERE)
    assert page.hrefs[-1] == "/ok"


def test_elements_within_elements_that_are_left_out_are_left_out_once() -> None:
    page = parse(
        "<body><template><style>a</style><script src=x>b</script><p>c<style>d</style></template>"
        "<script><!-- <style>e</style> --></script><p>kept<svg><title>drawn</title><style>f</style></svg>",
        HERE,
    )
    assert page.text.split() == ["kept", "drawn"]


@pytest.mark.parametrize("markup", ["<a src=x>", "<a content=x>", "<area src=x>", "<base src=x>", "<a href>"])
def test_elements_without_their_attribute_are_no_links(markup: str) -> None:
    page = parse(markup, HERE)
    assert (page.hrefs, page.anchors, page.base) == ([], 0, HERE)


def test_an_element_with_both_attributes_is_one_link() -> None:
    page = parse("<a href=/x src=/y content=z>x</a>", HERE)
    assert (page.hrefs, page.anchors) == (["/x"], 1)


def test_the_title_is_that_of_the_head() -> None:
    assert parse("<svg><title>drawn</title></svg><p>x", HERE).title == "drawn"
    assert (
        parse("<head><title>written</title></head><svg><title>drawn</title></svg>", HERE).title == "written"
    )


def test_what_is_written_for_readers_without_scripts_is_read() -> None:
    page = parse("<body><noscript><p>plain <a href=/x>x</a></noscript> <p>after <a href=/y>y</a>", HERE)
    assert page.hrefs == ["/x", "/y"]
    assert page.text.split() == ["plain", "x", "after", "y"]


def test_frames_are_followed() -> None:
    assert parse("<frameset><frame src=/left><frame src=/right></frameset>", HERE).hrefs == [
        "/left",
        "/right",
    ]


def test_language_comes_from_the_header_if_the_page_is_silent() -> None:
    assert parse("<p>x", HERE, language="pt-BR, en").language == "pt-br"
    assert parse("<html lang=fr><p>x", HERE, language="pt").language == "fr"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "the mouse that lives in the field is not the one which was seen by the barn at night"),
        ("de", "die Maus ist nicht in dem Haus und das Feld ist von der Stadt auf dem Weg zu sehen"),
        ("fr", "la souris est dans le champ et les chats ne sont pas avec elle sur la route de la ville"),
        ("", "xq zv wk lorem qpr stu vwx yza bcd efg hij klm nop"),
        ("", "short"),
    ],
)
def test_a_language_is_guessed_only_when_it_shows(language: str, text: str) -> None:
    assert guess(text) == language
