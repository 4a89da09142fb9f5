"""What the policy that polls a crawl would do with this budget or another, by what the ledger knows now."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fieldmouse import settings
from fieldmouse.crawldir import Checkpoint, CrawlDir
from fieldmouse.policy import change
from fieldmouse.policy.polling import lookup
from fieldmouse.refresh.fold import is_odd
from fieldmouse.refresh.ledger import Ledger
from fieldmouse.refresh.looks import Flag
from fieldmouse.refresh.reading import sealed_policy
from fieldmouse.refresh.schedule import RETRY

Reals = NDArray[np.float64]

_NEVER = 1e15  # seconds


class Planner:
    """For the pages that stand; `rows` are their numbers in the ledger."""

    def __init__(self, home: CrawlDir, last: Checkpoint, ledger: Ledger):
        flags = ledger.column("flags")
        absent = flags & (Flag.SIGNAL | Flag.ABSENT) != 0
        self.rows = np.flatnonzero(~is_odd(flags) & ~absent & (ledger.column("looked") > 0))
        self.belief = ledger.beliefs(self.rows)
        self._state = ledger.take("state", self.rows)
        self._host = ledger.take("host", self.rows).astype(np.int64)
        self._policy = lookup.policy(sealed_policy(last))
        asked = settings.load(home / "fieldmouse.toml")
        delay = asked.politeness.delay
        self._host_limit = 1 / delay if delay else None
        self.retry = RETRY
        self.budget = ledger.budget  # polls a second; None: only politeness bounds them
        self._hosts = ledger.hosts

    def present(self) -> Reals:
        """Polls a second of each page by the plan of now."""
        limit = self._host_limit * self._hosts if self._host_limit else float(len(self.rows))
        return self.rates(self.budget or limit)

    def rates(self, budget: float) -> Reals:
        """Polls a second of each page, of so many together."""
        return self._policy.plan(
            self._state, self.belief, budget, host=self._host, host_limit=self._host_limit
        )

    def fresh(self, budget: float, law: change.Population) -> float:
        """The share of time in which a copy is current in the long run, mean over pages."""
        rates = self.rates(budget)
        interval = np.where(rates > 0, 1 / np.maximum(rates, 1 / _NEVER), _NEVER)
        return float(change.freshness(self.belief, interval, law).mean())
