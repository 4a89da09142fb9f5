"""Limit on the parse cost of a page: the stack of open elements is estimated and expensive markup is cut.

The HTML standard requires quadratic work: each tag is compared with all open elements, each attribute
with those before it in its tag, and formatting that was left open (`<b>`, `<font>`) is opened again in
each following block. Forty kilobytes can cost minutes and gigabytes.

A few counts recognize ordinary pages, which are parsed unchanged. Any other page is scanned tag by tag
first, and the cost of parsing is estimated from its open elements. Where the estimate exceeds the need of
every sane page, the page is cut and the reason is reported.

The stack follows the rules of the HTML standard, simplified only where that makes it longer than a
parser's own. A parser searches its stack with every tag, so the sum of the lengths predicts its work.
Formatting that is left open (`<b>`, `<font>`) is opened again in each following block, which creates any
number of copies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

SPACE = rb"\t\n\f\r "
VALUE = rb"\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^%(space)b>\"'][^%(space)b>]*+" % {b"space": SPACE}
ATTRIBUTE = rb"[^%(space)b/>][^%(space)b/>=]*+(?:[%(space)b]*+=[%(space)b]*+(?:%(value)b)?+)?+" % {
    b"space": SPACE,
    b"value": VALUE,
}
find_attributes = re.compile(ATTRIBUTE).findall


def _names(text: str) -> frozenset[bytes]:
    return frozenset(text.encode().split())


FORMATTING = _names("a b big code em font i nobr s small strike strong tt u")
VOID = _names(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track "
    "wbr html head body colgroup"
)
RAW_TEXT = _names("script style title textarea xmp iframe noembed noframes")
HEAD_ELEMENTS = _names("html head base basefont bgsound link meta title noframes style script template")
RUBY = _names("rb rp rt rtc")
IMPLIED = RUBY | _names("dd dt li option p")  # closed implicitly by what follows
HEADINGS = _names("h1 h2 h3 h4 h5 h6")
CLOSES_P = _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer header hgroup"
    " main menu nav ol p search section summary ul h1 h2 h3 h4 h5 h6 pre listing form li dd dt plaintext hr xmp"
)
ROWS = _names("tr tbody thead tfoot")
CELLS = _names("td th caption")
FORMATTING_MARKERS = CELLS | _names("applet marquee object template")  # formatting does not cross them
TABULAR = ROWS | CELLS | {b"table"}
TABLE_SCOPE = _names("table template")
# SVG and MathML elements whose content is HTML again.
INTEGRATION_POINTS = frozenset(b"svg " + name for name in _names("foreignobject desc title")) | frozenset(
    b"math " + name for name in _names("mi mo mn ms mtext")
)
SCOPE = FORMATTING_MARKERS | INTEGRATION_POINTS | _names("table select") | {b"math annotation-xml"}
SCOPE_OF_P, SCOPE_OF_LI = SCOPE | {b"button"}, SCOPE | _names("ol ul")
# Boundaries for the end tags of ordinary elements.
SPECIAL = CLOSES_P | TABULAR | SCOPE | _names("applet button frameset noscript")
# Boundaries for the end tags of other elements.
END_TAG_SCOPE = (
    dict.fromkeys(CLOSES_P | _names("applet button marquee object select"), SCOPE)
    | dict.fromkeys(TABULAR, TABLE_SCOPE)
    | {b"p": SCOPE_OF_P, b"li": SCOPE_OF_LI, b"template": frozenset()}
)
OPAQUE = SPECIAL - _names("address div p")
ITEMS = {b"li": _names("li"), b"dd": _names("dd dt"), b"dt": _names("dd dt")}
# HTML elements that end an SVG or MathML element around them.
FOREIGN_BREAKOUT = _names(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing "
    "menu meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)


class OpenElements:
    """Stack of element names; it may be longer than a parser's own.

    Names of SVG and MathML elements start with `svg ` or `math `.
    """

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self._raws: list[bytes] = []  # tag text of formatting elements, else empty
        self._missing: list[tuple[bytes, bytes]] = []  # formatting that the next content reopens
        self.work = self.copies = 0
        self._is_odd = False
        self._has_form = False
        self.in_head = True  # until something begins the body

    def reopen_formatting_for_text(self) -> None:
        """Process text, or anything that counts as text."""
        self.in_head = False
        if self._missing:
            self._reopen_formatting()

    def start_tag(self, name: bytes, raw: bytes) -> bool:
        """Process a start tag; return whether the element holds only text."""
        names = self.names
        self.work += len(names)
        if names and b" " in (top := names[-1]):
            if top not in INTEGRATION_POINTS:
                if name not in FOREIGN_BREAKOUT and not (name == b"font" and _has_font_attributes(raw)):
                    self._push_foreign(top[: top.index(b" ") + 1] + name, raw)
                    return False
                self._leave_foreign_content()
            elif name in (b"mglyph", b"malignmark") and top[:1] == b"m":
                self._push_foreign(b"math " + name, raw)
                return False
        if self.in_head:
            if name == b"noscript":
                return False  # it ends with the first element that is not allowed in a head
            self.in_head = name in HEAD_ELEMENTS
        if name in FORMATTING:
            if name in (b"a", b"nobr"):
                self._end_formatting(name)
        elif name in CLOSES_P:
            if name == b"form" and b"template" not in names:
                if self._has_form:
                    return False
                self._has_form = True
            if name == b"hr" and self._find_open(b"select", SCOPE) is not None:
                self._close_implied()
            if name in ITEMS:
                self._close_innermost_of_kinds(ITEMS[name], OPAQUE)
            self._close_element(b"p", SCOPE_OF_P)
            if name in HEADINGS and names and names[-1] in HEADINGS:
                self._close_with_contents(len(names) - 1)
        elif name in TABULAR:
            self._start_table_part(name)
            return False
        elif name == b"option" or name == b"optgroup":
            if self._find_open(b"select", SCOPE) is not None:
                self._close_implied()
            elif names and names[-1] == b"option":
                self._close_with_contents(len(names) - 1)
        elif name in RUBY:
            if self._find_open(b"ruby", SCOPE) is not None:
                self._close_implied()
        elif name == b"input":
            self._close_element(b"select", SCOPE)
        elif name == b"button":
            self._close_element(name, SCOPE)
        elif name == b"select" and self._close_element(name, SCOPE):
            return False
        elif name == b"svg" or name == b"math":
            name += b" " + name
        if name in RAW_TEXT or name == b"plaintext":
            return True
        if self._missing and name not in CLOSES_P and name not in RUBY:
            self._reopen_formatting()
        if name in VOID:
            return False
        if b" " in name:
            self._push_foreign(name, raw)
        else:
            self._push(name, raw if name in FORMATTING else b"")
        return False

    def end_tag(self, name: bytes) -> None:
        """Process an end tag."""
        names = self.names
        self.work += len(names)
        if name == b"br":
            self.reopen_formatting_for_text()
        elif name == b"form" and b"template" not in names:
            self._has_form = False
        if not names:
            return
        if b" " in names[-1]:
            if name in (b"p", b"br"):
                self._leave_foreign_content()
            elif self._end_foreign(name):
                return
        if names and names[-1] == name:
            self._close_with_contents(len(names) - 1)
        elif name in FORMATTING:
            self._end_formatting(name)
        elif name in HEADINGS:
            self._close_innermost_of_kinds(HEADINGS, SCOPE)  # the end tag of any heading closes it
        elif name == b"form" and b"template" not in names:  # its descendants stay open
            place = self._find_open(name, SCOPE)
            if place is not None:
                del names[place], self._raws[place]
        else:
            self._close_element(name, END_TAG_SCOPE.get(name, SPECIAL))

    def _push_foreign(self, name: bytes, raw: bytes) -> None:
        if name == b"math annotation-xml":
            self._is_odd = True  # attributes decide about its content: close nothing from here on
        # A slash that belongs to an unquoted value does not close the tag.
        if self._is_odd or not raw.endswith(b"/>") or find_attributes(raw, 1)[-1].endswith(b"/"):
            self._push(name)

    def _leave_foreign_content(self) -> None:
        if self._is_odd:
            return
        at = len(self.names)
        while at and b" " in self.names[at - 1] and self.names[at - 1] not in INTEGRATION_POINTS:
            at -= 1
        self._close_from(at)

    def _end_foreign(self, name: bytes) -> bool:
        for at in range(len(self.names) - 1, -1, -1):
            _, space, own = self.names[at].partition(b" ")
            if not space:
                return False
            if own == name:
                self._close_with_contents(at)
                return True
        return False

    def _start_table_part(self, name: bytes) -> None:
        if name == b"table":
            self._close_element(b"p", SCOPE_OF_P)
            self._close_element(name, FORMATTING_MARKERS)  # only a cell contains another table
            self._push(name)
            return
        at = self._find_open(b"table", frozenset((b"template",)))
        if at is None:
            return  # ignored outside a table
        self._close_from(at + 1)
        if name != b"caption":
            self._push(b"tbody")
            if name not in (b"tbody", b"thead", b"tfoot"):
                self._push(b"tr")
        if name in CELLS:
            self._push(name)

    def _close_innermost_of_kinds(self, kinds: frozenset[bytes], barriers: frozenset[bytes]) -> None:
        """Close the innermost element of these kinds, unless a barrier is inside it."""
        for at in range(len(self.names) - 1, -1, -1):
            if self.names[at] in kinds:
                self._close_with_contents(at)
                break
            if self.names[at] in barriers:
                break

    def _close_implied(self) -> None:
        while self.names and self.names[-1] in IMPLIED:
            self._close_with_contents(len(self.names) - 1)

    def _end_formatting(self, name: bytes) -> None:
        """Apply the standard's adoption agency algorithm: blocks inside stay open."""
        for place in range(len(self._missing) - 1, -1, -1):
            if self._missing[place][0] == name:
                del self._missing[place]
                return
        at = self._find_open(name, SCOPE)
        if at is None:
            return
        blocks = sum(1 for inner in self.names[at:] if inner in SPECIAL)
        self.work += 8 * (len(self.names) - at)
        if not blocks:
            self._close_with_contents(at)
            return
        self.copies += 4 * min(blocks, 8)
        # The algorithm runs eight times and keeps only three equal elements.
        if blocks < 8 and self._raws.count(self._raws[at]) <= 3:
            del self.names[at], self._raws[at]

    def _find_open(self, name: bytes, barriers: frozenset[bytes]) -> int | None:
        names = self.names
        if name not in names:
            return None
        for at in range(len(names) - 1, -1, -1):
            if names[at] == name or names[at] in barriers:
                break
        self.work += 8 * (len(names) - at)
        return at if names[at] == name else None

    def _close_element(self, name: bytes, barriers: frozenset[bytes]) -> bool:
        at = self._find_open(name, barriers)
        if at is None:
            return False
        self._close_with_contents(at)
        return True

    def _push(self, name: bytes, raw: bytes = b"") -> None:
        if self._missing and name in FORMATTING_MARKERS:
            self._reopen_formatting()
        self.names.append(name)
        self._raws.append(raw)

    def _close_with_contents(self, at: int) -> None:
        """Close the element at `at` and everything inside it."""
        if at < len(self.names) - 1:
            self._close_from(at + 1, self.names[at] in FORMATTING_MARKERS)
        self.names.pop()
        self._raws.pop()

    def _close_from(self, at: int, marked: bool = False) -> None:
        """Close everything from `at` on and remember its formatting; `marked` if a marker is around it."""
        names, raws = self.names, self._raws
        last = len(names)
        while last > at and names[last - 1] not in FORMATTING_MARKERS:
            last -= 1
        last = last - 1 if last > at else at if marked else len(names)
        alike: dict[bytes, int] = {}
        for place in range(at, last):
            if raw := raws[place]:
                alike[raw] = alike.get(raw, 0) + 1
                if alike[raw] <= 3:
                    self._missing.append((names[place], raw))
        del names[at:], raws[at:]

    def _reopen_formatting(self) -> None:
        missing, self._missing = self._missing, []
        self.copies += len(missing)
        for name, raw in missing:
            self._push(name, raw)


