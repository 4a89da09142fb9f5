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
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from fieldmouse.errors import DamagedFile, MissingFile
from fieldmouse.policy import change_rate
from fieldmouse.policy.polling import registry
from fieldmouse.policy.polling.interface import PollingPolicy
from fieldmouse.refresh.apply_outcomes import HOST_FIELDS, BatchBuilder, InMemoryPageTable, PageFlag, page_fields
from fieldmouse.refresh.column_table import Column, ColumnSpec, ColumnTable, Rows
from fieldmouse.refresh.last_modified import reliable_hosts
from fieldmouse.refresh.table_files import TableFiles, TablesState, read_tables, unused_serial
from fieldmouse.refresh.token_bucket import BucketState
from fieldmouse.storage.checkpoint import Checkpoint, SealedPart, read_checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import FRAME, decode_record, make_directory, read_record_at, read_records
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.url import Host, key_of

log = logging.getLogger(__name__)

PAGE_TABLE = "ledger"

#: Columns that are initialized if a table lacks them or has those of another policy.
_BEGUN = {"state", "dated", "dates"}


class PageTableState(msgspec.Struct, frozen=True, array_like=True):
    """Checkpoint state: the tables, the applied length of the outcome log, and the name of the policy."""

    tables: TablesState
    cursor: int = 0
    policy: str = ""
    budget: float | None = None  # polls per second of the last plan
    purse: BucketState = BucketState()


def open_tables(
    home: CrawlDir, last: Checkpoint | None, policy: PollingPolicy, named: str, *, read_only: bool = False
) -> tuple[PageTableState, ColumnTable, ColumnTable]:
    """Open the tables of pages and hosts of a checkpoint; empty ones if there are none or they cannot be read.

    With `read_only`, raise `MissingFile` if a running crawl has since deleted a file.
    """
    if last is not None and PAGE_TABLE in last.parts:
        try:
            state = last.decode_part(PAGE_TABLE, PageTableState)
            if state.cursor > sealed_outcome_bytes(last):
                raise DamagedFile(home / "outcomes.log", "the ledger knows more of it than is there")
            _check_layout(home / PAGE_TABLE, state.tables.layout, page_fields(policy))
            tables = read_tables(home / PAGE_TABLE, state.tables)
            if not last.clean:
                under_way = int(np.count_nonzero(tables["pages"].column("flags") & PageFlag.IN_FLIGHT))
                state = msgspec.structs.replace(state, purse=state.purse.after_kill(under_way, last.at))
            return _convert_to_policy(state, tables, policy, named)
        except DamagedFile as trouble:
            if read_only and isinstance(trouble, MissingFile) and has_newer_checkpoint(home, last):
                raise
            log.warning("%s; all that the ledger knew is read again from `outcomes.log`", trouble)
    layout = {"pages": page_fields(policy), "hosts": HOST_FIELDS}
    pages, hosts = (ColumnTable(fields) for fields in layout.values())
    return PageTableState(TablesState(layout, unused_serial(home / PAGE_TABLE)), 0, named), pages, hosts


def has_newer_checkpoint(home: CrawlDir, last: Checkpoint) -> bool:
    newest = read_checkpoint(home)
    return newest is not None and newest.at != last.at


def _convert_to_policy(
    state: PageTableState, tables: dict[str, ColumnTable], policy: PollingPolicy, named: str
) -> tuple[PageTableState, ColumnTable, ColumnTable]:
    """Convert the tables to the columns of this policy; those of another policy are dropped."""
    pages, hosts, fields = tables["pages"], tables["hosts"], page_fields(policy)
    if state.policy != named or list(pages.fields) != fields or list(hosts.fields) != HOST_FIELDS:
        held = _copy_columns(pages)
        if state.policy != named or fields[-1] not in pages.fields:
            held["state"] = policy.initial_state(len(pages))
        # Tables without dates were filled from polls alone, and no host has proved itself.
        pages = ColumnTable(fields, {"dated": held["belief"].copy()} | held)
        hosts = ColumnTable(HOST_FIELDS, {"dates": np.zeros((len(hosts), 2), np.float32)} | _copy_columns(hosts))
        # The log cannot express that all rows are different: the next seal writes all of them.
        state = msgspec.structs.replace(state, tables=msgspec.structs.replace(state.tables, layout={}))
    return state, pages, hosts


