"""Tests of the HTML parser, against the standard library's parser and with broken pages."""

from __future__ import annotations

from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fieldmouse.config.sections import CrawlSection
from fieldmouse.config.settings_file import Settings
from fieldmouse.crawler.builder import worker_config
from fieldmouse.parse.html import RobotsDirectives, parse_html, parse_robots_tag, refresh_target
from fieldmouse.parse.language import guess_language
from fieldmouse.policy.scope import Scope
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.url import Url

HERE = Url("http://example.org/a/b.html")


class Oracle(HTMLParser):
    """Hrefs and text according to the standard library; valid for well-formed pages."""

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
def test_links_and_text_agree_with_the_standard_library(parts: list[str]) -> None:
    html = f"<!doctype html><html><head></head><body>{''.join(parts)}</body></html>"
    oracle = Oracle()
    oracle.feed(html)
    page = parse_html(html, HERE)
    assert page.hrefs == oracle.hrefs
    assert page.text.split() == oracle.words
    assert parse_html(html.encode(), HERE) == page


@given(st.binary(max_size=400) | st.text("<>/=\"'!-& aehrf#;x[]?\0", max_size=200).map(str.encode))
def test_arbitrary_bytes_give_a_page(junk: bytes) -> None:
    page = parse_html(junk, HERE)
    for href in page.hrefs:
        href.encode()
    page.text.encode()
    page.title.encode()


def test_head_is_read_completely() -> None:
    page = parse_html(
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
        ("<meta name=robots content='noindex nofollow'>", True, True),
        ("<meta name=robots content='noindex;nofollow'>", True, True),
        ("<meta name=robots content='index;\tNOFOLLOW'>", True, False),
        ("<meta name=robots content='noindexing, follow-none'>", False, False),
    ],
)
def test_meta_robots_is_parsed(markup: str, nofollow: bool, noindex: bool) -> None:
    rules = parse_html(markup, HERE).rules
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
        ("noindex nofollow", True, True),
        ("noindex; nofollow", True, True),
        ("max-snippet: 5; noindex", False, True),
        ("noindex max-snippet: 5, nofollow", True, True),
        ("otherbot: noindex; fieldmouse: nofollow", True, False),
        ("otherbot: noindex nofollow", False, False),
        ("fieldmouse: noindex nofollow", True, True),
        ("nofollow otherbot: noindex", True, False),
        ("unavailable_after: Friday, 25-Jun-30 15:00:00 PST, noindex", False, True),
    ],
)
def test_x_robots_tag_headers_are_parsed(tag: str, nofollow: bool, noindex: bool) -> None:
    rules = RobotsDirectives()
    parse_robots_tag(tag, rules)
    assert (rules.nofollow, rules.noindex) == (nofollow, noindex)


@pytest.mark.parametrize(
    ("markup", "hrefs"),
    [
        ("<svg><a xlink:href=/a>x</a></svg>", ["/a"]),
        ("<svg><g><a xlink:href=/a><text>x</text></a><a href=/b xlink:href=/c /></g></svg>", ["/a", "/b"]),
        ("<svg><a xlink:href=/a rel=nofollow>x</a></svg>", []),
        ("<a xlink:href=/a>x</a>", []),
        ("<svg><foreignObject><a xlink:href=/a>x</a><a href=/b>x</a></foreignObject></svg>", ["/b"]),
        ("<math><a xlink:href=/a>x</a></math>", []),
    ],
)
def test_svg_links_are_followed(markup: str, hrefs: list[str]) -> None:
    page = parse_html(markup, HERE)
    assert page.hrefs == hrefs
    assert "x" in page.text or "text" in markup


@pytest.mark.parametrize(
    ("markup", "base"),
    [
        ("<svg><base href=/drawn/></svg><a href=x>", HERE),
        ("<svg><base href=/drawn/></svg><base href=/b/><a href=x>", "http://example.org/b/"),
        ("<svg><g><a><base href=/drawn/></a></g></svg><p><base href=/b/>", "http://example.org/b/"),
        ("<svg><foreignObject><base href=/b/></foreignObject></svg><base href=/second/>", "http://example.org/b/"),
        ("<math><base href=/drawn/></math>", HERE),
    ],
)
def test_only_an_html_base_element_changes_the_base(markup: str, base: str) -> None:
    assert parse_html(markup, HERE).base == base


def test_cheap_deep_nesting_is_read() -> None:
    depth = 3000
    page = parse_html(b"<div>" * depth + b"deep <a href=/x>down</a>" + b"</div>" * depth, HERE)
    assert page.hrefs == ["/x"]
    assert page.text.split() == ["deep", "down"]


@pytest.mark.parametrize("tag", [b"<b>", b"<a href=x>", b"<table><tr><td>", b"<p><i>", b"<svg><g>", b"<!--", b"<"])
def test_many_unclosed_tags_cost_bounded_work(tag: bytes) -> None:
    assert len(parse_html(tag * 20_000, HERE).hrefs) <= 20_000


