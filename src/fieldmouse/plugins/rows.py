"""Encoding of the rows that `extract` returns: one JSON object per line.

Rows are encoded inside the guarded call, so that values that cannot be encoded and endless
rows count as errors of the plug-in. Either all rows of a page are stored, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fieldmouse.plugins.runner import InvalidPluginResult, type_with_article


def _to_dict(thing: object) -> dict[object, object]:
    if isinstance(thing, Mapping):
        return dict(thing)
    raise InvalidPluginResult(f"gave {type_with_article(thing)} inside a row, which cannot be written")


_encode = msgspec.json.Encoder(enc_hook=_to_dict).encode


class EncodedRows(msgspec.Struct, frozen=True):
    """Encoded rows of one page."""

    lines: bytes = b""
    count: int = 0


def encode_rows(answer: object, most_bytes: int) -> EncodedRows:
    r"""Encode the result of `extract`: None, one row, or any number of rows.

    >>> encode_rows([{"name": "vole"}, {"name": "shrew"}], 100)
    EncodedRows(lines=b'{"name":"vole"}\n{"name":"shrew"}\n', count=2)
    """
    if answer is None:
        return EncodedRows()
    if _is_row(answer):
        answer = (answer,)
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        raise InvalidPluginResult(f"gave {type_with_article(answer)} and not rows")
    parts: list[bytes] = []
    size = 0
    for row in answer:
        if not _is_row(row):
            raise InvalidPluginResult(f"gave {type_with_article(row)} as a row, and a row is a mapping")
        line = _encode(row)
        if not line.startswith(b"{"):
            raise InvalidPluginResult(f"gave {type_with_article(row)} as a row, and a row is a mapping")
        size += len(line) + 1
        if size > most_bytes:
            raise InvalidPluginResult(f"gave more than {most_bytes} bytes of rows for one page")
        parts.append(line)
    return EncodedRows(b"\n".join((*parts, b"")), len(parts)) if parts else EncodedRows()


def _is_row(thing: object) -> bool:
    """Whether it is a mapping, or a typed record (a dataclass, a msgspec struct), which is encoded as one."""
    return isinstance(thing, Mapping | msgspec.Struct) or hasattr(type(thing), "__dataclass_fields__")
