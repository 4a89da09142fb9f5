"""Limit on the parse cost of a page: expensive markup is cut.

The HTML standard requires quadratic work: each tag is compared with all open elements, each attribute
with those before it in its tag, and formatting that was left open (`<b>`, `<font>`) is opened again in
each following block. Forty kilobytes can cost minutes and gigabytes.

A few counts recognize ordinary pages, which are parsed unchanged. Any other page is scanned tag by tag
first, and the cost of parsing is estimated from its open elements. Where the estimate exceeds the need of
every sane page, the page is cut and the reason is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fieldmouse.parse.open_elements import (
    ATTRIBUTE,
    FORMATTING,
    RAW_TEXT,
    SPACE,
    VALUE,
    OpenElements,
    find_attributes,
)

CHEAP_TAGS = 2500  # a page with at most this many tags is never expensive
CHEAP_TAGS_WITHOUT_FORMATTING = 12_000  # up to this many tags are expensive only if formatting is left open
MAX_WORK = 30_000_000  # open elements summed over all tags of a page; about a quarter of a second
MAX_COPIES = 500_000  # elements that unclosed formatting may add to a page
MAX_ATTRIBUTES = 5000  # attributes of one tag; real pages have two hundred at most
MAX_COMPARISONS = 50_000_000  # comparisons of attributes within tags, summed over a page
# bytes; attributes of a smaller page cannot be expensive: few names are shorter than two letters
SMALL_PAGE = 30_000

_WITHIN = rb"(?:[%b/]++|%b)*+" % (SPACE, ATTRIBUTE)
_within = re.compile(_WITHIN).match  # from any place between two attributes
# From any other place outside quotes: a name, an equals sign, a value, the name of the tag itself.
_beginnings = [
    re.compile(begun % {b"space": SPACE, b"value": VALUE} + _WITHIN).match
    for begun in (
        rb"",
        rb"[^%(space)b/>=]*+(?:[%(space)b]*+=[%(space)b]*+(?:%(value)b)?+)?+",
        rb"[%(space)b]*+(?:%(value)b)?+",
        rb"[^%(space)b>]*+",
        rb"[^%(space)b/>]*+",
    )
]
_token = re.compile(
    rb"<(?:(/?)([a-zA-Z][^%b/>]*+)%b>?|!--(?:-?>|[\s\S]*?(?:--!?>|\Z))|(!\[CDATA\[)|[!?/][^>]*+>?)"
    % (SPACE, _WITHIN)
).search
_maybe_formatting = re.compile(rb"<[bcefistuBCEFISTU][a-zA-Z]{0,5}+[%b/]" % SPACE).findall
# Matches `body` and `html`, and nonsense such as `hody`: without alternatives it is a third faster.
_may_be_merged = re.compile(rb"<[bBhH][oOtT][dDmM][yYlL][%b/]" % SPACE).findall
_STRIDE = 4 << 10
_MANY = MAX_ATTRIBUTES - 2 * _STRIDE // 3  # attributes in whole strides
_BLANK = b" \t\n\f\r"
_APART = _BLANK + b"/="
_LONG = 512  # attributes of shorter tags (in bytes) are not counted
_MERGED = frozenset((b"html", b"body"))  # the parser adds the attributes of later tags to the first one


def limit_parse_cost(html: bytes) -> tuple[bytes, str]:
    """Return the part of a page that can be parsed in reasonable time, and the reason for a cut or "".

    >>> limit_parse_cost(b"<p>short")
    (b'<p>short', '')
    """
    tags = html.count(b"<")
    is_flat = tags <= CHEAP_TAGS or (
        tags <= CHEAP_TAGS_WITHOUT_FORMATTING and _formatting_tags(html) * tags <= 3 * MAX_COPIES
    )
    if is_flat and (len(html) <= SMALL_PAGE or not (_may_merge(html) or _may_hold_a_long_tag(html))):
        return html, ""
    return _cut(html)


def _formatting_tags(html: bytes) -> int:
    """Count formatting tags with attributes; the parser reopens at most three that are equal."""
    return sum(1 for tag in _maybe_formatting(html) if tag[1:-1].lower() in FORMATTING)


def _may_merge(html: bytes) -> bool:
    """Tell whether attributes of many tags could add up in one element; a sane page has each tag once."""
    return len(_may_be_merged(html)) > len(_MERGED)


def _may_hold_a_long_tag(html: bytes) -> bool:
    """Tell whether a part of the page could be the inside of one tag with too many attributes.

    A long tag covers whole strides. For each stride we check whether it may be the inside of a tag, and
    how many attributes can begin there at most. An attribute follows white space, a slash, or directly the
    quoted value of the previous attribute, which has its own equals sign: so white space, slashes and
    equals signs together are an upper bound. These are rare in the data of scripts, unlike quotes.

    The strides at both ends of a tag are covered partly. Each has room for a third as many attributes as
    bytes, since few names are shorter than two letters; `_MANY` allows for them.
    """
    outside = double = single = 0  # attributes counted if a tag continues here: outside or inside quotes
    compared = 0
    for at in range(0, len(html) - _STRIDE + 1, _STRIDE):
        end = at + _STRIDE
        behind_double, behind_single = html.find(b'"', at, end) + 1, html.find(b"'", at, end) + 1
        before = -1
        if _may_begin_within(html, at, end):
            before = outside
        if behind_double and double > before and _may_continue(html, behind_double, end):
            before = double
        if behind_single and single > before and _may_continue(html, behind_single, end):
            before = single
        outside = 0
        if before >= 0:
            stride = html[at:end]
            outside = before + len(stride) - len(stride.translate(None, _APART))
            compared += outside**2 - before**2
            if outside > _MANY or compared > MAX_COMPARISONS:
                return True
        # A stride without such a quote may be part of one value, and the tag may continue behind it.
        double = outside if behind_double else max(outside, double)
        single = outside if behind_single else max(outside, single)
    return False


def _may_begin_within(html: bytes, at: int, end: int) -> bool:
    """Tell whether a stride could be the inside of a tag and begin outside quotes.

    The text before is unknown: it may end in the tag's name, an attribute name, an equals sign, an
    unquoted value, or none of these. If the tag soon ends in every case, the answer is no.
    """
    close = html.find(b">", at, end)
    if close < 0:
        return True
    return _is_hidden(html, at, close) and any(
        (match := pattern(html, at, end)) and match.end() == end for pattern in _beginnings
    )


def _may_continue(html: bytes, at: int, end: int) -> bool:
    """Tell whether the inside of a tag could reach from the end of a quoted value to the end of a stride."""
    close = html.find(b">", at, end)
    if close < 0:
        return True
    return (
        _is_hidden(html, at, close) and (match := _within(html, at, end)) is not None and match.end() == end
    )


def _is_hidden(html: bytes, at: int, close: int) -> bool:
    """Tell whether an apparent end of a tag could be inside quotes.

    Then the last such quote before it follows an equals sign, which may be before `at`.
    """
    for quote in (b'"', b"'"):
        place = html.rfind(quote, at, close)
        if place >= 0 and html[at:place].rstrip(_BLANK)[-1:] in (b"", b"="):
            return True
    return False


def _cut(html: bytes) -> tuple[bytes, str]:
    spent = ParseCost()
    for place in _tags(html, spent):
        if spent.elements.work > MAX_WORK:
            return html[:place], "elements are nested too deeply, too often; read up to there"
        if spent.elements.copies > MAX_COPIES:
            return html[:place], "too many elements of formatting are left open; read up to there"
        if spent.attributes > MAX_ATTRIBUTES:
            return html[:place], f"a tag has more than {MAX_ATTRIBUTES:,} attributes; read up to it"
        if spent.comparisons > MAX_COMPARISONS:
            return html[:place], "many tags have too many attributes; read up to there"
    return html, ""


class ParseCost:
    """Cost of parsing the tags scanned so far."""

    def __init__(self) -> None:
        self.elements = OpenElements()
        self.tags = 0  # start tags
        self.depth = 0  # maximum so far
        self.attributes = 0  # of the last tag, if they were counted
        self.comparisons = 0  # comparisons of attributes
        self._merged = 0

    @property
    def copies(self) -> int:
        return self.elements.copies

    def add_attributes(self, name: bytes, tag: bytes) -> None:
        """Count the attributes of a tag."""
        self.attributes = len(find_attributes(tag, 1)) - 1
        if name in _MERGED:
            self.attributes = self._merged = self._merged + self.attributes
        self.comparisons += self.attributes**2


def measure_parse_cost(html: bytes) -> ParseCost:
    """Return the cost of parsing a whole page."""
    spent = ParseCost()
    for _ in _tags(html, spent):
        spent.depth = max(spent.depth, len(spent.elements.names))
    return spent


def _tags(html: bytes, spent: ParseCost) -> Iterator[int]:
    """Add every tag to the account, and yield where it begins."""
    elements = spent.elements
    at = 0
    while token := _token(html, at):
        if token.start() > at and not (elements.in_head and html[at : token.start()].isspace()):
            elements.add_text()
        begin, at = token.span()
        name = token[2]
        if name is None:
            if token[3]:  # a comment, unless inside svg or math
                at = html.find(b"]]>" if elements.in_svg_or_math else b">", at)
                if at < 0:
                    break
            continue
        name = name.lower()
        if at - begin > _LONG or name in _MERGED:
            spent.add_attributes(name, token[0])
        if token[1]:
            elements.end_tag(name)
        else:
            spent.tags += 1
            if elements.start_tag(name, token[0]):
                at = _raw_end(html, name, at)
        yield begin


def _raw_end(html: bytes, name: bytes, at: int) -> int:
    """Return where the content of a text-only element (script, style, ...) ends."""
    if name == b"plaintext":
        return len(html)
    pattern = _raw_ends[name]
    if name != b"script":
        match = pattern.search(html, at)
        return match.start() if match else len(html)
    # Inside a comment in a script, `</script>` may close a nested `<script`.
    commented = inner = False
    while match := pattern.search(html, at):
        at, mark = match.end(), match[0].lower()
        if mark == b"<!--":
            if not commented:
                commented, at = True, at - 2
        elif mark == b"-->":
            commented = inner = False
        elif mark == b"<script":
            inner = commented
        elif inner:
            inner = False
        else:
            return match.start()
    return len(html)


_raw_ends = {name: re.compile(rb"(?i)</%b(?=[%b/>])" % (name, SPACE)) for name in RAW_TEXT - {b"script"}}
_raw_ends[b"script"] = re.compile(rb"(?i)<!--|-->|</?script(?=[%b/>])" % SPACE)
