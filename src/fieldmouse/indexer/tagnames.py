"""Syntax of tags, and sets of element names from the HTML standard."""

from __future__ import annotations

import re

SPACE = rb"\t\n\f\r "
VALUE = rb"\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^%(space)b>\"'][^%(space)b>]*+" % {b"space": SPACE}
ATTRIBUTE = rb"[^%(space)b/>][^%(space)b/>=]*+(?:[%(space)b]*+=[%(space)b]*+(?:%(value)b)?+)?+" % {
    b"space": SPACE,
    b"value": VALUE,
}
attributes = re.compile(ATTRIBUTE).findall


def _names(text: str) -> frozenset[bytes]:
    return frozenset(text.encode().split())


FORMATTING = _names("a b big code em font i nobr s small strike strong tt u")
VOID = _names(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track "
    "wbr html head body colgroup"
)
RAW = _names("script style title textarea xmp iframe noembed noframes")
HEAD = _names("html head base basefont bgsound link meta title noframes style script template")
RUBY = _names("rb rp rt rtc")
IMPLIED = RUBY | _names("dd dt li option p")  # closed implicitly by what follows
HEADINGS = _names("h1 h2 h3 h4 h5 h6")
CLOSES_P = _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer "
    "header hgroup main menu nav ol p search section summary ul h1 h2 h3 h4 h5 h6 pre listing form li dd dt "
    "plaintext hr xmp"
)
ROWS = _names("tr tbody thead tfoot")
CELLS = _names("td th caption")
MARKERS = CELLS | _names("applet marquee object template")  # formatting does not cross them
TABULAR = ROWS | CELLS | {b"table"}
TABLE_SCOPE = _names("table template")
# SVG and MathML elements whose content is HTML again.
POINTS = frozenset(b"svg " + name for name in _names("foreignobject desc title")) | frozenset(
    b"math " + name for name in _names("mi mo mn ms mtext")
)
SCOPE = MARKERS | POINTS | _names("table select") | {b"math annotation-xml"}
SCOPE_OF_P, SCOPE_OF_LI = SCOPE | {b"button"}, SCOPE | _names("ol ul")
# Boundaries for the end tags of ordinary elements.
SPECIAL = CLOSES_P | TABULAR | SCOPE | _names("applet button frameset noscript")
# Boundaries for the end tags of other elements.
REACH = (
    dict.fromkeys(CLOSES_P | _names("applet button marquee object select"), SCOPE)
    | dict.fromkeys(TABULAR, TABLE_SCOPE)
    | {b"p": SCOPE_OF_P, b"li": SCOPE_OF_LI, b"template": frozenset()}
)
TRANSPARENT = _names("address div p")
ITEMS = {b"li": _names("li"), b"dd": _names("dd dt"), b"dt": _names("dd dt")}
# HTML elements that end an SVG or MathML element around them.
BREAK_OUT = _names(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing "
    "menu meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)
