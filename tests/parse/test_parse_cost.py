"""Tests of the parse cost limit with pages that are expensive to parse."""

from __future__ import annotations

import random

import pytest
from selectolax.lexbor import LexborHTMLParser

from fieldmouse.parse.html import parse_html
from fieldmouse.parse.html_parse_cost import (
    MAX_ATTRIBUTES,
    MAX_COMPARISONS,
    SMALL_PAGE,
    ParseCost,
    _may_hold_a_long_tag,
    _scan_tags,
    limit_parse_cost,
)
from fieldmouse.url import Url

HERE = Url("http://example.org/a/b.html")
BEFORE = b"<a href=/before>x</a>"


def numbered(tag: bytes, times: int) -> bytes:
    """Return `times` tags, each with a different attribute, so that they are not equal."""
    return b"".join(tag.replace(b"@", b"n%d" % n) for n in range(times))


MAZES = {
    "elements in elements": b"<div>" * 800_000,
    "end tags of others": b"<div></b>" * 400_000,
    "much at depth": b"<div>" * 4000 + b"<p></p>" * 400_000,
    "formatting, all different": numbered(b"<b @>", 300_000),
    "end tags in attributes": b'<div title="</div>">' * 100_000,
    "end tags in scripts": b"<div><script></div></script>" * 100_000,
    "end tags in scripts in scripts": b"<div><script><!--<script></script></div></script>" * 50_000,
    "end tags in comments": b"<div><!-- </div> -->" * 100_000,
    "end tags in drawn text": b"<svg>" + b"<g><![CDATA[></g>]]>" * 100_000 + b"</q>" * 100_000,
    "end tags out of scope": b"<div><object></div></object>" * 100_000,
    "end tags behind blocks": b"<span><div></span></div>" * 100_000,
    "items in terms in items": b"<dd><li>" * 300_000,
    "rows in drawings": b"<svg>" + b"<tr>" * 200_000 + b"</q>" * 200_000,
    "formatting left open in blocks": numbered(b"<p><font @>", 100_000),
    "formatting left open in items": numbered(b"<li><i @>x", 100_000),
    "formatting left open around a table": numbered(b"<table><b @><tr>", 100_000),
    "a small page of formatting": numbered(b"<b @><p>", 4000),
    "attributes": b"<p " + numbered(b"@ ", 100_000) + b">",
    "attributes with values": b"<p " + numbered(b"@='>' ", 100_000) + b">",
    "attributes between slashes": b"<p/" + numbered(b"@/", 100_000) + b">",
    "attributes that look like tags": b"<p " + numbered(b"<@ ", 100_000) + b">",
    "attributes among few of those": b"<p " + numbered(b"<a @ ", 2000) + numbered(b"x@ ", 100_000) + b">",
    "attributes of an end tag": b"</p " + numbered(b"@ ", 100_000) + b">",
    "attributes never closed": b"<p " + numbered(b"@ ", 100_000),
    "attributes of many tags": (b"<p " + numbered(b"@ ", 4000) + b">") * 40,
    "attributes added to the first body": numbered(b"<body @>", 50_000),
}


@pytest.mark.parametrize("name", MAZES)
def test_too_expensive_page_is_cut_with_reason(name: str) -> None:
    maze = MAZES[name]
    kept, trouble = limit_parse_cost(BEFORE + maze)
    assert kept.startswith(BEFORE)
    assert len(kept) < len(BEFORE + maze) / 2
    assert trouble
    page = parse_html(BEFORE + maze, HERE)
    assert page.hrefs == ["/before"]
    assert page.parse_error == trouble


def test_limit_on_attributes_is_in_the_reason() -> None:
    _, trouble = limit_parse_cost(MAZES["attributes"])
    assert trouble == f"a tag has more than {MAX_ATTRIBUTES:,} attributes; read up to it"


