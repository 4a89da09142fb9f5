"""Opening the ledger's tables as a checkpoint knows them, whichever policy they were kept for."""

from __future__ import annotations

import logging
from typing import NamedTuple

import msgspec
import numpy as np

from fieldmouse.crawldir import Checkpoint, CrawlDir, read_checkpoint, sealed_outcomes
from fieldmouse.errors import Damaged, Missing
from fieldmouse.policy.polling import PollingPolicy
from fieldmouse.refresh.bucket import Purse
from fieldmouse.refresh.columns import Columns
from fieldmouse.refresh.fold import HOST_FIELDS, page_fields
from fieldmouse.refresh.looks import Flag
from fieldmouse.refresh.tablefiles import TablesState, read_tables, unused_serial

log = logging.getLogger(__name__)

LEDGER = "ledger"


class LedgerState(msgspec.Struct, frozen=True, array_like=True):
    """The tables, how much of the outcome log is in them, and by whose policy its columns are."""

    tables: TablesState
    cursor: int = 0
    policy: str = ""
    budget: float | None = None  # polls a second that it was last planned with
    purse: Purse = Purse()


class OpenedTables(NamedTuple):
    """Tables as they were, and where to go on."""

    state: LedgerState
    pages: Columns
    hosts: Columns


def open_tables(
    home: CrawlDir, last: Checkpoint | None, policy: PollingPolicy, named: str, *, onlooker: bool = False
) -> OpenedTables:
    """What the checkpoint knows of a ledger; nothing yet, if there is none or it cannot be read.

    An onlooker may find that the crawl has gone on and taken a file away: `Missing`.
    """
    if last is not None and LEDGER in last.parts:
        try:
            state = last.state(LEDGER, LedgerState)
            if state.cursor > sealed_outcomes(last):
                raise Damaged(home / "outcomes.log", "the ledger knows more of it than is there")
            if state.tables.layout.get("hosts") != HOST_FIELDS:
                raise Damaged(home / LEDGER, "its columns are those of another fieldmouse")
            tables = read_tables(home / LEDGER, state.tables)
            if not last.clean:
                under_way = int(np.count_nonzero(tables["pages"].whole("flags") & Flag.ASKED))
                state = msgspec.structs.replace(state, purse=state.purse.after_kill(under_way, last.at))
            return _fitted(state, tables, policy, named)
        except Damaged as trouble:
            if onlooker and isinstance(trouble, Missing) and is_past(home, last):
                raise
            log.warning("%s; all that the ledger knew is read again from `outcomes.log`", trouble)
    layout = {"pages": page_fields(policy), "hosts": HOST_FIELDS}
    pages, hosts = (Columns(fields) for fields in layout.values())
    return OpenedTables(
        LedgerState(TablesState(layout, unused_serial(home / LEDGER)), 0, named), pages, hosts
    )


def is_past(home: CrawlDir, last: Checkpoint) -> bool:
    """Whether there is a newer checkpoint."""
    newest = read_checkpoint(home)
    return newest is not None and newest.at != last.at


def _fitted(
    state: LedgerState, tables: dict[str, Columns], policy: PollingPolicy, named: str
) -> OpenedTables:
    """The tables with the columns of this policy; those of another say nothing to it."""
    pages, fields = tables["pages"], page_fields(policy)
    if state.policy != named or list(pages.fields) != fields:
        held = {field.name: np.array(pages.whole(field.name)) for field in pages.fields}
        pages = Columns(fields, held | {"state": policy.begin(len(pages))})
        # No log can tell that all rows are others: the next seal writes all of them.
        state = msgspec.structs.replace(state, tables=msgspec.structs.replace(state.tables, layout={}))
    return OpenedTables(state, pages, tables["hosts"])
