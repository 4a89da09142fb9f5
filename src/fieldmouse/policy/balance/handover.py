"""Who may visit a host, as a table: how the only lease of a host goes from one agent to another.

Whoever leases a host gets a number with it, its *epoch*, that was never given before. All that the agent says
of the host later carries that number, and counts only while nobody has got a newer one: a message that was
lost, came twice or came an hour late does nothing. A lease ends when it is given back or its time is up. Who
holds one and has not heard that it was prolonged must take it for over when the time is up that it knows of,
which is never after the board's own; so no two visit a host at once, and none is held for ever.

An agent that has finished with a host may name the next: then it is *offered* to that one alone, for a while.
After its time is up a lease is *expired*: its holder may still book what it did and give the host back, until
somebody else leases it. Fencing makes the last number invalid at once, and nobody gets the host before
the old lease would have ended: its holder may not know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class LeaseState(Enum):
    """Where a host is."""

    FREE = "free"
    OFFERED = "offered"
    HELD = "held"
    DRAINING = "draining"
    EXPIRED = "expired"


class LeaseEvent(Enum):
    """What may happen to it."""

    OFFER = "offer"  # the board promises it to somebody
    LEASE = "lease"
    RENEW = "renew"
    DRAIN = "drain"  # the holder begins nothing new with it
    GIVE_BACK = "give back"  # and may name who shall have it next
    EXPIRE = "expire"  # its time is up
    FENCE = "fence"  # its holder must not be heard any more
    BOOK = "book"  # what came of a visit


class LeaseRefusal(Enum):
    """Why nothing happened."""

    TAKEN = "somebody holds it"
    PROMISED = "it is offered to another"
    RESTING = "a lease that was fenced has not ended yet"
    STALE = "the lease is not the host's last one any more"
    ENDED = "the lease is over"
    EARLY = "its time is not up"


_S, _E = LeaseState, LeaseEvent

TRANSITIONS: dict[tuple[LeaseState, LeaseEvent], LeaseState] = {
    (_S.FREE, _E.OFFER): _S.OFFERED,
    (_S.EXPIRED, _E.OFFER): _S.OFFERED,
    (_S.FREE, _E.LEASE): _S.HELD,
    (_S.OFFERED, _E.LEASE): _S.HELD,
    (_S.EXPIRED, _E.LEASE): _S.HELD,
    (_S.HELD, _E.RENEW): _S.HELD,
    (_S.DRAINING, _E.RENEW): _S.DRAINING,
    (_S.HELD, _E.DRAIN): _S.DRAINING,
    (_S.DRAINING, _E.DRAIN): _S.DRAINING,
    (_S.HELD, _E.GIVE_BACK): _S.FREE,
    (_S.DRAINING, _E.GIVE_BACK): _S.FREE,
    (_S.EXPIRED, _E.GIVE_BACK): _S.FREE,
    (_S.OFFERED, _E.EXPIRE): _S.FREE,
    (_S.HELD, _E.EXPIRE): _S.EXPIRED,
    (_S.DRAINING, _E.EXPIRE): _S.EXPIRED,
} | {(state, _E.FENCE): _S.FREE for state in _S} | {(state, _E.BOOK): state for state in _S}  # fmt: skip
"""What is not here does nothing."""

_OF_THE_HOLDER = (_E.RENEW, _E.DRAIN, _E.GIVE_BACK)
_VISITING = (_S.HELD, _S.DRAINING)


@dataclass(frozen=True, slots=True)
class HostLease:
    """A host's lease, as the board keeps it; times are the board's.

    >>> lease = HostLease().after(LeaseEvent.LEASE, 100.0, agent="east", until=115.0)
    >>> lease.held_by("east", 1, 110.0), lease.held_by("east", 1, 115.0)
    (True, False)
    >>> lease.after(LeaseEvent.LEASE, 110.0, agent="west", until=125.0)
    <LeaseRefusal.TAKEN: 'somebody holds it'>
    """

    state: LeaseState = LeaseState.FREE
    epoch: int = 0  # of the last lease, or of the last fence
    agent: str = ""  # who holds it, held it last (expired), or has the offer
    until: float = 0.0  # when lease or offer ends; of a free host, before when nobody gets it

    def held_by(self, agent: str, epoch: int, now: float) -> bool:
        """Whether that agent may visit the host now."""
        return self.state in _VISITING and (agent, epoch) == (self.agent, self.epoch) and now < self.until

    def after(
        self,
        event: LeaseEvent,
        now: float,
        *,
        agent: str = "",
        epoch: int = 0,
        to: str = "",
        until: float = 0.0,
    ) -> HostLease | LeaseRefusal:
        """The lease after that event, or why it stays as it is.

        `agent` is who speaks, of the lease `epoch`; `to` is who gets an offer (in `OFFER` and, if anybody,
        in `GIVE_BACK`), and `until` when the new lease or the offer ends.
        """
        if event is not _E.EXPIRE:
            over = self.after(_E.EXPIRE, now)
            if isinstance(over, HostLease):
                return over.after(event, now, agent=agent, epoch=epoch, to=to, until=until)
        refusal = self._refusal(event, now, agent, epoch)
        if refusal is not None:
            return refusal
        state = TRANSITIONS[self.state, event]
        match event:
            case _E.LEASE:
                return HostLease(state, self.epoch + 1, agent, until)
            case _E.RENEW:
                return replace(self, until=max(until, self.until))
            case _E.GIVE_BACK if to:
                return HostLease(_S.OFFERED, self.epoch, to, until)
            case _E.OFFER:
                return HostLease(state, self.epoch, to, until)
            case _E.FENCE:
                rest = self.until if self.state in (*_VISITING, _S.FREE) else 0.0
                return HostLease(state, self.epoch + 1, "", rest)
            case _E.EXPIRE if state is _S.FREE:
                return HostLease(state, self.epoch)
            case _E.GIVE_BACK:
                return HostLease(state, self.epoch)
        return replace(self, state=state)

    def _refusal(self, event: LeaseEvent, now: float, agent: str, epoch: int) -> LeaseRefusal | None:
        if event in (*_OF_THE_HOLDER, _E.BOOK) and (epoch != self.epoch or epoch == 0):
            return LeaseRefusal.STALE
        if (self.state, event) not in TRANSITIONS:
            return {
                _E.OFFER: LeaseRefusal.PROMISED if self.state is _S.OFFERED else LeaseRefusal.TAKEN,
                _E.LEASE: LeaseRefusal.TAKEN,
                _E.EXPIRE: LeaseRefusal.EARLY,
            }.get(event, LeaseRefusal.ENDED)
        if event in _OF_THE_HOLDER and agent != self.agent:
            return LeaseRefusal.STALE
        if event is _E.LEASE and self.state is _S.OFFERED and agent != self.agent:
            return LeaseRefusal.PROMISED
        if event in (_E.LEASE, _E.OFFER) and self.state is _S.FREE and now < self.until:
            return LeaseRefusal.RESTING
        if event is _E.EXPIRE and now < self.until:
            return LeaseRefusal.EARLY
        return None
