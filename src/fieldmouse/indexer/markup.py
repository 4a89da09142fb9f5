"""How much of a page's markup can be parsed in reasonable time.

The HTML standard asks a parser for work that grows with the square of the page: with
every tag it looks through the elements that are open, with every attribute through
those before it, and formatting (`<b>`, `<font>`) that was left open is opened again in
each block that follows. Forty kilobytes can ask for minutes and for gigabytes so.

Ordinary pages are told by a few counts and are parsed as they are. Any other is read
tag by tag beforehand, with an account of the elements that are open. Where the work
that this foretells exceeds all that sane pages need, the page is cut, and what was
wrong with it is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fieldmouse.indexer.openelements import OpenElements
from fieldmouse.indexer.tagnames import ATTRIBUTE, FORMATTING, RAW, SPACE, VALUE, attributes

FEW = 2500  # tags of a page that no arrangement makes dear
TAGS = 12_000  # tags that are dear only when formatting is left open
WORK = 30_000_000  # open elements, added up over all tags of a page; about a quarter of a second
COPIES = 500_000  # elements that formatting left open may add to a page
ATTRIBUTES = 5000  # of one tag; those of real pages have two hundred at most
COMPARED = 50_000_000  # attributes with others of the same tag, all tags of a page together
SMALL = 30_000  # bytes in which nothing can be so dear: few names are shorter than two letters

_WITHIN = rb"(?:[%b/]++|%b)*+" % (SPACE, ATTRIBUTE)
_within = re.compile(_WITHIN).match  # from anywhere between two attributes
# From anywhere else but between quotes: a name, an equals sign, a value, the name of the tag itself.
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
_maybe_dressed = re.compile(rb"<[bcefistuBCEFISTU][a-zA-Z]{0,5}+[%b/]" % SPACE).findall
# `body` and `html`, and words like `hody`, which nobody writes: without alternatives it is a third quicker.
_may_be_merged = re.compile(rb"<[bBhH][oOtT][dDmM][yYlL][%b/]" % SPACE).findall
_STRIDE = 4 << 10
_MANY = ATTRIBUTES - 2 * _STRIDE // 3  # attributes in whole strides
_BLANK = b" \t\n\f\r"
_APART = _BLANK + b"/="
_LONG = 512  # bytes of a tag whose attributes are worth counting
_MERGED = frozenset((b"html", b"body"))  # attributes of later ones are added to the first


def bounded(html: bytes) -> tuple[bytes, str]:
    """As much of a page as can be parsed in reasonable time, and why that is not all of it.

    >>> bounded(b"<p>short")
    (b'<p>short', '')
    """
    tags = html.count(b"<")
    is_flat = tags <= FEW or (tags <= TAGS and _dressed(html) * tags <= 3 * COPIES)
    if is_flat and (len(html) <= SMALL or not (_merges(html) or _may_hold_a_long_tag(html))):
        return html, ""
    return _cut(html)


def _dressed(html: bytes) -> int:
    """Tags of formatting with attributes; of any that are alike only three are opened again."""
    return sum(1 for tag in _maybe_dressed(html) if tag[1:-1].lower() in FORMATTING)


def _merges(html: bytes) -> bool:
    """Whether attributes of many tags could add up in one element; a sane page has each of them once."""
    return len(_may_be_merged(html)) > len(_MERGED)


def _may_hold_a_long_tag(html: bytes) -> bool:
    """Whether some stretch of the page could be the inside of one tag with too many attributes.

    A tag of some length covers whole strides. Of each we see whether it may be the inside of a tag,
    and how many attributes can begin there at most. An attribute follows white space, a slash, or
    at once the quoted value of the one before, which has an equals sign of its own: so there are no
    more attributes than white space, slashes and equals signs together. These are rare in the data
    that scripts carry, unlike quotes.

    Of the strides at a tag's two ends, which it does not cover, each has room for a third as many
    attributes as bytes, since few names are shorter than two letters; `_MANY` allows for them.
    """
    outside = double = single = 0  # attributes so far, if a tag goes on here, and between which quotes
    compared = 0
    for at in range(0, len(html) - _STRIDE + 1, _STRIDE):
        end = at + _STRIDE
        behind_double, behind_single = html.find(b'"', at, end) + 1, html.find(b"'", at, end) + 1
        before = -1
        if _may_begin_within(html, at, end):
            before = outside
        if behind_double and double > before and _may_go_on(html, behind_double, end):
            before = double
        if behind_single and single > before and _may_go_on(html, behind_single, end):
            before = single
        outside = 0
        if before >= 0:
            stride = html[at:end]
            outside = before + len(stride) - len(stride.translate(None, _APART))
            compared += outside**2 - before**2
            if outside > _MANY or compared > COMPARED:
                return True
        # A stride without such a quote may be all value of one attribute, and the tag goes on behind it.
        double = outside if behind_double else max(outside, double)
        single = outside if behind_single else max(outside, single)
    return False


def _may_begin_within(html: bytes, at: int, end: int) -> bool:
    """Whether a stride could be the inside of a tag that is not between quotes where it begins.

    We cannot know what came before: the tag's name, an attribute's, an equals sign, a value without
    quotes, or nothing of these. If each of them leads to the tag's end soon, it is not.
    """
    close = html.find(b">", at, end)
    if close < 0:
        return True
    return _is_hidden(html, at, close) and any(
        (found := begun(html, at, end)) and found.end() == end for begun in _beginnings
    )


def _may_go_on(html: bytes, at: int, end: int) -> bool:
    """Whether the inside of a tag could reach from the end of a quoted value to the end of a stride."""
    close = html.find(b">", at, end)
    if close < 0:
        return True
    return (
        _is_hidden(html, at, close) and (found := _within(html, at, end)) is not None and found.end() == end
    )


def _is_hidden(html: bytes, at: int, close: int) -> bool:
    """Whether what looks like the end of a tag could be between quotes.

    Then the last quote of that kind before it has an equals sign before itself, be it before `at`.
    """
    for quote in (b'"', b"'"):
        place = html.rfind(quote, at, close)
        if place >= 0 and html[at:place].rstrip(_BLANK)[-1:] in (b"", b"="):
            return True
    return False


def _cut(html: bytes) -> tuple[bytes, str]:
    spent = Account()
    for place in _tags(html, spent):
        if spent.elements.work > WORK:
            return html[:place], "elements are nested too deeply, too often; read up to there"
        if spent.elements.copies > COPIES:
            return html[:place], "too many elements of formatting are left open; read up to there"
        if spent.attributes > ATTRIBUTES:
            return html[:place], f"a tag has more than {ATTRIBUTES:,} attributes; read up to it"
        if spent.compared > COMPARED:
            return html[:place], "many tags have too many attributes; read up to there"
    return html, ""


class Account:
    """What parsing has cost so far."""

    def __init__(self) -> None:
        self.elements = OpenElements()
        self.tags = 0  # start tags
        self.depth = 0  # the greatest so far
        self.attributes = 0  # of the last tag, if they are worth counting
        self.compared = 0  # attributes with others
        self._merged = 0

    @property
    def copies(self) -> int:
        return self.elements.copies

    def count(self, name: bytes, tag: bytes) -> None:
        """Count attributes."""
        self.attributes = len(attributes(tag, 1)) - 1
        if name in _MERGED:
            self.attributes = self._merged = self._merged + self.attributes
        self.compared += self.attributes**2


def account(html: bytes) -> Account:
    """What parsing the whole of a page costs."""
    spent = Account()
    for _ in _tags(html, spent):
        spent.depth = max(spent.depth, len(spent.elements.names))
    return spent


def _tags(html: bytes, spent: Account) -> Iterator[int]:
    """Enter every tag into the account, and say where it begins."""
    elements = spent.elements
    at = 0
    while token := _token(html, at):
        if token.start() > at and not (elements.is_head and html[at : token.start()].isspace()):
            elements.text()
        begin, at = token.span()
        name = token[2]
        if name is None:
            if token[3]:  # a comment, unless it stands in a drawing
                at = html.find(b"]]>" if elements.is_drawn else b">", at)
                if at < 0:
                    break
            continue
        name = name.lower()
        if at - begin > _LONG or name in _MERGED:
            spent.count(name, token[0])
        if token[1]:
            elements.end(name)
        else:
            spent.tags += 1
            if elements.start(name, token[0]):
                at = _raw_end(html, name, at)
        yield begin


def _raw_end(html: bytes, name: bytes, at: int) -> int:
    """Where the text of an element ends that holds nothing but text."""
    if name == b"plaintext":
        return len(html)
    pattern = _raw_ends[name]
    if name != b"script":
        found = pattern.search(html, at)
        return found.start() if found else len(html)
    # A script in a script in a comment ends only itself.
    commented = inner = False
    while found := pattern.search(html, at):
        at, mark = found.end(), found[0].lower()
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
            return found.start()
    return len(html)


_raw_ends = {name: re.compile(rb"(?i)</%b(?=[%b/>])" % (name, SPACE)) for name in RAW - {b"script"}}
_raw_ends[b"script"] = re.compile(rb"(?i)<!--|-->|</?script(?=[%b/>])" % SPACE)
