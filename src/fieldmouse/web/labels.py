"""Charset labels of the web and the Python codecs for them (WHATWG Encoding Standard, 4.2).

The table of labels is that of `webencodings`. The choice of codecs is ours: on the web `iso-8859-1` means
windows-1252, `gb2312` means gb18030 and `shift_jis` means the variant of Windows. Browsers replace pages
with some labels by one U+FFFD, because these could smuggle a script past a filter. We decode them, since
we run no scripts.
"""

from __future__ import annotations

import codecs
from functools import cache, lru_cache

from webencodings.labels import LABELS

BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

_SPACE = "\t\n\f\r "
_NAMES = (
    "big5=big5hkscs euc-jp=euc_jp euc-kr=cp949 gb18030=gb18030 gbk=gb18030 ibm866=cp866 "
    "iso-2022-jp=iso2022_jp_ext iso-8859-8-i=iso8859-8 macintosh=mac-roman shift_jis=cp932 "
    "utf-16be=utf-16-be utf-16le=utf-16-le windows-874=cp874 x-mac-cyrillic=mac-cyrillic "
    "x-user-defined=cp1252"
)
_CODECS = dict(pair.split("=") for pair in _NAMES.split())
_REPLACED = {"hz-gb-2312": "hz", "iso-2022-kr": "iso2022_kr", "csiso2022kr": "iso2022_kr"}


@lru_cache(maxsize=1024)
def codec_of(label: str) -> str:
    """Return the codec of a label on the web, or "" if it has none.

    >>> codec_of(" ISO-8859-1 "), codec_of("x-sjis"), codec_of("rot13")
    ('cp1252', 'cp932', '')
    """
    label = label.strip(_SPACE)
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
    return _by_name().get(name) or codec_of(name)


@cache
def _by_name() -> dict[str, str]:
    read = {codec_of(label) for label in LABELS} - {"ascii"}
    return {codecs.lookup(codec).name: codec for codec in read}


def decoded(body: bytes, codec: str) -> str:
    """Decode a document without its byte order mark; invalid bytes become U+FFFD."""
    for mark, name in BOMS:
        if name == codec and body.startswith(mark):
            body = body[len(mark) :]
    if codec.startswith("cp1") or codec in ("cp874", "koi8-u"):
        return codecs.charmap_decode(body, "strict", _table(codec))[0]
    if codec == "euc_jp":
        # One character of row 13 (such as a number in a circle) would corrupt everything behind it.
        try:
            return body.decode(codec)
        except UnicodeDecodeError:
            return body.decode("euc_jis_2004", "replace")
    return body.decode(codec, "replace")


def spelt(href: str, codec: str) -> str:
    """Encode the query of a link in the charset of its page (URL Standard, query state).

    >>> spelt("/suche?wort=M\u00e4use", "cp1252"), spelt("/?\u2603", "cp1252"), spelt("/?\u00e4", "utf-8")
    ('/suche?wort=M%E4use', '/?%26%239731%3B', '/?\u00e4')
    """
    if href.isascii() or codec.startswith("utf"):
        return href
    path, _, query = href.partition("#")[0].partition("?")
    if query.isascii():
        return href
    if codec.startswith("cp1") or codec in ("cp874", "koi8-u"):
        raw = codecs.charmap_encode(query, _ERRORS, codecs.charmap_build(_table(codec)))[0]
    else:
        if codec == "euc_jp":  # browsers write two of its three sets
            query = "".join(_reference(c) if c.encode(codec, "ignore")[:1] == b"\x8f" else c for c in query)
        raw = query.encode(_ENCODERS.get(codec, codec), _ERRORS)
    return f"{path}?{''.join(map(_escaped, raw))}"


def _escaped(byte: int) -> str:
    return chr(byte) if byte < 0x7F and byte not in b"\x1b#" else f"%{byte:02X}"


def _as_reference(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_reference, error.object[error.start : error.end])), error.end


def _reference(character: str) -> str:
    """Return the escaped reference that browsers send for a character missing in a charset: `&#9731;`."""
    return f"%26%23{ord(character)}%3B"


# encoders that differ from the decoder, which reads more
_ENCODERS = {"gb18030": "gbk", "iso2022_jp_ext": "iso2022_jp"}
_ERRORS = "fieldmouse.query"
codecs.register_error(_ERRORS, _as_reference)


@cache
def _table(codec: str) -> str:
    """Return the 256 characters of a Windows charset; the standard fills the gaps below 0xA0."""
    characters = [bytes([code]).decode(codec, "replace") for code in range(256)]
    for code in range(0x80, 0xA0):
        if characters[code] == "\ufffd":
            characters[code] = chr(code)
    for code, character in _EXCEPTIONS.get(codec, {}).items():
        characters[code] = character
    return "".join(characters)


_EXCEPTIONS = {"koi8-u": {0xAE: "\u045e", 0xBE: "\u040e"}, "cp1255": {0xCA: "\u05ba"}}