def test_huge_attributes_and_nul_bytes_do_no_harm() -> None:
    page = parse_html(b"<a href='" + b"x" * 1_000_000 + b"'>a</a><a hr\0ef=/n>\0b\0</a><a href=/ok>c</a>", HERE)
    assert page.hrefs[-1] == "/ok"


def test_nested_hidden_elements_are_removed_once() -> None:
    page = parse_html(
        "<body><template><style>a</style><script src=x>b</script><p>c<style>d</style></template>"
        "<script><!-- <style>e</style> --></script><p>kept<svg><title>drawn</title><style>f</style></svg>",
        HERE,
    )
    assert page.text.split() == ["kept", "drawn"]


@pytest.mark.parametrize("markup", ["<a src=x>", "<a content=x>", "<area src=x>", "<base src=x>", "<a href>"])
def test_elements_without_href_are_not_links(markup: str) -> None:
    page = parse_html(markup, HERE)
    assert (page.hrefs, page.anchors, page.base) == ([], 0, HERE)


def test_an_element_with_both_attributes_is_one_link() -> None:
    page = parse_html("<a href=/x src=/y content=z>x</a>", HERE)
    assert (page.hrefs, page.anchors) == (["/x"], 1)


def test_the_title_is_that_of_the_head() -> None:
    assert parse_html("<head><title>written</title></head><svg><title>drawn</title></svg>", HERE).title == "written"
    assert parse_html("<p>x<title>late</title><title>later</title>", HERE).title == "late"


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        ("<svg><title>drawn</title></svg><p>x", ""),
        ("<p><svg><g><a><title>drawn</title></a></g></svg><title>written</title>", "written"),
        ("<math><title>formula</title></math>", ""),
        ("<svg><foreignObject><title>written</title></foreignObject></svg>", "written"),
        ("<svg><desc><title>written</title></desc></svg>", "written"),
        ("<math><mi><title>written</title></mi></math>", "written"),
        ("<title>Donau\xaddampf</title>", "Donaudampf"),
    ],
)
def test_svg_title_is_not_the_page_title(markup: str, title: str) -> None:
    assert parse_html(markup, HERE).title == title


def test_many_titles_in_deep_svg_cost_little() -> None:
    page = parse_html("<svg>" + "<g>" * 1000 + "<title>drawn</title>" * 5000, HERE)
    assert page.title == ""
    page = parse_html("<svg>" + "<title>drawn</title>" * 50 + "</svg><title>written</title>", HERE)
    assert page.title == "written"


def test_noscript_content_is_read() -> None:
    page = parse_html("<body><noscript><p>plain <a href=/x>x</a></noscript> <p>after <a href=/y>y</a>", HERE)
    assert page.hrefs == ["/x", "/y"]
    assert page.text.split() == ["plain", "x", "after", "y"]


INLINE = "a abbr b big cite code em font i kbd mark q s samp small span strong sub sup tt u var ins del".split()
BLOCKS = (
    "address article aside blockquote center dd details dialog div dl dt fieldset figcaption figure footer "
    "form h1 h2 h3 h4 h5 h6 header hgroup li main menu nav ol p pre section summary ul"
).split()


@pytest.mark.parametrize("name", INLINE)
def test_inline_tag_does_not_split_a_word(name: str) -> None:
    assert parse_html(f"<p>Hyper<{name}>Text</{name}>s", HERE).text == "HyperTexts"
    assert parse_html(f"<p><{name}>Hyper</{name}><{name}></{name}>Text", HERE).text == "HyperText"
    assert parse_html(f"<p>two <{name}>words</{name}> here", HERE).text.split() == ["two", "words", "here"]


@pytest.mark.parametrize("name", BLOCKS)
def test_block_separates_words(name: str) -> None:
    assert parse_html(f"<div>one<{name}>two</{name}>three</div>", HERE).text.split() == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("markup", "words"),
    [
        ("I<sup>2</sup>C", "I2C"),
        ("<b>W</b>orld <i>W</i><i>ide</i>", "World Wide"),
        ("one<br>two<hr>three", "one two three"),
        ("<table><tr><td>1<td>2<th>3</table>4", "1 2 3 4"),
        ("<table><caption>a</caption><tr><td>b</td></tr></table>", "a b"),
        ("<ul><li>a<li>b</ul>c", "a b c"),
        ("<select><option>a<option>b</select>", "a b"),
        ("<a href=x><div>a</div></a>b", "a b"),
        ("super<wbr>cali<wbr>fragilistic", "supercalifragilistic"),
        ("Donau&shy;dampf\xadschiff", "Donaudampfschiff"),
        ("un<!-- a comment -->broken", "unbroken"),
        ("un<script>1</script>broken", "unbroken"),
        ("a<img src=x>b", "a b"),
        ("x<iframe><p>raw</p></iframe>y", "xy"),
        ("<p>x<noembed>raw</noembed><noframes>raw</noframes><p>y", "x y"),
        ("<p>x<noscript><b>for</b> us</noscript>", "x for us"),
        ("<p>x<textarea>typed</textarea><xmp><b></xmp>", "x typed <b>"),
        ("<p>x<template><p>never</template>", "x"),
    ],
)
def test_words_are_as_displayed(markup: str, words: str) -> None:
    assert parse_html(f"<body>{markup}", HERE).text.split() == words.split()


