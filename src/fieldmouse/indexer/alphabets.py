"""Which of the charsets for Latin letters a text is in, by the alphabets of the languages written in them.

Nearly every byte is a letter in each of them, so statistics of bytes tell little apart: a French page reads
as well in the charset of Central Europe, with a few odd letters. But no language has those together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

_WEST = (
    "àâæçèéêëîïôœùûüÿ",  # French
    "äöüßé",  # German
    "áéíñóúüªº",  # Spanish
    "àáâãçéêíóôõúªº",  # Portuguese
    "àèéìíîòóùúªº",  # Italian
    "åäöéà",  # Swedish and Finnish
    "æøåéòôó",  # Danish and Norwegian
    "áæéðíóöúýþ",  # Icelandic
    "áçéèëêïíöóüúûô",  # Dutch
    "àçèéíïòóúü·",  # Catalan
    "äöõüšž",  # Estonian
    "áàéèíìóòúù",  # Gaelic
)
_CENTRE = (
    "ąćęłńóśźż",  # Polish
    "áčďéěíňóřšťúůýž",  # Czech
    "áäčďéíĺľňóôŕšťúýž",  # Slovak
    "áéíóöőúüű",  # Hungarian
    "čćđšž",  # Croatian and Slovene
    "ăâîşţșț",  # Romanian
    "äöüß",  # German
)
_TURKISH = ("çğıöşüâîû",)
_BALTIC = ("ąčęėįšųūž", "āčēģīķļņšūž")  # Lithuanian, Latvian
_ALPHABETS = {"cp1252": _WEST, "cp1250": _CENTRE, "iso8859-2": _CENTRE, "cp1254": _TURKISH, "cp1257": _BALTIC}
"""By charset, the likeliest first; all letters beyond those of English."""
_IF_GUESSED = {"iso8859-15": _WEST}
"""Elsewhere the letters that only these have are signs, such as fractions, that are likelier."""
_LATIN = frozenset(
    {*_ALPHABETS, "cp1258", "iso8859-3", "iso8859-4", "iso8859-9", "iso8859-10", "iso8859-13", "iso8859-14"}
    | {"iso8859-1", "iso8859-15", "iso8859-16", "mac-roman", "mac_roman", "mac-latin2", "cp437", "cp850"}
)
_ENOUGH = 0.9
"""Share of the letters that an alphabet must have; names and quotations have some of others."""


def settled_by_letters(text: bytes, guess: str) -> str:
    """The charset whose alphabets know the letters of a text best, if `guess` is one for Latin letters.

    >>> settled_by_letters("à côté du château".encode("cp1252"), "cp1250")
    'cp1252'
    >>> settled_by_letters("źdźbło, gęś i żółw".encode("cp1250"), "cp1252")
    'cp1250'
    """
    if guess not in _LATIN:
        return guess
    bytes_ = Counter(byte for byte in text if byte >= 0x80)
    alphabets = _ALPHABETS | {codec: its for codec, its in _IF_GUESSED.items() if codec == guess}
    shares = {codec: _share(bytes_, codec, its) for codec, its in alphabets.items()}
    # Of equals the first, which is likeliest; but short texts in Turkish are Icelandic, letter by letter.
    best = max(shares, key=lambda codec: (shares[codec], codec == guess == "cp1254"))
    return best if shares[best][0] >= _ENOUGH else guess


def _share(bytes_: Counter[int], codec: str, alphabets: Sequence[str]) -> tuple[float, int]:
    """The largest share of the letters that one alphabet has, and how many that are.

    What stands in no text counts against it.
    """
    letters = Counter[str]()
    for byte, count in bytes_.items():
        character = bytes((byte,)).decode(codec, "replace").lower()
        if character.isalpha() or character == "\ufffd" or "\x80" <= character <= "\x9f":
            letters[character] += count
    total = letters.total()
    known = [sum(letters[letter] for letter in alphabet) for alphabet in alphabets]
    return (max(known) / total, max(known)) if total else (0.0, 0)
