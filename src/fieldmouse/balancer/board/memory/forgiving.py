"""Retry of failed URLs at the coordinator in memory."""

from __future__ import annotations

from collections import Counter

from fieldmouse.balancer.board.contract import Name
from fieldmouse.balancer.board.forgiving import TakenBack
from fieldmouse.balancer.board.memory.ledger import CrawlLedger


def take_back_in(ledger: CrawlLedger, name: Name, taken: TakenBack, now: float) -> int:
    """Let the rows wait again, no longer settled, unless this part was received before."""
    if taken.number <= ledger.forgave.get(name.agent, 0):
        return 0
    ledger.forgave[name.agent] = taken.number
    keys = ledger.unsettle(taken.host, taken.rows, taken.kinds, now)
    ledger.taken_back.setdefault(name.agent, Counter()).update(keys)
    return len(keys)
