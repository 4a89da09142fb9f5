"""What is known of every page that may be polled: a durable part, and a fold of the outcome log.

The outcome log is the truth. The ledger has a cursor in it and is as far as that; whatever a kill
takes is read again. So is everything, if its files are damaged: they are put aside, and only
which polls were under way is forgotten. A page costs some 90 bytes, on the disk and, as far as it was changed
since the last snapshot, in memory; its URL, its validators and where its copy lies are read from its
row when it is polled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from fieldmouse.crawldir import (
    Checkpoint,
    CrawlDir,
    Sealed,
    make_directory,
    record_at,
    records,
    sealed_outcomes,
    understood,
)
from fieldmouse.crawldir.log import FRAME
from fieldmouse.policy import change
from fieldmouse.policy.polling import PollingPolicy
from fieldmouse.records import OutcomeRow
from fieldmouse.refresh.bucket import Purse
from fieldmouse.refresh.columns import Column, Field, Rows
from fieldmouse.refresh.dates import believed
from fieldmouse.refresh.fold import Fold, is_odd
from fieldmouse.refresh.looks import BatchBuilder, Flag
from fieldmouse.refresh.opening import LEDGER, LedgerState, OpenedTables, open_tables
from fieldmouse.refresh.tablefiles import TableFiles
from fieldmouse.url import key_of

_BATCH = 8192

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


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
    def host_keys(self) -> NDArray[np.uint64]:
        """The keys of the hosts, by their numbers."""
        keys: NDArray[np.uint64] = self._hosts.whole("key")
        return keys

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
        return self._fold.asked

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
        row = int(self.rows_of(np.array([key_of(url, self.key_seed)], np.uint64))[0])
        return row if row >= 0 else None

    def rows_of(self, keys: NDArray[np.uint64]) -> Rows:
        """The row of each key; -1 where there is none."""
        return self._fold.index.find(keys)

    @property
    def key_seed(self) -> int:
        """The secret of its keys: see `key_of`."""
        return self._home.identity.key_seed

    def trust(self) -> NDArray[np.float64]:
        """How far hints about the pages of each host are believed, from 0 to 1."""
        return change.weight(*self._hosts.whole("trust").T)

    def beliefs(self, rows: Rows) -> NDArray[np.float32]:
        """What is believed of these pages: by their dates, where those of their hosts count."""
        belief = self.take("belief", rows)
        counts = believed(self._hosts)[self.take("host", rows)]
        if counts.any():
            belief[counts] = self.take("dated", rows[counts])
        return belief

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

    def limit_times(self, now: float, round_began: float) -> None:
        """Bring back times that lie in the future because the clock was ahead when they were noted.

        They count as `now`. For a round that goes on, pages tried since it began (`round_began`, as it was
        noted; infinity for a new round) were tried in it, and all others just before now.
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
        """Remember something of these pages."""
        self._pages.put("flags", rows, self.take("flags", rows) | np.uint16(flag))

    def unmark(self, rows: Rows, flag: Flag) -> None:
        """Forget it again."""
        self._pages.put("flags", rows, self.take("flags", rows) & ~np.uint16(flag))

    def note_budget(self, budget: float | None) -> None:
        """What a plan may spend, for whoever reads the ledger."""
        self.budget = budget

    def note_purse(self, purse: Purse) -> None:
        """What is left of the budget."""
        self.purse = purse
