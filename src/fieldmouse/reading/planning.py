"""Plan of the polling policy for a given budget, from the present page tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fieldmouse import settings
from fieldmouse.policy import change
from fieldmouse.policy.polling import lookup
from fieldmouse.reading.shelf import LedgerShelf
from fieldmouse.refresh.columns import Column
from fieldmouse.refresh.fold import is_odd
from fieldmouse.refresh.ledger import Ledger
from fieldmouse.refresh.looks import Flag
from fieldmouse.refresh.reading import sealed_policy
from fieldmouse.refresh.schedule import RETRY
from fieldmouse.settings import Settings

Reals = NDArray[np.float64]
Rows = NDArray[np.intp]

_NEVER = 1e15  # seconds


class Planner:
    """Plan for all pages of one or several page tables, concatenated in the order of the tables.

    `rows` are the page numbers within each table, and `host` numbers the hosts across all of them.
    Settings are those of the first crawl.
    """

    def __init__(self, shelves: Sequence[LedgerShelf]):
        first, ledgers = shelves[0], [shelf.ledger for shelf in shelves]
        self.rows = [_standing(ledger) for ledger in ledgers]
        self._policy = lookup.policy(sealed_policy(first.last))
        pairs = list(zip(ledgers, self.rows, strict=True))
        self.belief = np.concatenate([ledger.beliefs(rows) for ledger, rows in pairs])
        self._state = np.concatenate(
            [
                shelf.ledger.take("state", rows)
                if sealed_policy(shelf.last) == sealed_policy(first.last)
                else self._policy.begin(len(rows))
                for shelf, rows in zip(shelves, self.rows, strict=True)
            ]
        )
        every = np.concatenate([ledger.host_keys for ledger in ledgers])
        keys, first_at, numbers = np.unique(every, return_index=True, return_inverse=True)
        numbers = np.argsort(np.argsort(first_at))[numbers]  # keeps the numbers of a single table
        ends = np.cumsum([ledger.hosts for ledger in ledgers])
        parts = zip(ledgers, self.rows, np.split(numbers, ends[:-1]), strict=True)
        self.host = np.concatenate([hosts[ledger.take("host", rows)] for ledger, rows, hosts in parts])
        self.hosts = len(keys)
        config = settings.load(first.home / "fieldmouse.toml")
        delay = config.politeness.delay
        self._host_limit = 1 / delay if delay else None
        self.retry = RETRY
        self.budget = _budget(shelves, config)  # polls a second; None: only politeness bounds them

    def column(self, name: str, ledgers: Sequence[Ledger]) -> Column:
        """A column of all these pages."""
        parts = zip(ledgers, self.rows, strict=True)
        return np.concatenate([ledger.take(name, rows) for ledger, rows in parts])

    def present(self) -> Reals:
        """Polls a second of each page in the present plan."""
        limit = self._host_limit * self.hosts if self._host_limit else float(len(self.belief))
        return self.rates(self.budget or limit)

    def rates(self, budget: float) -> Reals:
        """Polls a second of each page, for a total of `budget`."""
        return self._policy.plan(
            self._state, self.belief, budget, host=self.host, host_limit=self._host_limit
        )

    def fresh(self, budget: float, law: change.Population) -> float:
        """The long-run share of time in which a copy is current, mean over pages."""
        rates = self.rates(budget)
        interval = np.where(rates > 0, 1 / np.maximum(rates, 1 / _NEVER), _NEVER)
        return float(change.freshness(self.belief, interval, law).mean())


def _standing(ledger: Ledger) -> Rows:
    """Numbers of the pages that the plan covers."""
    flags = ledger.column("flags")
    absent = flags & (Flag.SIGNAL | Flag.ABSENT) != 0
    return np.flatnonzero(~is_odd(flags) & ~absent & (ledger.column("looked") > 0))


def _budget(shelves: Sequence[LedgerShelf], config: Settings) -> float | None:
    """Total budget of all crawls: agents of one crawl share the budget of its settings."""
    seeds = {shelf.home.identity.key_seed for shelf in shelves}
    if len(shelves) > 1 and len(seeds) == 1 and config.refresh.on:
        return 1 / config.refresh.budget if config.refresh.budget else None
    budgets = [shelf.ledger.budget for shelf in shelves if shelf.ledger.budget is not None]
    return sum(budgets) if len(budgets) == len(shelves) else None
