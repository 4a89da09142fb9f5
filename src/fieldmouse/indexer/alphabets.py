"""Which of the charsets for Latin letters a text is in, by the alphabets of the languages written in them.

Nearly every byte is a letter in each of them, so statistics of bytes tell little apart: a French page reads
as well in the charset of Central Europe, with a few odd letters. But no language has those together.
"""

from __future__ import annotations

import re
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


_TOGETHER = 2.0
"""Accented letters in a row, on the average, at most: words of other scripts are longer."""
_FEW = 3
"""So few bytes beyond ASCII are what most of the web means by them."""
_USUAL = frozenset({*range(0xC0, 0x100), *range(0x91, 0x98)} - {0xD7, 0xF7}) | frozenset(
    "€…ŠšŽžŒœ™\xa0¡§©ª«®°·º»½¿".encode("cp1252")
)
"""Letters and signs of windows-1252 that texts have; half of the bytes of East Asian ones are no such."""
_beyond_ascii = re.compile(rb"[\x80-\xff]+").findall


def settled_by_letters(text: bytes, guess: str) -> str:
    """The charset whose alphabets know the letters of a text best, if it is one in Latin letters.

    That is so if `guess` is a charset for such, or if what is beyond ASCII looks like accents in words.

    >>> settled_by_letters("à côté du château".encode("cp1252"), "cp1250")
    'cp1252'
    >>> settled_by_letters("źdźbło, gęś i żółw".encode("cp1250"), "cp1252")
    'cp1250'
    >>> settled_by_letters("16.\xa0General information".encode("cp1252"), "cp932")
    'cp1252'
    """
    if guess not in _LATIN:
        if not _has_accents(text):
            return guess
        guess = "cp1252"
    bytes_ = Counter(byte for byte in text if byte >= 0x80)
    if bytes_.total() <= _FEW and _share(bytes_, "cp1252", _WEST)[0] >= _ENOUGH:
        return guess if guess in ("cp1254", *_IF_GUESSED) else "cp1252"
    alphabets = _ALPHABETS | {codec: its for codec, its in _IF_GUESSED.items() if codec == guess}
    together = {codec: ("".join(its),) for codec, its in alphabets.items()}  # of several languages at once
    for each in (alphabets, together):
        shares = {codec: _share(bytes_, codec, its) for codec, its in each.items()}
        # Of equals the first, which is likeliest; but short texts in Turkish are Icelandic, letter by letter.
        best = max(shares, key=lambda codec: (shares[codec], codec == guess == "cp1254"))
        if shares[best][0] >= _ENOUGH:
            return best
    return guess


def _has_accents(text: bytes) -> bool:
    runs = _beyond_ascii(text)
    every = b"".join(runs)
    usual = sum(byte in _USUAL for byte in every)
    return usual >= _ENOUGH * len(every) and len(every) <= _TOGETHER * len(runs)


def _share(bytes_: Counter[int], codec: str, alphabets: Sequence[str]) -> tuple[float, int]:
    """The largest share of the letters that one alphabet has, and how many that are; all, if there are none.

    What stands in no text counts against it.
    """
    letters = Counter[str]()
    for byte, count in bytes_.items():
        character = bytes((byte,)).decode(codec, "replace").lower()
        if character.isalpha() or character == "\ufffd" or "\x80" <= character <= "\x9f":
            letters[character] += count
    total = letters.total()
    known = [sum(letters[letter] for letter in set(alphabet)) for alphabet in alphabets]
    return (max(known) / total, max(known)) if total else (1.0, 0)
