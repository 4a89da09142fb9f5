"""A crawl directory with an outcome log and a ledger, and nothing else: the test writes what happened."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from fieldmouse.policy.polling.interface import PollingPolicy
from fieldmouse.refresh.page_table import PageTable
from fieldmouse.storage.checkpoint import Checkpoint, CheckpointParts, DurableLog, open_journal
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import Url

encode = msgspec.msgpack.Encoder().encode


class Remembering:
    """A policy whose columns depend on every look and on their order; all pages get the same."""

    width = 2

    def initial_state(self, pages: int) -> npt.NDArray[np.float32]:
        return np.ones((pages, 2), np.float32)

    def observe(
        self,
        state: npt.NDArray[np.float32],
        belief: npt.NDArray[np.float32],
        gap: npt.ArrayLike,
        changed: npt.ArrayLike,
    ) -> npt.NDArray[np.float32]:
        after = state * np.float32(0.5)
        after[:, 0] += np.asarray(gap, np.float32)
        after[:, 1] += belief[:, 0] + np.asarray(changed, np.float32)
        return after

    def plan(
        self,
        state: npt.NDArray[np.float32],
        belief: npt.NDArray[np.float32],
        budget: float,
        *,
        weight: npt.ArrayLike | None = None,
        host: npt.NDArray[np.integer] | None = None,
        host_limit: npt.ArrayLike | None = None,
    ) -> npt.NDArray[np.float64]:
        return np.full(len(belief), budget / len(belief))


class Chronicle:
    """One life after another of a crawl that only writes outcomes and keeps a ledger."""

    def __init__(self, path: Path, policy: PollingPolicy | None = None, named: str = "remembering"):
        self.path, self.policy, self.named = path, policy or Remembering(), named
        self.home = CrawlDir.create(path, shards=1, settings=b"", key_seed=7)
        self.clock = 1000.0
        self.open()

    def open(self) -> None:
        """As after a kill: whatever was not committed is forgotten."""
        self.journal, self.last = open_journal(self.home)
        self.outcomes = DurableLog("outcomes", self.home / "outcomes.log", self.last)
        self.ledger = PageTable(self.home, self.last, policy=self.policy, named=self.named)
        self.parts = CheckpointParts(self.home, self.journal, (self.outcomes, self.ledger), self.last)
        self.parts.open_for_writing()

    def close(self) -> None:
        self.ledger.close()
        self.outcomes.close()
        self.journal.close()

    def reopen(self) -> None:
        self.close()
        self.open()

    def write(self, rows: Iterable[OutcomeRow]) -> None:
        for row in rows:
            self.outcomes.append(encode(row))

    def checkpoint(self, *, clean: bool = False) -> None:
        self.clock += 1.0
        moment = self.parts.seal(self.clock, clean=clean)
        self.parts.commit(moment)
        self.parts.notify_committed()

    def settle(self, rows: Iterable[OutcomeRow], *, durable: bool = True) -> None:
        """These happened, and the ledger knows; unless `durable`, a kill may still take them."""
        self.write(rows)
        if durable:
            self.checkpoint()
        self.ledger.catch_up(self.outcomes.flush())

    @property
    def newest(self) -> Checkpoint:
        journal, last = open_journal(self.home)
        journal.close()
        assert last is not None
        return last


def page(number: int, at: float = 100.0, host: int = 0, **known: object) -> OutcomeRow:
    known = {"digest": f"sha1:{number}", "status": 200, "seen_at": at} | known
    return OutcomeRow(url(number, host), OutcomeKind.PAGE, at, **known)  # type: ignore[arg-type]


def url(number: int, host: int = 0) -> Url:
    return Url(f"http://h{host}.example/{number}")


def state_of(ledger: PageTable) -> dict[str, list[object]]:
    """All columns, the rows in the order of their keys."""
    order = np.argsort(ledger.column("key"))
    names = [field.name for field in ledger.pages.fields]
    return {name: ledger.column(name)[order].tolist() for name in names}
