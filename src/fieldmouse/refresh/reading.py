"""The ledger for onlookers: no lock, nothing written."""

from __future__ import annotations

from fieldmouse.crawldir import Checkpoint, CrawlDir, sealed_outcomes
from fieldmouse.policy.polling import PollingPolicy, lookup
from fieldmouse.refresh.ledger import Ledger
from fieldmouse.refresh.opening import LEDGER, LedgerState, open_tables
from fieldmouse.refresh.tablefiles import read_tables

__all__ = ["LEDGER", "check_ledger", "read_ledger", "sealed_policy"]

DEFAULT = "uniform"


def read_ledger(home: CrawlDir, last: Checkpoint | None, *, policy: PollingPolicy | None = None) -> Ledger:
    """The ledger as of a checkpoint, all rows that count included; one that was never kept is made in memory.

    It may be asked everything and is changed in memory only; `close` lets go of the outcome log. `Missing`
    if the crawl went on meanwhile and took a file away.
    """
    named = sealed_policy(last)
    policy = policy or lookup.policy(named)
    opened = open_tables(home, last, policy, named, onlooker=True)
    ledger = Ledger(home, opened, policy, named, readable=sealed_outcomes(last))
    ledger.catch_up(sealed_outcomes(last))
    return ledger


def sealed_policy(last: Checkpoint | None) -> str:
    """The policy whose columns a ledger has."""
    return last.state(LEDGER, LedgerState).policy if last is not None and LEDGER in last.parts else DEFAULT


def check_ledger(home: CrawlDir, last: Checkpoint) -> int:
    """How many URLs the ledger of a checkpoint knows; `Damaged` if its files are."""
    return len(read_tables(home / LEDGER, last.state(LEDGER, LedgerState).tables)["pages"])
