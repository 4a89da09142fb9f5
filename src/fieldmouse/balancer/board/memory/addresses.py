"""Address leases of the coordinator in memory, each for one host visit."""

from __future__ import annotations

from fieldmouse.balancer.board.contract import AddressAnswer, AddressAsk, Name
from fieldmouse.balancer.board.memory.ledger import CrawlLedger
from fieldmouse.balancer.board.memory.standing import AddressRecord

ASK_AGAIN = 0.05
"""Seconds after which a held address is asked for again, if its delay is not longer."""


def ask_in(ledger: CrawlLedger, name: Name, ask: AddressAsk, now: float) -> AddressAnswer:
    """Grant the address if it is free and rested, and `name` may visit the host."""
    may_visit = ask.held.epoch == 0 or ledger.holds(name, ask.held)
    if not may_visit or now > ledger.agents[name.agent].deadline:
        return AddressAnswer(False, ASK_AGAIN)
    record = ledger.addresses.setdefault(ask.address, AddressRecord())
    holder = record.holder
    if holder is not None and holder != name:
        if ledger.counts(holder):
            return AddressAnswer(False, max(record.delay, ASK_AGAIN), holder.agent)
        # until then its holder may have sent requests
        record.free(ledger.fallen.get(holder, now) + record.delay)
    ready_at = max(record.not_before, ledger.calm_until)
    if holder != name and now < ready_at:
        return AddressAnswer(False, ready_at - now)
    record.hold(name, ask.delay)
    ledger.heed(ask.delay)
    return AddressAnswer(True)


def free_in(ledger: CrawlLedger, name: Name, address: str, not_before: float) -> None:
    """End a visit. The address rests from then on, even if another agent holds it by now."""
    record = ledger.addresses.setdefault(address, AddressRecord())
    if record.holder == name:
        record.free(not_before)
    else:
        record.rest(not_before)
