"""Conversion of a page in the page table to the request that polls it, with all data of the stored copy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from fieldmouse.errors import DamagedFile
from fieldmouse.refresh.apply_outcomes import PageFlag
from fieldmouse.refresh.column_table import Rows
from fieldmouse.refresh.page_table import PageTable
from fieldmouse.types.outcome import ContentChange, OutcomeRow, Response
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import FrontierEntry, Request, RequestKind

#: Reader of the response at a WARC file and offset; its body is still content-encoded.
ReadResponse = Callable[[str, int], Response]

_COPIES = frozenset((OutcomeKind.PAGE, OutcomeKind.UNCHANGED))


class PollRequestBuilder:
    """Builder of poll requests; `read_answer` supplies validators of pages stored before rows kept them."""

    def __init__(self, table: PageTable, read_answer: ReadResponse | None = None):
        self._table, self._read_answer = table, read_answer

    def build_requests(self, rows: Rows) -> list[Request]:
        """Poll request for each of these pages."""
        table = self._table
        columns = (table.read_cells(name, rows).tolist() for name in ("standing", "newest", "flags"))
        return [
            self._build_request(row, standing, newest, flags)
            for row, standing, newest, flags in zip(rows.tolist(), *columns, strict=True)
        ]

    def _build_request(self, number: int, standing: int, newest: int, flags: int) -> Request:
        row = held = self._table.read_logged_outcome(standing)
        etag, last_modified, memory = row.etag, row.last_modified, row.memory
        latest = self._table.read_logged_outcome(newest) if newest != standing else row
        if row.kind is OutcomeKind.REFUSED:
            # The page left the search index: a 304 to the old copy's validators would not bring it back.
            held = latest if latest.kind in _COPIES else row
            memory = held.memory
        # a 304 may bring newer validators, and a page silent about noise keeps its memory
        elif latest is not row:
            etag, last_modified = latest.etag or etag, latest.last_modified or last_modified
            memory = latest.memory if latest.news is not ContentChange.NONE else memory
        if not (etag or last_modified) and row.kind is OutcomeKind.PAGE and not flags & PageFlag.NO_VALIDATORS:
            etag, last_modified = self._archived_validators(number, row)
        return Request(
            row.url,
            row.depth,
            row.via,
            RequestKind(row.found_as),
            row.seen_at,
            etag=etag,
            last_modified=last_modified,
            door=FrontierEntry.POLLED,
            was=row.kind,
            digest=held.digest,
            simhash=held.simhash,
            warc=held.warc,
            offset=held.offset,
            memory=memory,
            why=row.reason,
        )

    def _archived_validators(self, number: int, row: OutcomeRow) -> tuple[str, str]:
        """Validators from the archive, for a row without any; if there are none, set `NO_VALIDATORS`."""
        etag = last_modified = ""
        if row.warc and self._read_answer is not None:
            with suppress(OSError, ValueError, KeyError, DamagedFile):  # poll without validators
                answer = self._read_answer(row.warc, row.offset)
                etag, last_modified = answer.header("etag"), answer.header("last-modified")
        if not (etag or last_modified):
            self._table.set_flag(np.array([number]), PageFlag.NO_VALIDATORS)
        return etag, last_modified