def test_everything_before_a_bad_tag_is_kept() -> None:
    text = b"".join(b"<p>word%d <a href=/%d>x</a>" % (n, n) for n in range(3000))
    page = parse_html(text + MAZES["attributes"], HERE)
    assert len(page.hrefs) == 3000
    assert "word2999" in page.text


@pytest.mark.parametrize(
    "page",
    [
        b"<div><p>a<li>b<br><td><b>c</b></div>" * 50_000,
        b"<table>" + b"<tr><td>a<td><font color=red>b<td>c" * 20_000 + b"</table>",
        b"<ul>" + b"<li><a href=x class=y>z</a> <i class=w>v</i>" * 20_000 + b"</ul>",
        b"<p><font color=red>x" * 20_000,
        b"<svg>" + b'<path d="m1 2"/><g><use href="#x" /></g>' * 20_000 + b"</svg>",
        b"<script>" + b'{"a": "b", "c": [1, 2, 3]}, ' * 20_000 + b"</script><p>x",
        b"<pre>" + b"a line of text without any markup\n" * 20_000 + b"</pre>",
        b"<img src='data:image/png;base64," + b"QUJD" * 100_000 + b"'><p>x",
        b"<dl>" + b"<dt>a<dd>b<p>c" * 30_000,
        b"<select>" + b"<option value=1>a" * 30_000,
        b"<p title='" + b"a " * 100_000 + b"'>",
    ],
)
def test_large_ordinary_pages_are_not_cut(page: bytes) -> None:
    assert limit_parse_cost(page) == (page, "")


# The estimate against the parser. Tags are drawn at random and repeated, so that an error in one round grows
# with the rounds.

NAMES = (
    "div p b i font a nobr span li ul dd dt table tr td th caption tbody object template svg g title math mi "
    "annotation-xml form button select option optgroup h1 h2 script style textarea q foreignObject desc pre "
    "br img source hr input ruby rt noscript marquee em code section search applet mglyph col iframe "
    "plaintext"
).split()
ODD = ["<!--", "-->", "<![CDATA[", "]]>", "<!-->", "</>", "<font color=red>", "<script><!--<script></script>"]
ROUNDS = 50


def tag_soup(dice: random.Random) -> bytes:
    def tag() -> str:
        name, chance = dice.choice(NAMES), dice.random()
        forms = [f"<{name}>"] * 9 + [f"<{name} @=1>"] * 2 + [f"<{name}/>", f"<{name} a=b/>", "x", dice.choice(ODD)]
        forms += [f'<{name} x="</{dice.choice(NAMES)}>">'] + [f"</{name}>"] * 6
        return forms[int(chance * len(forms))]

    before = "".join(tag() for _ in range(dice.choice((0, 0, 1, 3))))
    again = "".join(tag() for _ in range(dice.randint(1, 7)))
    return (before + "".join(again.replace("@", f"n{n}") for n in range(ROUNDS))).encode()


def tree_of(html: bytes) -> tuple[int, int]:
    """Depth of the tree and number of its elements, as parsed."""
    root = LexborHTMLParser(html).root
    depth = count = 0
    waiting = [(root, 1)]
    while waiting:
        node, level = waiting.pop()
        depth, count = max(depth, level), count + 1
        child = node.child if node is not None else None
        while child is not None:
            if child.is_element_node:
                waiting.append((child, level + 1))
            child = child.next
    return depth, count


def test_estimated_cost_bounds_depth_and_size_of_the_tree() -> None:
    for seed in range(800):
        html = tag_soup(random.Random(seed))
        depth, count = tree_of(html)
        spent, deepest, starts = ParseCost(), 0, 0
        for at in _scan_tags(html, spent):
            deepest, starts = max(deepest, len(spent.elements.names)), starts + (html[at + 1 : at + 2] != b"/")
        # Rows and sections that a table gets implicitly, and a few for html, head and body.
        assert depth <= 4 * deepest + ROUNDS / 2, html
        assert count <= 2 * (starts + spent.elements.copies) + 3 * ROUNDS, html


