"""Page reservations of the coordinator in memory, stored with each active agent."""

from __future__ import annotations

from fieldmouse.balancer.board.contract import Name
from fieldmouse.balancer.board.memory.ledger import CrawlLedger
from fieldmouse.balancer.board.pagelimit import PAGE, PageAsk, PageCount, reserved


def reserve_in(ledger: CrawlLedger, name: Name, ask: PageAsk, now: float) -> int:
    living = {agent: record for agent, record in ledger.agents.items() if record.counts}
    own, counted = living.pop(name.agent), count_in(ledger, now)
    others = sum(record.pages for record in living.values())
    own.reserve(
        reserved(ask, booked=counted.booked, others=others, agents=1 + len(living), calm=counted.calm)
    )
    return own.pages


def count_in(ledger: CrawlLedger, now: float) -> PageCount:
    return PageCount(ledger.kinds.get(PAGE, 0), now < ledger.calm_until)
