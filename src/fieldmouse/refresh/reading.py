"""Read-only access to the page table: no lock, nothing written."""

from __future__ import annotations

from fieldmouse.crawldir import Checkpoint, CrawlDir, sealed_outcomes
from fieldmouse.policy.polling import PollingPolicy, lookup
from fieldmouse.refresh.ledger import Ledger
from fieldmouse.refresh.opening import LEDGER, LedgerState, open_tables
from fieldmouse.refresh.tablefiles import read_tables

__all__ = ["LEDGER", "check_ledger", "read_ledger", "sealed_policy"]

DEFAULT = "uniform"


def read_ledger(home: CrawlDir, last: Checkpoint | None, *, policy: PollingPolicy | None = None) -> Ledger:
    """Page table as of a checkpoint, with all rows that count; built in memory if none was kept.

    All queries work; changes stay in memory; `close` closes the outcome log. Raises `Missing` if a running
    crawl has since deleted a file.
    """
    named = sealed_policy(last)
    policy = policy or lookup.policy(named)
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
