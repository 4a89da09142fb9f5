"""From a page in the ledger to the link that is polled, with all that is known of the copy we hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fieldmouse.errors import Damaged
from fieldmouse.records import Door, Kind, Link, News, OutcomeKind, OutcomeRow
from fieldmouse.refresh.columns import Rows
from fieldmouse.refresh.ledger import Ledger
from fieldmouse.refresh.looks import Flag

ReadHeaders = Callable[[str, int], Mapping[str, str]]
"""The headers of the answer at a WARC file and offset, names in lower case; empty if it cannot be read."""

_COPIES = frozenset((OutcomeKind.PAGE, OutcomeKind.UNCHANGED))


def _no_headers(warc: str, offset: int) -> Mapping[str, str]:
    return {}


class Polls:
    """Makes links; `read_headers` is asked for validators of pages stored before those were kept."""

    def __init__(self, ledger: Ledger, read_headers: ReadHeaders = _no_headers):
        self._ledger, self._read_headers = ledger, read_headers

    def links(self, rows: Rows) -> list[Link]:
        """A link for each of these pages."""
        ledger = self._ledger
        columns = (ledger.take(name, rows).tolist() for name in ("standing", "newest", "flags"))
        return [
            self._link(row, standing, newest, flags)
            for row, standing, newest, flags in zip(rows.tolist(), *columns, strict=True)
        ]

    def _link(self, number: int, standing: int, newest: int, flags: int) -> Link:
        row = held = self._ledger.row_at(standing)
        etag, last_modified, memory = row.etag, row.last_modified, row.memory
        latest = self._ledger.row_at(newest) if newest != standing else row
        if row.kind is OutcomeKind.REFUSED:
            # It left search: whoever asked with validators of the old copy would not get it back by a 304.
            held = latest if latest.kind in _COPIES else row
            memory = held.memory
        elif latest is not row:  # a 304: it may bring newer validators, and tells of noise by its silence
            etag, last_modified = latest.etag or etag, latest.last_modified or last_modified
            memory = latest.memory if latest.news is not News.NONE else memory
        if not (etag or last_modified) and row.kind is OutcomeKind.PAGE and not flags & Flag.BARE:
            etag, last_modified = self._from_archive(number, row)
        return Link(
            row.url, row.depth, row.via, Kind(row.found_as), row.seen_at, etag=etag,
            last_modified=last_modified, door=Door.POLLED, was=row.kind, digest=held.digest,
            simhash=held.simhash, warc=held.warc, offset=held.offset, memory=memory,
            why=row.reason,
        )  # fmt: skip

    def _from_archive(self, number: int, row: OutcomeRow) -> tuple[str, str]:
        """Validators of a copy whose row has none; if the archive has none either, that is remembered."""
        headers: Mapping[str, str] = {}
        if row.warc:
            try:
                headers = self._read_headers(row.warc, row.offset)
            except (OSError, ValueError, KeyError, Damaged):
                headers = {}  # it is polled without, and told as what it is then
        etag, last_modified = headers.get("etag", ""), headers.get("last-modified", "")
        if not (etag or last_modified):
            self._ledger.mark(np.array([number]), Flag.BARE)
        return etag, last_modified