def test_script_data_is_not_taken_for_a_tag() -> None:
    """Such pages are common, and reading them tag by tag would cost more than parsing them."""
    data = b",".join(b'"word%d":{"id":%d}' % (n, n) for n in range(20_000))
    assert not _may_hold_a_long_tag(b"<p>x</p><script>var data={" + data + b"}</script>" + b"<p>y</p>" * 10)


# Tags of many attributes, in every spelling and position.

STYLES = {
    "spaces": b"@ ",
    "lines": b"@\n",
    "slashes": b"@/",
    "bare values": b"@=1 ",
    "equals signs in bare values": b'@=b="x @=">" ',
    "names that begin with an equals sign": b'="x @=">" ',
    "quoted values": b'@="" ',
    "quoted values, nothing between": b'@=""',
    "single quotes, nothing between": b"@=''",
    "either quotes, nothing between": b"@=\"'\"@='\"'",
    "ends of tags in values": b'@=">"',
    "ends of tags in single quotes": b"@='>'",
    "ends of tags, far from the sign": b'@ =\t ">" ',
    "tags in values": b"@='<p a=\"b\">' ",
    "long values": b'@="' + b"> a=b " * 40 + b'"',
}


def many(style: bytes, times: int) -> bytes:
    pieces = style.split(b"@")
    names = (b"%x" % n for n in range(0x100, 1 << 30))
    return b"".join(pieces[0] + b"".join(next(names) + piece for piece in pieces[1:]) for _ in range(times))


@pytest.mark.parametrize("style", STYLES)
def test_tag_with_too_many_attributes_is_cut_in_every_spelling_and_position(style: str) -> None:
    inside = many(STYLES[style], MAX_ATTRIBUTES + 1)
    for shift in range(41):
        before = b"x" * (4096 - 20 + shift)
        page = before + b"<p " + inside
        assert len(limit_parse_cost(page + b">" + b"<p>y</p>" * 9 + b"z" * SMALL_PAGE)[0]) == len(before), shift
    for shift in range(SMALL_PAGE, SMALL_PAGE + 4096, 311):
        assert len(limit_parse_cost(b"x" * shift + b"<p " + inside)[0]) == shift


def test_values_longer_than_a_stride_hide_no_attributes() -> None:
    dense, quiet = many(b"@ ", 500), b' v="' + b"> a " * 3000 + b'" '
    for shift in range(0, 4096, 311):
        page = b"x" * shift + b"<p " + (dense + quiet) * 11 + b">"
        assert len(limit_parse_cost(page)[0]) == shift


def test_many_tags_with_many_attributes_are_cut() -> None:
    tag = b"<p " + many(b"@ ", 3000) + b">"
    kept, trouble = limit_parse_cost(tag * 200)
    assert len(kept) < len(tag) * 20
    assert "many tags" in trouble


def test_attributes_of_several_bodies_add_up_to_too_many() -> None:
    for name in (b"body", b"HtMl"):
        tags = b"".join(b"<%b %b>" % (name, many(b"@%d " % n, 600)) for n in range(20))
        kept, trouble = limit_parse_cost(tags)
        assert len(kept) < len(tags) / 2
        assert "attributes" in trouble


def test_unscanned_page_cannot_cost_more_than_the_limit() -> None:
    """Names of one letter, then of two: no page of that size has more attributes, in one tag or merged."""
    letters = [bytes((code,)) for code in range(ord("a"), ord("z") + 1)]
    names = [*letters, *(one + other for one in letters for other in letters)]
    names += [one + other for one in names[26:] for other in letters]
    written = 0
    for count, name in enumerate(names):  # noqa: B007
        written += len(name) + 1
        if written > SMALL_PAGE:
            break
    assert written > SMALL_PAGE
    assert count**2 / 2 <= MAX_COMPARISONS