def refreshed(content: str) -> str | None:
    """The shared declarative refresh steps of the HTML standard, step by step, letter by letter."""
    space, digits = "\t\n\f\r ", "0123456789"
    end, at = len(content), 0

    def skip(letters: str) -> None:
        nonlocal at
        while at < end and content[at] in letters:
            at += 1

    skip(space)
    began = at
    skip(digits)
    if at == began and content[at : at + 1] != ".":
        return None
    skip(digits + ".")
    if at < end:
        if content[at] not in ";," + space:
            return None
        skip(space)
        if at < end and content[at] in ";,":
            at += 1
        skip(space)
    if at >= end:
        return None
    target = content[at:]
    if content[at] in "uU":
        for letters in ("uU", "rR", "lL"):
            if at >= end or content[at] not in letters:
                return target
            at += 1
        skip(space)
        if at >= end or content[at] != "=":
            return target
        at += 1
        skip(space)
    quote = content[at : at + 1]
    if quote and quote in "'\"":
        return content[at + 1 :].partition(quote)[0]
    return content[at:]


@given(st.lists(st.sampled_from([*"01.;,= urlURL'\"x/\t\n\x0b\xa0", "url=", "0;"]), max_size=12).map("".join))
@example("0; foo")
@example('1; url="foo"bar')
@example("1url=foo")
@example(".5,URL = 'x")
@example("0;urlx")
@example("0;ur")
@example("+1;url=x")
def test_refresh_target_follows_the_standard(content: str) -> None:
    assert refresh_target(content) == (refreshed(content) or "")


def test_long_refresh_is_parsed_quickly() -> None:
    for filler in (" ", "1", "1.", ";", "url ", "'"):
        parse_html(f'<meta http-equiv=refresh content="0{filler * 500_000}">', HERE)


@pytest.mark.parametrize(
    ("markup", "base"),
    [
        ("<base href=''><base href='/second/'>", HERE),
        ("<base href><base href='/second/'>", HERE),
        ("<base target=x><base href='/second/'>", "http://example.org/second/"),
        ("<base href='javascript:1'><base href='/second/'>", HERE),
        ("<base href=' /b '>", "http://example.org/b"),
    ],
)
def test_the_first_base_with_an_href_counts(markup: str, base: str) -> None:
    assert parse_html(markup, HERE).base == base


@pytest.mark.parametrize("robot", ["mybot", "fieldmouse"])
def test_robots_rules_match_the_configured_name(robot: str) -> None:
    other = "fieldmouse" if robot == "mybot" else "mybot"
    for name, ours in ((robot, True), (robot.upper(), True), (other, False), ("robots", True)):
        page = parse_html(f"<meta name='{name}' content=noindex>", HERE, robot=robot)
        assert page.rules.noindex is ours
    assert parse_html("x", HERE, tags=[f"{robot}: nofollow"], robot=robot).rules.nofollow
    assert not parse_html("x", HERE, tags=[f"{other}: nofollow"], robot=robot).rules.nofollow


def test_robots_name_comes_from_the_user_agent(tmp_path: Path) -> None:
    asked = Settings(crawl=CrawlSection(product="MyBot/1.0", contact="me@example.org"))
    home = CrawlDir.create(tmp_path / "atlas", shards=1, settings=b"")
    assert worker_config(home, asked, Scope()).robot == "mybot"


def test_frames_are_followed() -> None:
    assert parse_html("<frameset><frame src=/left><frame src=/right></frameset>", HERE).hrefs == ["/left", "/right"]


def test_language_comes_from_the_header_if_the_page_has_none() -> None:
    assert parse_html("<p>x", HERE, language="pt-BR, en").language == "pt-br"
    assert parse_html("<html lang=fr><p>x", HERE, language="pt").language == "fr"


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
def test_language_is_guessed_only_with_evidence(language: str, text: str) -> None:
    assert guess_language(text) == language


def test_link_queries_are_encoded_in_the_page_charset() -> None:
    html = (
        "<link rel=canonical href='?k=\u00e4'>"
        "<link rel=alternate type=application/rss+xml href='/f?k=\u00e4'>"
        "<a href='/s?k=\u00e4'>x</a>"
    )
    read = parse_html(html, Url("http://example.org/"), charset="cp1252")
    assert (read.canonical, read.feeds) == ("http://example.org/?k=%E4", ["/f?k=%E4"])
    assert read.hrefs == ["?k=%E4", "/s?k=%E4"]