def _has_font_attributes(raw: bytes) -> bool:
    """Tell whether a font tag has an attribute that only HTML defines."""
    given = {attribute.partition(b"=")[0].strip().lower() for attribute in find_attributes(raw)}
    return not given.isdisjoint((b"color", b"face", b"size"))


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
    rb"<(?:(/?)([a-zA-Z][^%b/>]*+)%b>?|!--(?:-?>|[\s\S]*?(?:--!?>|\Z))|(!\[CDATA\[)|[!?/][^>]*+>?)" % (SPACE, _WITHIN)
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
    # Attributes of many tags could add up in one element; a sane page has each of these tags once.
    if is_flat and (
        len(html) <= SMALL_PAGE or not (len(_may_be_merged(html)) > len(_MERGED) or _may_hold_a_long_tag(html))
    ):
        return html, ""
    return _cut_expensive_part(html)


def _formatting_tags(html: bytes) -> int:
    """Count formatting tags with attributes; the parser reopens at most three that are equal."""
    return sum(1 for tag in _maybe_formatting(html) if tag[1:-1].lower() in FORMATTING)


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
        # The text before is unknown: it may end in the tag's name, an attribute name, an equals sign, an
        # unquoted value, or none of these.
        if _may_be_inside(html, at, end, _beginnings):
            before = outside
        if behind_double and double > before and _may_be_inside(html, behind_double, end, [_within]):
            before = double
        if behind_single and single > before and _may_be_inside(html, behind_single, end, [_within]):
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


