"""Sanitizer that makes untrusted text safe to show.

Titles, headers, URLs and files from outside may hold escape sequences that rename a terminal or hide a
line, marks that reverse the reading direction, and letters without width. Characters that are invisible or
act on others are replaced by visible signs. Letters of all scripts, emoji and the joiners that both need
stay.
"""

from __future__ import annotations

import re
from unicodedata import category

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
    "[\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
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
