"""Reader for the rows that were extracted from pages.

The rows of a page are one record in its WARC file. The page's outcome stores the offset
of that record, so reading one page's rows reads nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from fieldmouse.errors import Damaged
from fieldmouse.indexer.warcs import Torn, members, read_record
from fieldmouse.records import OutcomeRow

_NEAR = 16 << 10  # bytes read at a time: most rows are shorter
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def items_of(archive: Path, row: OutcomeRow) -> list[dict[str, Any]]:
    """The rows of one page, as `extract` returned them; raises `Damaged` if they cannot be read."""
    if not row.items:
        return []
    path = archive / row.warc
    try:
        record = read_record(next(members(path, row.items_at, path.stat().st_size, piece=_NEAR)).content)
        rows = [_decode(line) for line in record.block.splitlines()]
        if record.url != row.url or len(rows) != row.items:
            raise ValueError("it holds other rows")
    except FileNotFoundError:
        raise Damaged(path, f"it is missing, and with it the rows of {row.url}") from None
    except (Torn, OSError, ValueError, KeyError, msgspec.MsgspecError) as trouble:
        raise Damaged(path, f"the rows of {row.url} cannot be read ({trouble})") from trouble
    return rows


def read_items(archive: Path, pages: Iterable[OutcomeRow]) -> Iterator[tuple[OutcomeRow, dict[str, Any]]]:
    """The rows of many pages, each with its page."""
    for row in pages:
        for item in items_of(archive, row):
            yield row, item
