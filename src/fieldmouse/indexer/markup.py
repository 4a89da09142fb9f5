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
from fieldmouse.indexer.tagnames import ATTRIBUTE, FORMATTING, RAW, SPACE, attributes

FEW = 2500  # tags of a page that no arrangement makes dear
SMALL = 32 << 10  # bytes that cannot hold a tag with too many attributes
TAGS = 12_000  # tags that are dear only when formatting is left open
WORK = 30_000_000  # open elements, added up over all tags of a page; about a quarter of a second
COPIES = 500_000  # elements that formatting left open may add to a page
ATTRIBUTES = 5000  # of one tag; those of real pages have two hundred at most
COMPARED = 50_000_000  # attributes with others of the same tag, all tags of a page together

_WITHIN = rb"(?:[%b/]++|%b)*+" % (SPACE, ATTRIBUTE)
# How far the inside of a tag may go at most, at a glance.
_within = re.compile(rb"(?:[^>=]++|=[%b]*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))?+)*+" % SPACE).match
_token = re.compile(
    rb"<(?:(/?)([a-zA-Z][^%b/>]*+)%b>?|!--(?:-?>|[\s\S]*?(?:--!?>|\Z))|(!\[CDATA\[)|[!?/][^>]*+>?)"
    % (SPACE, _WITHIN)
).search
_maybe_dressed = re.compile(rb"<[bcefistuBCEFISTU][a-zA-Z]{0,5}+[%b/]" % SPACE).findall
_STRIDE = 16 << 10
_APART = b" \t\n\f\r/"
_LONG = 512  # bytes of a tag whose attributes are worth counting
_MERGED = frozenset((b"html", b"body"))  # attributes of later ones are added to the first


def bounded(html: bytes) -> tuple[bytes, str]:
    """As much of a page as can be parsed in reasonable time, and why that is not all of it.

    >>> bounded(b"<p>short")
    (b'<p>short', '')
    """
    tags = html.count(b"<")
    is_flat = tags <= FEW or (tags <= TAGS and _dressed(html) * tags <= 3 * COPIES)
    if is_flat and (len(html) <= SMALL or not _may_hold_a_long_tag(html)):
        return html, ""
    return _cut(html)


def _dressed(html: bytes) -> int:
    """Tags of formatting with attributes; of any that are alike only three are opened again."""
    return sum(1 for tag in _maybe_dressed(html) if tag[1:-1].lower() in FORMATTING)


def _may_hold_a_long_tag(html: bytes) -> bool:
    """Whether some stretch of the page could be the inside of one tag with too many attributes.

    A tag as long as two strides covers one of them whole. Attributes stand apart by white space
    or a slash: where these are rare, as in the data that scripts carry, there are few, whatever
    it is.
    """
    apart = 0  # such bytes in the strides up to here that may all be inside one tag
    for at in range(0, len(html) - _STRIDE, _STRIDE):
        if not _may_be_within(html, at, at + _STRIDE):
            apart = 0
            continue
        stride = html[at : at + _STRIDE]
        apart += len(stride) - len(stride.translate(None, _APART))
        if apart > ATTRIBUTES // 2:
            return True
    return False


def _may_be_within(html: bytes, at: int, end: int) -> bool:
    """Whether a stride could be the inside of a tag.

    We cannot know what came before it: if it is inside a tag, it begins between quotes of
    either kind, or outside of them. If each of these leads to the tag's end soon, it is not.
    """
    for mark in (b"", b'"', b"'"):
        begin = html.find(mark, at, end) + len(mark) if mark else at
        if begin < at + len(mark):
            continue  # all of it between quotes: one attribute
        close = html.find(b">", begin, end)
        if close < 0:
            return True
        # Only behind an equals sign can quotes hide that a tag ends.
        if b"=" in html[begin:close] and (found := _within(html, begin)) and found.end() >= end:
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