def _copy_columns(table: ColumnTable) -> dict[str, Column]:
    return {field.name: np.array(table.column(field.name)) for field in table.fields}


def _check_layout(where: Path, layout: Mapping[str, list[ColumnSpec]], pages: list[ColumnSpec]) -> None:
    """Raise `DamagedFile` unless the columns match today's, apart from columns that can be initialized."""
    for name, fields in (("pages", pages), ("hosts", HOST_FIELDS)):
        known, wanted = ([f for f in those if f.name not in _BEGUN] for those in (layout.get(name, []), fields))
        if known != wanted:
            raise DamagedFile(where, "its columns are those of another fieldmouse")


_BATCH = 8192

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


class PageTable(InMemoryPageTable):
    """Table of pages and hosts. Not thread-safe.

    The checkpoint stores the policy's name: a different policy starts with its own columns.
    """

    name = PAGE_TABLE

    def __init__(
        self, home: CrawlDir, last: Checkpoint | None, *, policy: PollingPolicy, named: str, read_only: bool = False
    ):
        """Open the table of the last checkpoint, or an empty one; changes nothing on disk.

        With `read_only` nothing is written: the crawl may be running.
        """
        state, pages, hosts = open_tables(home, last, policy, named, read_only=read_only)
        super().__init__(pages, hosts, policy)
        self._home, self._named, self._path = home, named, home / "outcomes.log"
        self.key_seed = home.identity.key_seed  # secret seed of the keys: see `key_of`
        self.cursor = state.cursor  # bytes of the outcome log that have been applied
        self.budget, self.bucket_state = state.budget, state.purse
        self._outcomes, self._readable = -1, sealed_outcome_bytes(last)
        self._files = None if read_only else TableFiles(home / PAGE_TABLE, state.tables)

    # -- checkpoint part

    def roll_back_to_checkpoint(self) -> None:
        """Truncate and delete everything written after the checkpoint; call it when all parts have opened."""
        assert self._files is not None
        make_directory(self._home / PAGE_TABLE)
        self._files.roll_back_to_checkpoint()

    def seal(self) -> SealedPart[PageTableState]:
        assert self._files is not None
        tables, paths = self._files.seal({"pages": self.pages, "hosts": self.hosts})
        return SealedPart(PageTableState(tables, self.cursor, self._named, self.budget, self.bucket_state), paths)

    def on_checkpoint_committed(self) -> None:
        assert self._files is not None
        self._files.on_checkpoint_committed()

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
        if self.cursor >= length:
            return 0
        builder, count = BatchBuilder(self.key_seed), 0
        for offset, record in read_records(self._path, start=self.cursor, length=length):
            builder.add(offset, record)
            count += 1
            if len(builder) >= _BATCH:
                self.apply_batch(builder.take_batch())
                self.cursor = offset + FRAME.size + len(record)
        if len(builder):
            self.apply_batch(builder.take_batch())
        self.cursor = length
        return count

    def read_logged_outcome(self, offset: int) -> OutcomeRow:
        """Row of the outcome log at `offset`."""
        if self._outcomes < 0:
            self._outcomes = os.open(self._path, os.O_RDONLY)
        return decode_record(self._path, _decode, read_record_at(self._outcomes, self._path, offset, self._readable))

    # -- queries

    def __len__(self) -> int:
        """URLs that may be polled, pages or not."""
        return len(self.pages)

    def column(self, name: str) -> Column:
        """Column of all pages, read-only; `page_fields` lists the names."""
        return self.pages.column(name)

    def read_cells(self, name: str, rows: Rows) -> Column:
        """Copy of some rows of a column."""
        return self.pages.read_cells(name, rows)

    def find_row(self, url: str) -> int | None:
        """Row of a URL, or None if it is unknown."""
        row = int(self.index.find_rows(np.array([key_of(url, self.key_seed)], np.uint64))[0])
        return row if row >= 0 else None

    def group_hosts(self, addresses: Iterable[tuple[Host, str]]) -> NDArray[np.int64]:
        """A number for each host; hosts at one of these addresses share theirs, as they share visits."""
        groups = np.arange(len(self.hosts))
        known = [(key_of(host, self.key_seed), address) for host, address in addresses if address]
        rows = self._host_index.find_rows(np.array([key for key, _ in known], np.uint64))
        first: dict[str, int] = {}
        for row, (_, address) in zip(rows.tolist(), known, strict=True):
            if row >= 0:
                groups[row] = first.setdefault(address, row)
        return groups

    def hint_trust_by_host(self) -> NDArray[np.float64]:
        """Weight of hints about the pages of each host, from 0 to 1."""
        return change_rate.probabilities_right(*self.hosts.column("trust").T)

    def change_rate_beliefs(self, rows: Rows) -> NDArray[np.float32]:
        """Belief about the change rate of these pages, with dates where the host's dates count."""
        belief = self.read_cells("belief", rows)
        counts = reliable_hosts(self.hosts)[self.read_cells("host", rows)]
        if counts.any():
            belief[counts] = self.read_cells("dated", rows[counts])
        return belief

    def current_outcomes(self, rows: Rows | None = None) -> Iterator[tuple[int, OutcomeRow]]:
        """Yield number and standing row of these pages; None means all pages."""
        numbers = range(len(self)) if rows is None else rows.tolist()
        for number in numbers:
            yield number, self.read_logged_outcome(int(self.read_cells("standing", np.array([number]))[0]))

    # -- updates

    def clear_in_flight(self, keep: Callable[[OutcomeRow], bool] = lambda row: False) -> int:
        """Mark lost polls as no longer in flight, except those to `keep`; return their number."""
        asked = np.flatnonzero(self.column("flags") & PageFlag.IN_FLIGHT)
        lost = np.array([number for number, row in self.current_outcomes(asked) if not keep(row)], np.int64)
        self.clear_flag(lost, PageFlag.IN_FLIGHT)
        self._decrement_in_flight_counts(lost)
        return len(lost)

    def cap_future_times(self, now: float, round_began: float) -> None:
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
                self.pages.write_cells(name, rows, limited)

    def set_flag(self, rows: Rows, flag: PageFlag) -> None:
        """Set a flag of these pages."""
        self.pages.write_cells("flags", rows, self.read_cells("flags", rows) | np.uint16(flag))

    def clear_flag(self, rows: Rows, flag: PageFlag) -> None:
        """Clear a flag of these pages."""
        self.pages.write_cells("flags", rows, self.read_cells("flags", rows) & ~np.uint16(flag))

    def store_budget_and_bucket(self, budget: float | None, purse: BucketState) -> None:
        """Record the budget of the plan and the state of the token bucket, for readers of the table."""
        self.budget, self.bucket_state = budget, purse


