"""Formatting of numbers, sizes, times and untrusted text for people.

Titles, headers, URLs and files from outside may hold escape sequences that rename a terminal or hide a
line, marks that reverse the reading direction, and letters without width. Characters that are invisible or
act on others are replaced by visible signs. Letters of all scripts, emoji and the joiners that both need
stay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from unicodedata import category


def format_number(value: float) -> str:
    """
    >>> format_number(12480), format_number(41.26), format_number(3.0)
    ('12,480', '41', '3')
    """
    return f"{value:,.1f}" if 0 < value < 10 and value % 1 else f"{value:,.0f}"


def format_count(value: float, noun: str) -> str:
    """A count with its noun in singular or plural.

    >>> format_count(1, "page"), format_count(0, "page"), format_count(1200, "URL")
    ('1 page', '0 pages', '1,200 URLs')
    """
    return f"{format_number(value)} {noun}{'' if value == 1 else 's'}"


def join_names(names: Sequence[str], most: int = 8) -> str:
    """Quoted names joined for a sentence; "" if there are none.

    >>> join_names(["a"]), join_names(["a", "b", "c"]), join_names([])
    ('`a`', '`a`, `b` and `c`', '')
    >>> join_names(["a", "b", "c", "d"], most=2)
    '`a`, `b` and 2 more'
    """
    shown = [f"`{name}`" for name in names[:most]]
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def format_size(value: float) -> str:
    """
    >>> format_size(120), format_size(34_200_000)
    ('120 B', '34 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{format_number(value)} {unit}"
        value /= 1000
    return f"{format_number(value)} TB"


def format_percentage(share: float) -> str:
    """A share from 0 to 1 as a percentage. Only 0 is shown as 0 %, and only 1 as 100 %.

    >>> [format_percentage(part) for part in (0.0, 0.001, 0.124, 0.999, 1.0)]
    ['0 %', '<1 %', '12 %', '99 %', '100 %']
    """
    return "<1 %" if 0 < share < 0.005 else f"{min(round(100 * share), 100 - int(share < 1))} %"


def format_duration(seconds: float) -> str:
    """
    >>> [format_duration(seconds) for seconds in (0.26, 9.5, 304, 7500, 200_000)]
    ['0.3 s', '9.5 s', '5 min 4 s', '2 h 5 min', '2 d 7 h']
    >>> format_duration(419.7), format_duration(59.97)
    ('7 min', '1 min')
    """
    if round(seconds, 1) < 60:
        return f"{format_number(round(seconds, 1))} s"
    whole = round(seconds)  # rounded once, before the division: otherwise 59.97 s could become 60 s
    if whole < 3600:
        large, small, units = whole // 60, whole % 60, ("min", "s")
    elif whole < 86400:
        large, small, units = whole // 3600, whole % 3600 // 60, ("h", "min")
    else:
        large, small, units = whole // 86400, whole % 86400 // 3600, ("d", "h")
    return f"{large:,} {units[0]}" + (f" {small} {units[1]}" if small else "")


def format_rate(per_second: float) -> str:
    """A rate in the unit that needs no fractions.

    >>> format_rate(0.138889), format_rate(2.5), format_rate(1 / 86400), format_rate(1 / 1.8e6)
    ('500/h', '2.5/s', '1/d', '1 in 20 d 20 h')
    """
    for unit, seconds in (("s", 1), ("h", 3600)):
        if per_second * seconds >= 0.995:
            return f"{format_number(round(per_second * seconds, 1))}/{unit}"
    if 0 < per_second * 86400 < 0.95:
        return f"1 in {format_duration(1 / per_second)}"
    return f"{format_number(round(per_second * 86400, 1))}/d"


def format_time(at: float) -> str:
    """A time in ISO 8601, UTC.

    >>> format_time(0.0), format_time(1763164800.25)
    ('1970-01-01T00:00:00Z', '2025-11-15T00:00:00.250Z')
    """
    moment = datetime.fromtimestamp(at, UTC)
    return moment.isoformat(timespec="milliseconds").replace(".000", "").replace("+00:00", "Z")


_JOINERS = "\u200c\u200d"  # needed by Persian and emoji
_SIGNS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"  # category Cf, but visible
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def _is_hidden(character: str) -> bool:
    return category(character) in _HIDDEN and character not in _JOINERS + _SIGNS


def sanitize(text: str, *, lines: bool = False) -> str:
    """Replace characters that a terminal acts upon or a reader cannot see.

    With `lines`, line breaks are kept; otherwise the result is one line.

    >>> sanitize("\\x1b[31mred\\u202e\\n")
    '␛[31mred\\\\u{202e}␊'
    """
    if text.isprintable():
        return text
    kept = "\t\n" if lines else "\t"
    return "".join(char if char in kept or not _is_hidden(char) else _sign(char) for char in text)


def _sign(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"\\u{{{code:x}}}"


_escaped = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)  # JSON writers escape the control characters before these


def escape_json(encoded: bytes) -> bytes:
    r"""Escape invisible characters in JSON as \u202e; the meaning stays the same.

    >>> escape_json('"a\u202eb"'.encode())
    b'"a\\u202eb"'
    """
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _escaped.sub(_escape, encoded.decode()).encode()


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
