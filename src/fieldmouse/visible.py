"""Text from elsewhere, made fit to be shown to a person.

Titles, headers, URLs and files of others hold what they like: escape sequences that
rename a terminal or hide a line, marks that turn the reading direction round, letters
without width. What does not show, or acts on what does, is replaced by a sign that
shows. Letters of all scripts, emoji and the joiners that both need stay as they are.
"""

from __future__ import annotations

import re
from unicodedata import category

_JOINERS = "\u200c\u200d"  # Persian and emoji are not written without
_SIGNS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"  # Cf by category, but they show
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def _acts(character: str) -> bool:
    return category(character) in _HIDDEN and character not in _JOINERS + _SIGNS


def visible(text: str, *, lines: bool = False) -> str:
    """`text` with nothing in it that a terminal acts upon or a reader cannot see.

    With `lines`, it may be of several lines; otherwise it stays one.

    >>> visible("\\x1b[31mred\\u202e\\n")
    '␛[31mred\\\\u{202e}␊'
    """
    if text.isprintable():
        return text
    kept = "\t\n" if lines else "\t"
    return "".join(
        character if character in kept or not _acts(character) else _sign(character) for character in text
    )


def _sign(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"\\u{{{code:x}}}"


_escaped = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)  # control characters before these are escaped by every writer of JSON


def escape_json(encoded: bytes) -> bytes:
    r"""JSON with the same meaning that can be looked at: what does not show is written as \u202e.

    >>> escape_json('"a\u202eb"'.encode())
    b'"a\\u202eb"'
    """
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _escaped.sub(_escape, encoded.decode()).encode()


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