DEFAULT_POLICY = "uniform"


def read_page_table(home: CrawlDir, last: Checkpoint | None, *, policy: PollingPolicy | None = None) -> PageTable:
    """Page table as of a checkpoint, with all rows that count; built in memory if none was kept.

    All queries work; changes stay in memory; `close` closes the outcome log. Raises `MissingFile` if a
    running crawl has since deleted a file.
    """
    named = checkpointed_policy(last)
    policy = policy or reader_policy(last)
    ledger = PageTable(home, last, policy=policy, named=named, read_only=True)
    ledger.catch_up(sealed_outcome_bytes(last))
    return ledger


def checkpointed_policy(last: Checkpoint | None) -> str:
    """Name of the policy whose columns the table has."""
    if last is None or PAGE_TABLE not in last.parts:
        return DEFAULT_POLICY
    return last.decode_part(PAGE_TABLE, PageTableState).policy


def reader_policy(last: Checkpoint | None) -> PollingPolicy:
    """The policy of the table, for readers: code of the user is not imported."""
    named = checkpointed_policy(last)
    if last is None or registry.is_builtin(named):
        return registry.create_policy(named)
    columns = last.decode_part(PAGE_TABLE, PageTableState).tables.layout["pages"]
    return registry.PluginPolicyStub(next(column.width or 0 for column in columns if column.name == "state"))


def check_page_table(home: CrawlDir, last: Checkpoint) -> int:
    """Number of URLs in the checkpoint's page table; `DamagedFile` if its files are damaged."""
    return len(read_tables(home / PAGE_TABLE, last.decode_part(PAGE_TABLE, PageTableState).tables)["pages"])
