"""Content-Type of an answer, of several if there are several (Fetch Standard, "extract a MIME type").

The last one that is valid counts, whether they came in several lines or in one with commas. A charset that
only an earlier one of the same type names holds for the later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_parts = re.compile(r"(?:[^,\"]|\"(?:[^\"\\]|\\.)*+\"?)++", re.DOTALL).findall  # quotes hold commas together
_valid = re.compile(rf"[ \t\r\n]*({_TOKEN}/{_TOKEN})[ \t\r\n]*(?:;.*)?", re.DOTALL).fullmatch
_charset = re.compile(r';[ \t\r\n]*charset=("[^"]*"|[^;"]+)', re.IGNORECASE).search


def media_type(values: Sequence[str]) -> str:
    """Type and parameters; the first value if none is valid, "" if there is none.

    >>> media_type(["text/plain", "text/html; charset=utf-8", "*/*", "nonsense"])
    'text/html; charset=utf-8'
    >>> media_type(["text/html;charset=koi8-r", "text/html"])
    'text/html;charset=koi8-r'
    """
    if not values:
        return ""
    if len(values) == 1 and "," not in values[0]:
        return values[0]
    kind = charset = chosen = ""
    for part in _parts(", ".join(values)):
        found = _valid(part)
        if found is None or found[1] == "*/*":
            continue
        named = _charset(part)
        chosen = part.strip()
        if found[1].lower() != kind:
            kind, charset = found[1].lower(), ""
        if named is not None:
            charset = named[1]
        elif charset:
            chosen = f"{chosen};charset={charset}"
    return chosen or values[0]


def essence(media: str) -> str:
    """The type without its parameters, in lower case.

    >>> essence("Text/HTML; charset=utf-8")
    'text/html'
    """
    return media.partition(";")[0].strip().lower()
