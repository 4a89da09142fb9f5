"""Content-Type of a response with any number of such headers (Fetch Standard, "extract a MIME type").

The last valid type counts, whether in several lines or in one with commas. A charset of an earlier value
holds for a later one of the same type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
# commas inside quotes do not separate
_listed_types = re.compile(r"(?:[^,\"]|\"(?:[^\"\\]|\\.)*+\"?)++", re.DOTALL).findall
_valid = re.compile(rf"[ \t\r\n]*({_TOKEN}/{_TOKEN})[ \t\r\n]*(?:;.*)?", re.DOTALL).fullmatch
_charset = re.compile(r';[ \t\r\n]*charset=("[^"]*"|[^;"]+)', re.IGNORECASE).search


def media_type(values: Sequence[str]) -> str:
    """Return type and parameters; the first value if none is valid, "" if there is none.

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
    for part in _listed_types(", ".join(values)):
        match = _valid(part)
        if match is None or match[1] == "*/*":
            continue
        charset_match = _charset(part)
        chosen = part.strip()
        if match[1].lower() != kind:
            kind, charset = match[1].lower(), ""
        if charset_match is not None:
            charset = charset_match[1]
        elif charset:
            chosen = f"{chosen};charset={charset}"
    return chosen or values[0]


def essence(media: str) -> str:
    """Return the type without parameters, in lower case.

    >>> essence("Text/HTML; charset=utf-8")
    'text/html'
    """
    return media.partition(";")[0].strip().lower()
