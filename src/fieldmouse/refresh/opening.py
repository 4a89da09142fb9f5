"""Opening of the page table at a checkpoint, including tables kept for another policy."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from fieldmouse.crawldir import Checkpoint, CrawlDir, read_checkpoint, sealed_outcomes
from fieldmouse.errors import Damaged, Missing
from fieldmouse.policy.polling import PollingPolicy
from fieldmouse.refresh.bucket import Purse
from fieldmouse.refresh.columns import Column, Columns, Field
from fieldmouse.refresh.fold import HOST_FIELDS, page_fields
from fieldmouse.refresh.looks import Flag
from fieldmouse.refresh.tablefiles import TablesState, read_tables, unused_serial

log = logging.getLogger(__name__)

LEDGER = "ledger"

_BEGUN = {"state", "dated", "dates"}
"""Columns that are initialized if a table lacks them or has those of another policy."""


class LedgerState(msgspec.Struct, frozen=True, array_like=True):
    """Checkpoint state: the tables, the applied length of the outcome log, and the name of the policy."""

    tables: TablesState
    cursor: int = 0
    policy: str = ""
    budget: float | None = None  # polls per second of the last plan
    purse: Purse = Purse()


class OpenedTables(NamedTuple):
    """Opened tables and the state to continue from."""

    state: LedgerState
    pages: Columns
    hosts: Columns


def open_tables(
    home: CrawlDir, last: Checkpoint | None, policy: PollingPolicy, named: str, *, onlooker: bool = False
) -> OpenedTables:
    """Open the tables of a checkpoint; empty tables if there are none or they cannot be read.

    With `onlooker`, raise `Missing` if a running crawl has since deleted a file.
    """
    if last is not None and LEDGER in last.parts:
        try:
            state = last.state(LEDGER, LedgerState)
            if state.cursor > sealed_outcomes(last):
                raise Damaged(home / "outcomes.log", "the ledger knows more of it than is there")
            _check_known(home / LEDGER, state.tables.layout, page_fields(policy))
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
    """Convert the tables to the columns of this policy; those of another policy are dropped."""
    pages, hosts, fields = tables["pages"], tables["hosts"], page_fields(policy)
    if state.policy != named or list(pages.fields) != fields or list(hosts.fields) != HOST_FIELDS:
        held = _held(pages)
        if state.policy != named or fields[-1] not in pages.fields:
            held["state"] = policy.begin(len(pages))
        # Tables without dates were filled from polls alone, and no host has proved itself.
        pages = Columns(fields, {"dated": held["belief"].copy()} | held)
        hosts = Columns(HOST_FIELDS, {"dates": np.zeros((len(hosts), 2), np.float32)} | _held(hosts))
        # The log cannot express that all rows are different: the next seal writes all of them.
        state = msgspec.structs.replace(state, tables=msgspec.structs.replace(state.tables, layout={}))
    return OpenedTables(state, pages, hosts)


def _held(table: Columns) -> dict[str, Column]:
    return {field.name: np.array(table.whole(field.name)) for field in table.fields}


def _check_known(where: Path, layout: Mapping[str, list[Field]], pages: list[Field]) -> None:
    """Raise `Damaged` unless the columns match today's, apart from columns that can be initialized."""
    for name, fields in (("pages", pages), ("hosts", HOST_FIELDS)):
        known, wanted = (
            [f for f in those if f.name not in _BEGUN] for those in (layout.get(name, []), fields)
        )
        if known != wanted:
            raise Damaged(where, "its columns are those of another fieldmouse")
