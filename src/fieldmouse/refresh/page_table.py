"""Table of all pages that may be polled: a checkpoint part derived from the outcome log.

The outcome log is the source of truth. The page table holds a cursor into it; rows lost to a kill are
read again. If the table's files are damaged, they are set aside and everything is read again; only the
record of polls in flight is lost. A page takes about 90 bytes on disk, and the same in memory if it has
changed since the last snapshot. URL, validators and the location of the copy are read from the page's row
when the page is polled. Tables kept for another policy are converted when they are opened. Readers open
the table without a lock and write nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fieldmouse.errors import Damaged, Missing
from fieldmouse.policy import change
from fieldmouse.policy.polling import registry
from fieldmouse.policy.polling.interface import PollingPolicy
from fieldmouse.refresh.apply_outcomes import HOST_FIELDS, BatchBuilder, Flag, Fold, is_odd, page_fields
from fieldmouse.refresh.columns import Column, Columns, Field, Rows
from fieldmouse.refresh.server_dates import believed
from fieldmouse.refresh.table_files import TableFiles, TablesState, read_tables, unused_serial
from fieldmouse.refresh.token_bucket import Purse
from fieldmouse.storage.checkpoint import Checkpoint, Sealed, read_checkpoint, sealed_outcomes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.fsync import make_directory
from fieldmouse.storage.log import FRAME, record_at, records, understood
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.url import key_of

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


_BATCH = 8192

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


class Ledger:
    """Table of pages and hosts. Not thread-safe.

    The checkpoint stores the policy's name: a different policy starts with its own columns.
    """

    name = LEDGER

    def __init__(
        self, home: CrawlDir, opened: OpenedTables, policy: PollingPolicy, named: str, *, readable: int
    ):
        """Wrap opened tables for reading up to `readable` bytes of the outcome log; to write, use `open`."""
        self._home, self._policy, self._named = home, policy, named
        self._pages, self._hosts = opened.pages, opened.hosts
        self._cursor, self.budget, self.purse = opened.state.cursor, opened.state.budget, opened.state.purse
        self._outcomes, self._readable = -1, readable
        self._fold = Fold(self._pages, self._hosts, policy, lambda offset: self.row_at(offset).digest)
        self._files: TableFiles | None = None

    @classmethod
    def open(cls, home: CrawlDir, last: Checkpoint | None, *, policy: PollingPolicy, named: str) -> Ledger:
        """Open the table of the last checkpoint, or an empty one; changes nothing on disk."""
        opened = open_tables(home, last, policy, named)
        ledger = cls(home, opened, policy, named, readable=sealed_outcomes(last))
        ledger._files = TableFiles(home / LEDGER, opened.state.tables)
        return ledger

    # -- checkpoint part

    def begin(self) -> None:
        """Truncate and delete everything written after the checkpoint; call it when all parts have opened."""
        assert self._files is not None
        make_directory(self._home / LEDGER)
        self._files.begin()

    def seal(self) -> Sealed[LedgerState]:
        assert self._files is not None
        tables, paths = self._files.seal({"pages": self._pages, "hosts": self._hosts})
        return Sealed(LedgerState(tables, self._cursor, self._named, self.budget, self.purse), paths)

    def committed(self) -> None:
        assert self._files is not None
        self._files.committed()

    def close(self) -> None:
        if self._files is not None:
            self._files.close()
        if self._outcomes >= 0:
            os.close(self._outcomes)
            self._outcomes = -1

    # -- applying outcomes

    def catch_up(self, length: int) -> int:
        """Apply the outcome log up to `length`, which must be durable; return the number of rows."""
        self._readable = max(self._readable, length)
        if self._cursor >= length:
            return 0
        builder, count = BatchBuilder(self.key_seed), 0
        for offset, record in records(self._path, start=self._cursor, length=length):
            builder.add(offset, record)
            count += 1
            if len(builder) >= _BATCH:
                self._fold.take(builder.take())
                self._cursor = offset + FRAME.size + len(record)
        if len(builder):
            self._fold.take(builder.take())
        self._cursor = length
        return count

    @property
    def cursor(self) -> int:
        """Bytes of the outcome log that have been applied."""
        return self._cursor

    def row_at(self, offset: int) -> OutcomeRow:
        """Row of the outcome log at `offset`."""
        if self._outcomes < 0:
            self._outcomes = os.open(self._path, os.O_RDONLY)
        return understood(self._path, _decode, record_at(self._outcomes, self._path, offset, self._readable))

    @property
    def _path(self) -> Path:
        return self._home / "outcomes.log"

    # -- queries

    def __len__(self) -> int:
        """URLs that may be polled, pages or not."""
        return len(self._pages)

    @property
    def hosts(self) -> int:
        return len(self._hosts)

    @property
    def host_keys(self) -> NDArray[np.uint64]:
        """Key of each host, by host number."""
        keys: NDArray[np.uint64] = self._hosts.whole("key")
        return keys

    @property
    def pages(self) -> int:
        """Number of pages with a valid copy, without sitemaps and feeds."""
        flags = self.column("flags")
        return int(np.count_nonzero(~is_odd(flags) & (flags & Flag.SIGNAL == 0)))

    @property
    def polled_once(self) -> int:
        """URLs that were polled at least once."""
        return int(np.count_nonzero(self.column("polls")))

    @property
    def asked(self) -> int:
        """Number of polls in flight."""
        return self._fold.asked

    @property
    def asked_by_host(self) -> NDArray[np.int64]:
        """Polls in flight by host number; read-only."""
        return self._fold.asked_by_host

    @property
    def bytes(self) -> int:
        """Memory of the columns and the key index; part of it is mapped and can be dropped."""
        return self._pages.bytes + self._hosts.bytes + self._fold.index.bytes

    @property
    def fields(self) -> Sequence[Field]:
        return self._pages.fields

    def column(self, name: str) -> Column:
        """Column of all pages, read-only; `page_fields` lists the names."""
        return self._pages.whole(name)

    def take(self, name: str, rows: Rows) -> Column:
        """Copy of some rows of a column."""
        return self._pages.take(name, rows)

    def find(self, url: str) -> int | None:
        """Row of a URL, or None if it is unknown."""
        row = int(self.rows_of(np.array([key_of(url, self.key_seed)], np.uint64))[0])
        return row if row >= 0 else None

    def rows_of(self, keys: NDArray[np.uint64]) -> Rows:
        """Row of each key; -1 if it is unknown."""
        return self._fold.index.find(keys)

    @property
    def key_seed(self) -> int:
        """Secret seed of the keys: see `key_of`."""
        return self._home.identity.key_seed

    def trust(self) -> NDArray[np.float64]:
        """Weight of hints about the pages of each host, from 0 to 1."""
        return change.weight(*self._hosts.whole("trust").T)

    def beliefs(self, rows: Rows) -> NDArray[np.float32]:
        """Belief about the change rate of these pages, with dates where the host's dates count."""
        belief = self.take("belief", rows)
        counts = believed(self._hosts)[self.take("host", rows)]
        if counts.any():
            belief[counts] = self.take("dated", rows[counts])
        return belief

    def urls(self, rows: Rows | None = None) -> Iterator[tuple[int, OutcomeRow]]:
        """Yield number and standing row of these pages; None means all pages."""
        numbers = range(len(self)) if rows is None else rows.tolist()
        for number in numbers:
            yield number, self.row_at(int(self.take("standing", np.array([number]))[0]))

    # -- updates

    def ask(self, rows: Rows) -> None:
        """Mark polls of these pages as in flight; the pages are not due until their rows arrive."""
        self._fold.ask(rows)

    def forget_asked(self, keep: Callable[[OutcomeRow], bool] = lambda row: False) -> int:
        """Mark lost polls as no longer in flight, except those to `keep`; return their number."""
        asked = np.flatnonzero(self.column("flags") & Flag.ASKED)
        lost = np.array([number for number, row in self.urls(asked) if not keep(row)], np.int64)
        self._fold.unask(lost)
        return len(lost)

    def limit_times(self, now: float, round_began: float) -> None:
        """Limit times in the future, noted while the clock was ahead, to `now`.

        In a resumed round, pages tried since `round_began` (the noted start; infinity for a new round)
        count as tried in the round, and all others as tried just before now.
        """
        for name in ("looked", "changed", "tried"):
            times = self.column(name)
            rows = np.flatnonzero(times > now)
            if len(rows):
                limited = np.full(len(rows), now)
                if name == "tried":
                    limited[times[rows] < round_began] = np.nextafter(now, 0.0)
                self._pages.put(name, rows, limited)

    def mark(self, rows: Rows, flag: Flag) -> None:
        """Set a flag of these pages."""
        self._pages.put("flags", rows, self.take("flags", rows) | np.uint16(flag))

    def unmark(self, rows: Rows, flag: Flag) -> None:
        """Clear a flag of these pages."""
        self._pages.put("flags", rows, self.take("flags", rows) & ~np.uint16(flag))

    def note_budget(self, budget: float | None) -> None:
        """Record the budget of the plan, for readers of the table."""
        self.budget = budget

    def note_purse(self, purse: Purse) -> None:
        """Record the state of the token bucket."""
        self.purse = purse


DEFAULT = "uniform"


def read_ledger(home: CrawlDir, last: Checkpoint | None, *, policy: PollingPolicy | None = None) -> Ledger:
    """Page table as of a checkpoint, with all rows that count; built in memory if none was kept.

    All queries work; changes stay in memory; `close` closes the outcome log. Raises `Missing` if a running
    crawl has since deleted a file.
    """
    named = sealed_policy(last)
    policy = policy or registry.policy(named)
    opened = open_tables(home, last, policy, named, onlooker=True)
    ledger = Ledger(home, opened, policy, named, readable=sealed_outcomes(last))
    ledger.catch_up(sealed_outcomes(last))
    return ledger


def sealed_policy(last: Checkpoint | None) -> str:
    """Name of the policy whose columns the table has."""
    return last.state(LEDGER, LedgerState).policy if last is not None and LEDGER in last.parts else DEFAULT


def check_ledger(home: CrawlDir, last: Checkpoint) -> int:
    """Number of URLs in the checkpoint's page table; `Damaged` if its files are damaged."""
    return len(read_tables(home / LEDGER, last.state(LEDGER, LedgerState).tables)["pages"])
