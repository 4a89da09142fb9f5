"""Charset detection and decoding of documents.

Order of the HTML standard (13.2.3.2): a byte order mark, the Content-Type header, a `<meta>` in the first
1024 bytes. If none of these names a charset, the document is UTF-8 if its bytes are valid UTF-8 and not all
ASCII. Then a `<meta>` further down counts. Guessing from a prefix comes last, because it costs more than the
rest of the page. Labels map to codecs as in the Encoding Standard.

Between Latin charsets the alphabets of the languages written in them decide. Nearly every byte is a letter in
each of these charsets, so byte statistics distinguish them poorly. A French page also decodes in the Central
European charset, with a few odd letters, but no language uses those letters together.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache

from webencodings.labels import LABELS

BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

_LABEL_SPACE = "\t\n\f\r "
_NAMES = (
    "big5=big5hkscs euc-jp=euc_jp euc-kr=cp949 gb18030=gb18030 gbk=gb18030 ibm866=cp866 "
    "iso-2022-jp=iso2022_jp_ext iso-8859-8-i=iso8859-8 macintosh=mac-roman shift_jis=cp932 "
    "utf-16be=utf-16-be utf-16le=utf-16-le windows-874=cp874 x-mac-cyrillic=mac-cyrillic "
    "x-user-defined=cp1252"
)
_CODECS = dict(pair.split("=") for pair in _NAMES.split())
_REPLACED = {"hz-gb-2312": "hz", "iso-2022-kr": "iso2022_kr", "csiso2022kr": "iso2022_kr"}


@lru_cache(maxsize=1024)
def codec_for_label(label: str) -> str:
    """Return the codec of a label on the web, or "" if it has none.

    >>> codec_for_label(" ISO-8859-1 "), codec_for_label("x-sjis"), codec_for_label("rot13")
    ('cp1252', 'cp932', '')
    """
    label = label.strip(_LABEL_SPACE)
    # Only ASCII: the Kelvin sign becomes `k` in lower case.
    name = LABELS.get(label.lower(), "") if label.isascii() else ""
    if name == "replacement":
        return _REPLACED.get(label.lower(), "ascii")
    if name.startswith("windows-125"):
        return f"cp{name[8:]}"
    if name.startswith("iso-8859-") and name not in _CODECS:
        return f"iso{name[4:]}"
    return _CODECS.get(name, name)


def web_codec(codec: str) -> str:
    """Return the codec if it decodes an encoding of the web, else that of its label, else "".

    >>> web_codec("cp949"), web_codec("latin_1"), web_codec("cp500")
    ('cp949', 'cp1252', '')
    """
    name = codecs.lookup(codec).name
    return _web_codecs_by_name().get(name) or codec_for_label(name)


@cache
def _web_codecs_by_name() -> dict[str, str]:
    read = {codec_for_label(label) for label in LABELS} - {"ascii"}
    return {codecs.lookup(codec).name: codec for codec in read}


def decode_text(body: bytes, codec: str) -> str:
    """Decode a document without its byte order mark; invalid bytes become U+FFFD."""
    for mark, name in BOMS:
        if name == codec and body.startswith(mark):
            body = body[len(mark) :]
    if codec.startswith("cp1") or codec in ("cp874", "koi8-u"):
        return codecs.charmap_decode(body, "strict", _character_table(codec))[0]
    if codec == "euc_jp":
        # One character of row 13 (such as a number in a circle) would corrupt everything behind it.
        try:
            return body.decode(codec)
        except UnicodeDecodeError:
            return body.decode("euc_jis_2004", "replace")
    return body.decode(codec, "replace")


def encode_query(href: str, codec: str) -> str:
    """Encode the query of a link in the charset of its page (URL Standard, query state).

    >>> encode_query("/suche?wort=M\u00e4use", "cp1252"), encode_query("/?\u2603", "cp1252")
    ('/suche?wort=M%E4use', '/?%26%239731%3B')
    >>> encode_query("/?\u00e4", "utf-8")
    '/?\u00e4'
    """
    if href.isascii() or codec.startswith("utf"):
        return href
    path, _, query = href.partition("#")[0].partition("?")
    if query.isascii():
        return href
    if codec.startswith("cp1") or codec in ("cp874", "koi8-u"):
        raw = codecs.charmap_encode(query, _ERRORS, codecs.charmap_build(_character_table(codec)))[0]
    else:
        if codec == "euc_jp":  # browsers write two of its three sets
            query = "".join(_character_reference(c) if c.encode(codec, "ignore")[:1] == b"\x8f" else c for c in query)
        raw = query.encode(_ENCODERS.get(codec, codec), _ERRORS)
    return f"{path}?{''.join(map(_escape_byte, raw))}"


def _escape_byte(byte: int) -> str:
    return chr(byte) if byte < 0x7F and byte not in b"\x1b#" else f"%{byte:02X}"


def _encode_as_references(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_character_reference, error.object[error.start : error.end])), error.end


def _character_reference(character: str) -> str:
    """Return the escaped reference that browsers send for a character missing in a charset: `&#9731;`."""
    return f"%26%23{ord(character)}%3B"


# encoders that differ from the decoder, which reads more
_ENCODERS = {"gb18030": "gbk", "iso2022_jp_ext": "iso2022_jp"}
_ERRORS = "fieldmouse.query"
codecs.register_error(_ERRORS, _encode_as_references)


@cache
def _character_table(codec: str) -> str:
    """Return the 256 characters of a Windows charset; the standard fills the gaps below 0xA0."""
    characters = [bytes([code]).decode(codec, "replace") for code in range(256)]
    for code in range(0x80, 0xA0):
        if characters[code] == "\ufffd":
            characters[code] = chr(code)
    for code, character in _EXCEPTIONS.get(codec, {}).items():
        characters[code] = character
    return "".join(characters)


_EXCEPTIONS = {"koi8-u": {0xAE: "\u045e", 0xBE: "\u040e"}, "cp1255": {0xCA: "\u05ba"}}

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
#: By charset, the likeliest first; every letter that is not in the English alphabet.
_ALPHABETS = {"cp1252": _WEST, "cp1250": _EAST, "iso8859-2": _EAST, "cp1254": _TURKISH, "cp1257": _BALTIC}
#: Considered only if guessed: the bytes of letters specific to these are more often signs, such as fractions.
_IF_GUESSED = {"iso8859-15": _WEST}
_LATIN = frozenset(
    {*_ALPHABETS, "cp1258", "iso8859-3", "iso8859-4", "iso8859-9", "iso8859-10", "iso8859-13", "iso8859-14"}
    | {"iso8859-1", "iso8859-15", "iso8859-16", "mac-roman", "mac_roman", "mac-latin2", "cp437", "cp850"}
)
#: Share of the letters that an alphabet must contain; names and quotations contain foreign letters.
_MIN_SHARE = 0.9


#: Maximum average run of accented letters: in other scripts whole words are beyond ASCII.
_MAX_RUN = 2.0
#: Up to this many bytes beyond ASCII are read as windows-1252, which most of the web means.
_FEW_BYTES = 3
#: Letters and signs of windows-1252 that occur in texts; half of the bytes of East Asian texts are not among them.
_COMMON_BYTES = frozenset({*range(0xC0, 0x100), *range(0x91, 0x98)} - {0xD7, 0xF7}) | frozenset(
    "€…ŠšŽžŒœ™\xa0¡§©ª«®°·º»½¿".encode("cp1252")
)
_beyond_ascii = re.compile(rb"[\x80-\xff]+").findall


def resolve_latin_charset(text: bytes, guess: str) -> str:
    r"""The charset whose alphabets cover the letters of a text best, if the text is in Latin letters; else
    `guess`.

    A text counts as Latin if `guess` is a Latin charset or if its bytes beyond ASCII look like accents in
    words.

    >>> resolve_latin_charset("à côté du château".encode("cp1252"), "cp1250")
    'cp1252'
    >>> resolve_latin_charset("źdźbło, gęś i żółw".encode("cp1250"), "cp1252")
    'cp1250'
    >>> resolve_latin_charset("16.\xa0General information".encode("cp1252"), "cp932")
    'cp1252'
    """
    if guess not in _LATIN:
        if not _has_accents(text):
            return guess
        guess = "cp1252"
    bytes_ = Counter(byte for byte in text if byte >= 0x80)
    if bytes_.total() <= _FEW_BYTES and _covered_share(bytes_, "cp1252", _WEST)[0] >= _MIN_SHARE:
        return guess if guess in ("cp1254", *_IF_GUESSED) else "cp1252"
    alphabets = _ALPHABETS | {codec: languages for codec, languages in _IF_GUESSED.items() if codec == guess}
    # For texts in several languages.
    merged = {codec: ("".join(languages),) for codec, languages in alphabets.items()}
    for candidates in (alphabets, merged):
        shares = {codec: _covered_share(bytes_, codec, languages) for codec, languages in candidates.items()}
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


def _covered_share(bytes_: Counter[int], codec: str, alphabets: Sequence[str]) -> tuple[float, int]:
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


_EARLY = 1024
_LATE = 256 << 10
_GUESS_BYTES = 4096

_header = re.compile(r"(?i)(?:^|[;,\s])charset\s*=\s*(?:\"([^\"]*)\"?|'([^']*)'?|([^\s;,]*))").search

# The prescan, in the steps of the standard. No expression backtracks: time is linear in the bytes.
_SPACE = rb"\t\n\f\r "
_NAME = rb"[%(s)b/]*+(%(c)b[^%(s)b/>][^%(s)b/>=]*+)[%(s)b]*+"
_VALUE = rb"(?:=[%(s)b]*+(?:\"(%(c)b[^\"]*+)\"|'(%(c)b[^']*+)'|(%(c)b[^%(s)b>\"'][^%(s)b>]*+)|(?=>))|(?!=))"
_attribute = re.compile((_NAME + _VALUE) % {b"s": _SPACE, b"c": b""}).match
_meta = re.compile(rb"(?i)<meta[%b/]" % _SPACE).match
# Everything but meta: text, comments, tags with their attributes, and constructs that begin with `<!`, `</`
# or `<?`.
_skip_others = re.compile(
    rb"(?:[^<]++|<!--(?:-?>|.*?-->)|(?:</|<(?!(?i:meta)[%(s)b/]))[a-zA-Z][^%(s)b>]*+(?:%(a)b)*+[%(s)b/]*+>"
    rb"|<(?:!(?!--)|/(?![a-zA-Z])|\?)[^>]*+>|<(?![a-zA-Z!/?]))*+"
    % {b"s": _SPACE, b"a": (_NAME + _VALUE) % {b"s": _SPACE, b"c": b"?:"}},
    re.DOTALL,
).match
_xml = re.compile(
    rb"<\?xml[^>]*?encoding[\x00-\x20]*+=[\x00-\x20]*+(?:\"([^\"\x00-\x20>]*+)\"|'([^'\x00-\x20>]*+)')"
).match
_charset = re.compile(
    rb"(?i)charset[%(s)b]*+=[%(s)b]*+(?:\"([^\"]*+)\"|'([^']*+)'|([^%(s)b;\"'][^%(s)b;]*+))" % {b"s": _SPACE}
).search


def find_charset(body: bytes, content_type: str, *, markup: bool = True) -> str:
    """The codec of a document; decode the body with `decode_text`."""
    for mark, name in BOMS:
        if body.startswith(mark):
            return name
    if name := _codec_in_header(content_type):
        return name
    if markup and (name := prescan_charset(body[:_EARLY])):
        return name
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError:
            return (_declared_late(body) if markup else "") or _guess_codec(body)
        return "utf-8"
    if markup and (name := _declared_late(body)):
        return name
    # Japanese in seven bits looks like ASCII.
    return "iso2022_jp_ext" if b"\x1b$B" in body else "utf-8"


@lru_cache(maxsize=512)
def _codec_in_header(content_type: str) -> str:
    """Codec named in a Content-Type header, or ""."""
    match = _header(content_type)
    return codec_for_label(match[1] or match[2] or match[3] or "") if match else ""


def prescan_charset(head: bytes) -> str:
    """Codec declared at the beginning of an HTML document, or "".

    >>> prescan_charset(b"<!-- <meta charset=koi8-r> --><meta charset=bogus><meta charset='x-sjis'>")
    'cp932'
    """
    if head.startswith((b"<\0?\0x\0", b"\0<\0?\0x")):
        return "utf-16-le" if head[0] else "utf-16-be"
    at = 0 if b"charset" in head.lower() else -1
    while at >= 0 and (skipped := _skip_others(head, at)) and _meta(head, skipped.end()):
        at, name = _read_meta_charset(head, skipped.end() + 5)
        if name:
            return name
    match = _xml(head)
    return _utf8_for_utf16(codec_for_label((match[1] or match[2] or b"").decode("latin-1"))) if match else ""


def _read_meta_charset(head: bytes, at: int) -> tuple[int, str]:
    """End of a meta element, -1 if it does not end, and the charset it declares."""
    attributes: dict[bytes, bytes] = {}
    while (match := _attribute(head, at)) is not None:
        value = match[2] or match[3] or match[4] or b""
        attributes.setdefault(match[1].lower(), value)
        at = match.end()
    while head[at : at + 1] in (b"\t", b"\n", b"\f", b"\r", b" ", b"/"):
        at += 1
    if head[at : at + 1] != b">":
        return -1, ""
    if b"charset" in attributes:
        name = codec_for_label(attributes[b"charset"].decode("latin-1"))
    elif attributes.get(b"http-equiv", b"").lower() == b"content-type":
        name = _codec_in_content(attributes.get(b"content", b""))
    else:
        return at, ""
    return at, _utf8_for_utf16(name)


def _codec_in_content(content: bytes) -> str:
    """The charset of `text/html; charset=...` (2.5.5 of the standard)."""
    match = _charset(content)
    return codec_for_label((match[1] or match[2] or match[3] or b"").decode("latin-1")) if match else ""


def _utf8_for_utf16(codec: str) -> str:
    """Replace UTF-16 with UTF-8: a declaration readable as ASCII cannot be in UTF-16."""
    return "utf-8" if codec.startswith("utf-16") else codec


def _declared_late(body: bytes) -> str:
    """Codec declared after the first bytes, or ""."""
    if body.find(b"charset", _EARLY - 7, _LATE) < 0 and body.find(b"CHARSET", _EARLY - 7, _LATE) < 0:
        return ""
    return prescan_charset(body[:_LATE])


def _guess_codec(body: bytes) -> str:
    # The prefix may end inside a character, so an invalid sequence at its very end proves nothing.
    prefix = body[:_GUESS_BYTES]
    try:
        prefix.decode()
    except UnicodeDecodeError as trouble:
        if trouble.start >= len(prefix) - 3 and len(body) > len(prefix):
            return "utf-8"
    from charset_normalizer import from_bytes  # loads tables that most crawls never need

    best = from_bytes(prefix).best()
    guess = (web_codec(best.encoding) if best is not None else "") or "cp1252"
    return resolve_latin_charset(prefix, guess)
