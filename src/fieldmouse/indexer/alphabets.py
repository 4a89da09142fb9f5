"""Choice between Latin charsets by the alphabets of the languages written in them.

Nearly every byte is a letter in each of these charsets, so byte statistics distinguish them poorly. A
French
page also decodes in the Central European charset, with a few odd letters, but no language uses those
letters together.
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
_EAST = (
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
_ALPHABETS = {"cp1252": _WEST, "cp1250": _EAST, "iso8859-2": _EAST, "cp1254": _TURKISH, "cp1257": _BALTIC}
"""By charset, the likeliest first; every letter that is not in the English alphabet."""
_IF_GUESSED = {"iso8859-15": _WEST}
"""Considered only if guessed: the bytes of letters specific to these are more often signs, such as fractions.
"""
_LATIN = frozenset(
    {*_ALPHABETS, "cp1258", "iso8859-3", "iso8859-4", "iso8859-9", "iso8859-10", "iso8859-13", "iso8859-14"}
    | {"iso8859-1", "iso8859-15", "iso8859-16", "mac-roman", "mac_roman", "mac-latin2", "cp437", "cp850"}
)
_MIN_SHARE = 0.9
"""Share of the letters that an alphabet must contain; names and quotations contain foreign letters."""


_MAX_RUN = 2.0
"""Maximum average run of accented letters: in other scripts whole words are beyond ASCII."""
_FEW_BYTES = 3
"""Up to this many bytes beyond ASCII are read as windows-1252, which most of the web means."""
_COMMON_BYTES = frozenset({*range(0xC0, 0x100), *range(0x91, 0x98)} - {0xD7, 0xF7}) | frozenset(
    "€…ŠšŽžŒœ™\xa0¡§©ª«®°·º»½¿".encode("cp1252")
)
"""Letters and signs of windows-1252 that occur in texts; half of the bytes of East Asian texts are not among
them."""
_beyond_ascii = re.compile(rb"[\x80-\xff]+").findall


def settled_by_letters(text: bytes, guess: str) -> str:
    r"""The charset whose alphabets cover the letters of a text best, if the text is in Latin letters; else
    `guess`.

    A text counts as Latin if `guess` is a Latin charset or if its bytes beyond ASCII look like accents in
    words.

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
    if bytes_.total() <= _FEW_BYTES and _share(bytes_, "cp1252", _WEST)[0] >= _MIN_SHARE:
        return guess if guess in ("cp1254", *_IF_GUESSED) else "cp1252"
    alphabets = _ALPHABETS | {codec: languages for codec, languages in _IF_GUESSED.items() if codec == guess}
    # For texts in several languages.
    merged = {codec: ("".join(languages),) for codec, languages in alphabets.items()}
    for candidates in (alphabets, merged):
        shares = {codec: _share(bytes_, codec, languages) for codec, languages in candidates.items()}
        # On a tie the first (likeliest) wins, except for Turkish: a short Turkish text also matches
        # Icelandic.
        best = max(shares, key=lambda codec: (shares[codec], codec == guess == "cp1254"))
        if shares[best][0] >= _MIN_SHARE:
            return best
    return guess


def _has_accents(text: bytes) -> bool:
    runs = _beyond_ascii(text)
    joined = b"".join(runs)
    common = sum(byte in _COMMON_BYTES for byte in joined)
    return common >= _MIN_SHARE * len(joined) and len(joined) <= _MAX_RUN * len(runs)


def _share(bytes_: Counter[int], codec: str, alphabets: Sequence[str]) -> tuple[float, int]:
    """Largest share of the letters that one alphabet covers, and their count; (1.0, 0) if there are no
    letters.

    Control characters and undecodable bytes count as uncovered letters.
    """
    letters = Counter[str]()
    for byte, count in bytes_.items():
        character = bytes((byte,)).decode(codec, "replace").lower()
        if character.isalpha() or character == "\ufffd" or "\x80" <= character <= "\x9f":
            letters[character] += count
    total = letters.total()
    covered = [sum(letters[letter] for letter in set(alphabet)) for alphabet in alphabets]
    return (max(covered) / total, max(covered)) if total else (1.0, 0)
