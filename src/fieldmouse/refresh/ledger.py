"""What is known of every page that may be polled: a durable part, and a fold of the outcome log.

The outcome log is the truth. The ledger has a cursor in it and is as far as that; whatever a kill
takes is read again. So is everything, if its files are damaged: they are put aside, and only
which polls were under way is forgotten. A page costs some 80 bytes, on the disk and, as far as it was changed
since the last snapshot, in memory; its URL, its validators and where its copy lies are read from its
row when it is polled.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fieldmouse.crawldir import (
    Checkpoint,
    CrawlDir,
    Sealed,
    make_directory,
    read_checkpoint,
    record_at,
    records,
    sealed_outcomes,
    understood,
)
from fieldmouse.crawldir.log import FRAME
from fieldmouse.errors import Damaged, Missing
from fieldmouse.policy.polling import PollingPolicy
from fieldmouse.records import OutcomeRow
from fieldmouse.refresh.bucket import Purse
from fieldmouse.refresh.columns import Column, Columns, Field, Rows
from fieldmouse.refresh.fold import HOST_FIELDS, Fold, is_odd, page_fields
from fieldmouse.refresh.looks import BatchBuilder, Flag
from fieldmouse.refresh.tablefiles import TableFiles, TablesState, read_tables, unused_serial
from fieldmouse.url import key_of

log = logging.getLogger(__name__)

LEDGER = "ledger"
_BATCH = 8192

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


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


class Ledger:
    """Single-threaded. The checkpoint has the name of the policy: another one begins with its own columns."""

    name = LEDGER

    def __init__(
        self, home: CrawlDir, opened: OpenedTables, policy: PollingPolicy, named: str, *, readable: int
    ):
        """`readable` bytes of the outcome log count. Who wants to write uses `open`."""
        self._home, self._policy, self._named = home, policy, named
        self._pages, self._hosts = opened.pages, opened.hosts
        self._cursor, self.budget, self.purse = opened.state.cursor, opened.state.budget, opened.state.purse
        self._outcomes, self._readable = -1, readable
        self._fold = Fold(self._pages, self._hosts, policy, lambda offset: self.row_at(offset).digest)
        self._files: TableFiles | None = None

    @classmethod
    def open(
        cls, home: CrawlDir, last: Checkpoint | None, *, policy: PollingPolicy, named: str
    ) -> Ledger:  # fmt: skip
        """The ledger of the last checkpoint, or an empty one; changes nothing on the disk."""
        opened = open_tables(home, last, policy, named)
        ledger = cls(home, opened, policy, named, readable=sealed_outcomes(last))
        ledger._files = TableFiles(home / LEDGER, opened.state.tables)
        return ledger

    # -- a part of the checkpoint

    def begin(self) -> None:
        """All has opened: cut and delete what came after the checkpoint."""
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

    # -- the fold

    def catch_up(self, length: int) -> int:
        """Take in what the outcome log holds up to `length`, which must be durable; returns how many rows."""
        self._readable = max(self._readable, length)
        if self._cursor >= length:
            return 0
        builder, count = BatchBuilder(self._home.identity.key_seed), 0
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
        """Bytes of the outcome log that are in it."""
        return self._cursor

    def row_at(self, offset: int) -> OutcomeRow:
        """The row of the outcome log that stands there."""
        if self._outcomes < 0:
            self._outcomes = os.open(self._path, os.O_RDONLY)
        return understood(self._path, _decode, record_at(self._outcomes, self._path, offset, self._readable))

    @property
    def _path(self) -> Path:
        return self._home / "outcomes.log"

    # -- what it knows

    def __len__(self) -> int:
        """URLs that may be polled, pages or not."""
        return len(self._pages)

    @property
    def hosts(self) -> int:
        return len(self._hosts)

    @property
    def pages(self) -> int:
        """Those of which we hold a copy that stands, sitemaps and feeds left out."""
        flags = self.column("flags")
        return int(np.count_nonzero(~is_odd(flags) & (flags & Flag.SIGNAL == 0)))

    @property
    def polled_once(self) -> int:
        """URLs that were polled at least once."""
        return int(np.count_nonzero(self.column("polls")))

    @property
    def asked(self) -> int:
        """Polls that are under way."""
        return int(self._fold.asked_by_host.sum())

    @property
    def asked_by_host(self) -> NDArray[np.int64]:
        """The same by the number of the host; to read only."""
        return self._fold.asked_by_host

    @property
    def bytes(self) -> int:
        """Memory of the columns and of the index of keys; some of it is mapped and can be dropped."""
        return self._pages.bytes + self._hosts.bytes + self._fold.index.bytes

    @property
    def fields(self) -> Sequence[Field]:
        """The columns there are."""
        return self._pages.fields

    def column(self, name: str) -> Column:
        """A column of all pages, to read only; see `page_fields`."""
        return self._pages.whole(name)

    def take(self, name: str, rows: Rows) -> Column:
        """Some rows of a column."""
        return self._pages.take(name, rows)

    def find(self, url: str) -> int | None:
        """The row of a URL, or None if it is not known."""
        key = np.array([key_of(url, self._home.identity.key_seed)], np.uint64)
        row = int(self._fold.index.find(key)[0])
        return row if row >= 0 else None

    def urls(self, rows: Rows | None = None) -> Iterator[tuple[int, OutcomeRow]]:
        """The number and the standing row of these pages, or of all."""
        numbers = range(len(self)) if rows is None else rows.tolist()
        for number in numbers:
            yield number, self.row_at(int(self.take("standing", np.array([number]))[0]))

    # -- what is done with it

    def ask(self, rows: Rows) -> None:
        """Polls of these pages go out: none of them is due again before its row has come."""
        self._fold.ask(rows)

    def forget_asked(self, keep: Callable[[OutcomeRow], bool] = lambda row: False) -> int:
        """No poll is under way any more, but for those to `keep`: for who lost them. Returns how many."""
        asked = np.flatnonzero(self.column("flags") & Flag.ASKED)
        lost = np.array([number for number, row in self.urls(asked) if not keep(row)], np.int64)
        self._fold.unask(lost)
        return len(lost)

    def mark(self, rows: Rows, flag: Flag) -> None:
        """Remember something of these pages."""
        self._pages.put("flags", rows, self.take("flags", rows) | np.uint16(flag))

    def note_budget(self, budget: float | None) -> None:
        """What a plan may spend, for whoever reads the ledger."""
        self.budget = budget

    def note_purse(self, purse: Purse) -> None:
        """What is left of the budget."""
        self.purse = purse


def open_tables(
    home: CrawlDir, last: Checkpoint | None, policy: PollingPolicy, named: str, *, onlooker: bool = False
) -> OpenedTables:
    """What the checkpoint knows of a ledger; nothing yet, if there is none or it cannot be read.

    An onlooker may find that the crawl has gone on and taken a file away: `Missing`.
    """
    if last is not None and LEDGER in last.parts:
        try:
            state = last.state(LEDGER, LedgerState)
            if not last.clean:
                state = msgspec.structs.replace(state, purse=state.purse.after_kill())
            if state.cursor > sealed_outcomes(last):
                raise Damaged(home / "outcomes.log", "the ledger knows more of it than is there")
            return _fitted(state, read_tables(home / LEDGER, state.tables), policy, named)
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
