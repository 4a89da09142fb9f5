"""Charset detection for documents.

Order of the HTML standard (13.2.3.2): a byte order mark, the Content-Type header, a
`<meta>` in the first 1024 bytes. If none of these names a charset, the document is UTF-8 if its bytes are
valid UTF-8 and not all ASCII. Then a `<meta>` further down counts. Guessing from a
prefix comes last, because it costs more than the rest of the page.
"""

from __future__ import annotations

import re
from functools import lru_cache

from fieldmouse.indexer.alphabets import settled_by_letters
from fieldmouse.web.labels import BOMS, codec_of, web_codec

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
    """The codec of a document; decode the body with `web.labels.decoded`."""
    for mark, name in BOMS:
        if body.startswith(mark):
            return name
    if name := _from_header(content_type):
        return name
    if markup and (name := prescan(body[:_EARLY])):
        return name
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError:
            return (_declared_late(body) if markup else "") or _guess(body)
        return "utf-8"
    if markup and (name := _declared_late(body)):
        return name
    # Japanese in seven bits looks like ASCII.
    return "iso2022_jp_ext" if b"\x1b$B" in body else "utf-8"


@lru_cache(maxsize=512)
def _from_header(content_type: str) -> str:
    """Codec named in a Content-Type header, or ""."""
    match = _header(content_type)
    return codec_of(match[1] or match[2] or match[3] or "") if match else ""


def prescan(head: bytes) -> str:
    """Codec declared at the beginning of an HTML document, or "".

    >>> prescan(b"<!-- <meta charset=koi8-r> --><meta charset=bogus><meta charset='x-sjis'>")
    'cp932'
    """
    if head.startswith((b"<\0?\0x\0", b"\0<\0?\0x")):
        return "utf-16-le" if head[0] else "utf-16-be"
    at = 0 if b"charset" in head.lower() else -1
    while at >= 0 and (skipped := _skip_others(head, at)) and _meta(head, skipped.end()):
        at, name = _read_meta(head, skipped.end() + 5)
        if name:
            return name
    match = _xml(head)
    return _for_ascii(codec_of((match[1] or match[2] or b"").decode("latin-1"))) if match else ""


def _read_meta(head: bytes, at: int) -> tuple[int, str]:
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
        name = codec_of(attributes[b"charset"].decode("latin-1"))
    elif attributes.get(b"http-equiv", b"").lower() == b"content-type":
        name = _in_content(attributes.get(b"content", b""))
    else:
        return at, ""
    return at, _for_ascii(name)


def _in_content(content: bytes) -> str:
    """The charset of `text/html; charset=...` (2.5.5 of the standard)."""
    match = _charset(content)
    return codec_of((match[1] or match[2] or match[3] or b"").decode("latin-1")) if match else ""


def _for_ascii(codec: str) -> str:
    """Replace UTF-16 with UTF-8: a declaration readable as ASCII cannot be in UTF-16."""
    return "utf-8" if codec.startswith("utf-16") else codec


def _declared_late(body: bytes) -> str:
    """Codec declared after the first bytes, or ""."""
    if body.find(b"charset", _EARLY - 7, _LATE) < 0 and body.find(b"CHARSET", _EARLY - 7, _LATE) < 0:
        return ""
    return prescan(body[:_LATE])


def _guess(body: bytes) -> str:
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
    return settled_by_letters(prefix, guess)
