"""Cheap language detection for texts that do not declare their language.

A text in a non-Latin script is recognized by its letters; languages that share a script
are distinguished by letters that only some of them use. Names and code in Latin letters
are common in such texts, so a share of the script is enough. For Latin script: the stop
words of a language make up a third of any text in it. Counting them over
the first few hundred words distinguishes a dozen languages. If the lead is thin, the
result is "" rather than a wrong language.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter

_STOP_WORDS = {
    "en": "the of and to in is that for it with as was on are this be by at from or have not which an you",
    "de": "der die und das den von zu mit sich des auf für ist im dem nicht ein eine als auch es an werden",
    "fr": "de la le et les des en un du une est que pour qui dans au par plus pas sur avec ce sont aux",
    "es": "de la que el en y los del se las por un para con no una su al lo como más pero sus este ya",
    "it": "di e il la che in un per è del una non sono con le si da dei nel alla come più anche gli della",
    "pt": "de a que o e do da em um para com não uma os no se na por mais as dos como mas ao ele das",
    "nl": "de van het een en in is dat op te zijn met voor niet die aan er om ook als bij maar naar uit",
    "sv": "och i att det som en på är av för med den till inte ett om har de men var jag sig från vi",
    "da": "og i at det er en på til som af for med den ikke der et de har om han var men sig vi",
    "pl": "w i na z się do nie że to jest o jak po za od przez dla był oraz ale tym co są tego",
    "ru": "и в не на что с по как это из для к от а за то так но был его все она он у",
    "tr": "ve bir bu da de için ile olarak çok daha olan gibi en ne kadar sonra her ise ama o",
}
_WORDS = {language: frozenset(words.split()) for language, words in _STOP_WORDS.items()}
_SAMPLE_WORDS = 400  # words
_MIN_WORD_SHARE = 0.12  # minimum share of stop words
_MIN_LEAD = 1.3  # required lead, as a multiple of the runner-up


_SAMPLE_CHARS = 6000  # characters
_MIN_LETTER_SHARE = 0.2  # minimum share of non-Latin letters; below, they are quotations
_MIN_LETTERS = 20  # minimum number of such letters
_BLOCKS = sorted(
    [
        *((0x370, 0x3FF, "el"), (0x400, 0x52F, "cyrl"), (0x530, 0x58F, "hy"), (0x590, 0x5FF, "he")),
        *((0x600, 0x6FF, "arab"), (0x750, 0x77F, "arab"), (0x900, 0x97F, "hi"), (0x980, 0x9FF, "bn")),
        *((0xA00, 0xA7F, "pa"), (0xA80, 0xAFF, "gu"), (0xB80, 0xBFF, "ta"), (0xC00, 0xC7F, "te")),
        *((0xC80, 0xCFF, "kn"), (0xD00, 0xD7F, "ml"), (0xD80, 0xDFF, "si"), (0xE00, 0xE7F, "th")),
        *((0xE80, 0xEFF, "lo"), (0xF00, 0xFFF, "bo"), (0x1000, 0x109F, "my"), (0x10A0, 0x10FF, "ka")),
        *((0x1100, 0x11FF, "ko"), (0xAC00, 0xD7AF, "ko"), (0x1200, 0x137F, "am"), (0x1780, 0x17FF, "km")),
        *((0x1F00, 0x1FFF, "el"), (0x3040, 0x30FF, "kana"), (0xFF66, 0xFF9D, "kana")),
        *((0x3400, 0x4DBF, "han"), (0x4E00, 0x9FFF, "han"), (0xFB50, 0xFDFF, "arab")),
        (0xFE70, 0xFEFC, "arab"),
    ]
)
_FIRSTS = [first for first, _, _ in _BLOCKS]
_NON_LATIN = re.compile("[^\0-\u036f]+")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]+")
# one letter holds as much information as two or three of an alphabet
_DENSE = frozenset(("han", "kana", "ko"))
# Languages that share a script, with letters that most of their neighbours do not use.
_ARABIC = {
    "ur": "\u0679\u0688\u0691\u06ba\u06be\u06d2",
    "fa": "\u067e\u0686\u0698\u06a9\u06af\u06cc",
    "ar": "\u0643\u064a\u0629\u0649",
}
_CYRILLIC = {
    "be": "\u045e",
    "uk": "\u0457\u0454\u0491",
    "sr": "\u0452\u045b",
    "mk": "\u0453\u045c\u0455",
    "ru": "\u044b\u044d\u0451",
    "bg": "\u044a",
}


def guess_language(text: str) -> str:
    """ISO 639-1 code, or "" when in doubt.

    >>> guess_language("der Hund und die Katze sind auf dem Dach und das Haus ist im Wald, nicht an der See")
    'de'
    """
    sample = text[:_SAMPLE_CHARS]
    return ("" if sample.isascii() else _guess_by_letters(sample)) or _guess_by_words(text)


def _guess_by_letters(sample: str) -> str:
    """Language of a text in a non-Latin script, or ""."""
    non_latin = "".join(_NON_LATIN.findall(sample))
    if len(non_latin) < _MIN_LETTERS // 2:
        return ""
    letters = Counter(non_latin)
    counts: Counter[str] = Counter()
    for letter, times in letters.items():
        counts[_script_of(letter)] += times
    kana = counts["kana"]
    for script in _DENSE:
        counts[script] *= 2
    counts["han"] += counts.pop("kana")
    del counts[""]
    best, weight = counts.most_common(1)[0]
    latin = sum(map(len, _LATIN.findall(sample)))
    if weight < _MIN_LETTERS or weight < _MIN_LETTER_SHARE * (counts.total() + latin):
        return ""
    if best == "han":
        return "ja" if 40 * kana > weight else "zh"
    if best == "arab":
        return _most_distinctive(letters, _ARABIC, mixed="ur", otherwise="ar")
    if best == "cyrl":
        return _most_distinctive(letters, _CYRILLIC, mixed="be", otherwise="ru")
    return best


def _script_of(letter: str) -> str:
    at = bisect_right(_FIRSTS, ord(letter)) - 1
    return _BLOCKS[at][2] if at >= 0 and ord(letter) <= _BLOCKS[at][1] else ""


def _most_distinctive(letters: Counter[str], languages: dict[str, str], *, mixed: str, otherwise: str) -> str:
    """The language whose distinctive letters are the most frequent; `otherwise` if there are none.

    The `mixed` language also uses its neighbours' letters: a fiftieth as many distinctive letters is enough.
    """
    counts = {language: sum(letters[letter] for letter in own) for language, own in languages.items()}
    most = max(counts, key=counts.__getitem__)
    if counts[mixed] > 2 and 50 * counts[mixed] > counts[most]:
        return mixed
    return most if counts[most] else otherwise


def _guess_by_words(text: str) -> str:
    words = text[: _SAMPLE_WORDS * 8].lower().split()[:_SAMPLE_WORDS]
    if len(words) < 10:
        return ""
    counts = sorted(((sum(w in known for w in words), name) for name, known in _WORDS.items()), reverse=True)
    (most, best), (second, _) = counts[0], counts[1]
    return best if most >= _MIN_WORD_SHARE * len(words) and most >= _MIN_LEAD * second else ""