def _may_be_inside(
    html: bytes, at: int, end: int, patterns: Sequence[Callable[[bytes, int, int], re.Match[bytes] | None]]
) -> bool:
    """Tell whether everything from `at`, which is outside quotes, to `end` could be the inside of a tag.

    `patterns` match the possible beginnings. If the tag soon ends in every case, the answer is no.
    """
    close = html.find(b">", at, end)
    return close < 0 or (
        _may_be_quoted(html, at, close)
        and any((match := pattern(html, at, end)) and match.end() == end for pattern in patterns)
    )


def _may_be_quoted(html: bytes, at: int, close: int) -> bool:
    """Tell whether an apparent end of a tag could be inside quotes.

    Then the last such quote before it follows an equals sign, which may be before `at`.
    """
    for quote in (b'"', b"'"):
        place = html.rfind(quote, at, close)
        if place >= 0 and html[at:place].rstrip(_BLANK)[-1:] in (b"", b"="):
            return True
    return False


def _cut_expensive_part(html: bytes) -> tuple[bytes, str]:
    spent = ParseCost()
    for place in _scan_tags(html, spent):
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
        self.attributes = 0  # of the last tag, if they were counted
        self.comparisons = 0  # comparisons of attributes
        self._merged = 0

    def add_attributes(self, name: bytes, tag: bytes) -> None:
        """Count the attributes of a tag."""
        self.attributes = len(find_attributes(tag, 1)) - 1
        if name in _MERGED:
            self.attributes = self._merged = self._merged + self.attributes
        self.comparisons += self.attributes**2


def _scan_tags(html: bytes, spent: ParseCost) -> Iterator[int]:
    """Add every tag to the account, and yield where it begins."""
    elements = spent.elements
    at = 0
    while token := _token(html, at):
        if token.start() > at and not (elements.in_head and html[at : token.start()].isspace()):
            elements.reopen_formatting_for_text()
        begin, at = token.span()
        name = token[2]
        if name is None:
            if token[3]:  # a comment, unless inside svg or math
                at = html.find(b"]]>" if elements.names and b" " in elements.names[-1] else b">", at)
                if at < 0:
                    break
            continue
        name = name.lower()
        if at - begin > _LONG or name in _MERGED:
            spent.add_attributes(name, token[0])
        if token[1]:
            elements.end_tag(name)
        elif elements.start_tag(name, token[0]):
            at = _end_of_raw_text(html, name, at)
        yield begin


def _end_of_raw_text(html: bytes, name: bytes, at: int) -> int:
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
