"""From bytes to text: which charset a document is in.

Asked in this order: a byte-order mark, the Content-Type header, a `<meta>` in the
first 1024 bytes, UTF-8 if the bytes are valid in it, and only then a guess from a
prefix, since guessing costs more than all the rest of a page. Names mean what
browsers take them for: `iso-8859-1` is windows-1252, `gb2312` is gb18030.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

_PRESCAN = 1024
_GUESS = 4096
_META = re.compile(rb"(?i)<meta[^>]+?charset\s*=\s*[\"']?\s*([a-z0-9_.:\-]+)")
_HEADER = re.compile(r"(?i)charset\s*=\s*[\"']?\s*([a-z0-9_.:\-]+)")
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Python's codec names for the encodings of the WHATWG list, and nothing that is not a charset.
_MEANT = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "cp1252": "cp1252", "utf-8": "utf-8", "cp866": "cp866",
    "gb2312": "gb18030", "gbk": "gb18030", "gb18030": "gb18030",
    "big5": "big5hkscs", "big5hkscs": "big5hkscs",
    "euc_jp": "euc_jp", "iso2022_jp": "iso2022_jp", "shift_jis": "cp932", "cp932": "cp932",
    "euc_kr": "cp949", "cp949": "cp949", "koi8-r": "koi8-r", "koi8-u": "koi8-u", "mac-roman": "mac-roman",
    "mac-cyrillic": "mac-cyrillic", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "cp874": "cp874", "utf-16": "utf-16-le", "utf-16-le": "utf-16-le", "utf-16-be": "utf-16-be",
    **{f"cp125{n}": f"cp125{n}" for n in range(9)},
    **{f"iso8859-{n}": f"iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
}  # fmt: skip


@lru_cache(maxsize=256)
def known(label: str) -> str:
    """The codec a label means, or "" if it means none.

    >>> known("ISO-8859-1"), known("rot13")
    ('cp1252', '')
    """
    try:
        return _MEANT.get(codecs.lookup(label.strip().lower()).name, "")
    except (LookupError, ValueError):
        return ""


def find_charset(body: bytes, content_type: str, *, markup: bool = True) -> str:
    """The codec of a document; decode with errors="replace"."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return name
    if (found := _HEADER.search(content_type)) and (name := known(found[1])):
        return name
    if markup and (declared := _META.search(body, 0, _PRESCAN)):
        name = known(declared[1].decode("ascii"))
        if name:
            # A meta we could read cannot be in UTF-16.
            return "utf-8" if name.startswith("utf-16") else name
    try:
        body.decode()
    except UnicodeDecodeError:
        return _guess(body)
    return "utf-8"


def _guess(body: bytes) -> str:
    # The cut may fall inside a character: one bad sequence at the very end says nothing.
    prefix = body[:_GUESS]
    try:
        prefix.decode()
    except UnicodeDecodeError as trouble:
        if trouble.start >= len(prefix) - 3 and len(body) > len(prefix):
            return "utf-8"
    from charset_normalizer import from_bytes  # loads tables that most crawls never need

    best = from_bytes(prefix).best()
    return known(best.encoding) or "cp1252" if best is not None else "cp1252"
