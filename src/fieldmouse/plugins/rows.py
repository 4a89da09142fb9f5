"""The rows that `extract` found, as they are stored: one JSON object a line.

They are encoded while the plug-in's time runs and its mistakes are caught: what
cannot be written is its own trouble, and so are rows without end. All rows of a
page count, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fieldmouse.plugins.call import BadAnswer, kind_of


def _plain(thing: object) -> dict[object, object]:
    if isinstance(thing, Mapping):
        return dict(thing)
    raise BadAnswer(f"gave {kind_of(thing)} inside a row, which cannot be written")


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


class Rows(msgspec.Struct, frozen=True):
    """What one page gave."""

    lines: bytes = b""
    count: int = 0


def encode_rows(answer: object, most_bytes: int) -> Rows:
    """The rows in what `extract` returned: nothing, one row, or any number of them.

    >>> encode_rows([{"name": "vole"}, {"name": "shrew"}], 100)
    Rows(lines=b'{"name":"vole"}\\n{"name":"shrew"}\\n', count=2)
    """
    if answer is None:
        return Rows()
    if _is_row(answer):
        answer = (answer,)
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        raise BadAnswer(f"gave {kind_of(answer)} and not rows")
    parts: list[bytes] = []
    size = 0
    for row in answer:
        if not _is_row(row):
            raise BadAnswer(f"gave {kind_of(row)} as a row, and a row is a mapping")
        line = _encode(row)
        if not line.startswith(b"{"):
            raise BadAnswer(f"gave {kind_of(row)} as a row, and a row is a mapping")
        size += len(line) + 1
        if size > most_bytes:
            raise BadAnswer(f"gave more than {most_bytes} bytes of rows for one page")
        parts.append(line)
    return Rows(b"\n".join((*parts, b"")), len(parts)) if parts else Rows()


def _is_row(thing: object) -> bool:
    """A mapping, or a typed record (a dataclass, a msgspec struct), which is written as one."""
    return isinstance(thing, Mapping | msgspec.Struct) or hasattr(type(thing), "__dataclass_fields__")
