"""What travels with a host from one agent of a network to the next."""

from __future__ import annotations

import msgspec

from fieldmouse.balancer.board.contract import DamagedField, Grant, Luggage
from fieldmouse.balancer.board.decoding import MOST_ROBOTS_TXT, MOST_STATE, host_values
from fieldmouse.balancer.choice import Chooser
from fieldmouse.clock import Clock
from fieldmouse.policy import opinion
from fieldmouse.policy.politeness import Politeness
from fieldmouse.records import HostState
from fieldmouse.robots.exclusions import Exclusions
from fieldmouse.url import Host

_NOTES = 128  # agents that could not reach a host, the last ones
_DETAIL = 1000  # characters of why it is given up


class HostLuggage:
    """Times go as seconds that are left: the clocks of machines differ."""

    def __init__(self, chooser: Chooser, exclusions: Exclusions, politeness: Politeness, clock: Clock):
        self._chooser, self._exclusions = chooser, exclusions
        self._politeness, self._clock = politeness, clock

    def pack(self, host: Host, state: HostState) -> Luggage:
        now = self._clock.now()
        text, until = self._exclusions.pack(host)
        if len(text) > MOST_ROBOTS_TXT:  # nobody would read it: the next agent asks for it again
            text = b""
        learned, notes = self._chooser.learned(host), opinion.packed(state.unreached, now)[-_NOTES:]
        detail = state.detail[:_DETAIL]
        bare = msgspec.structs.replace(
            state, ready_at=0.0, address_ready_at=0.0, unreached=notes, detail=detail
        )
        return Luggage(
            msgspec.msgpack.encode(bare),
            rest=max(0.0, state.ready_at - now), delay=self._politeness.host_delay(state),
            learned=learned if len(learned) <= MOST_STATE else b"",
            robots_txt=text, robots_txt_rest=max(0.0, until - now),
        )  # fmt: skip

    def unpack(self, grant: Grant) -> tuple[HostState, list[DamagedField]]:
        """How the host stands, and what of that cannot be read: the host goes on as one that is new."""
        luggage, now = grant.luggage, self._clock.now()
        state, learned, damaged = host_values(luggage)
        rest, text = max(0.0, luggage.rest), luggage.robots_txt
        if any(its.field == "st" for its in damaged):
            # Its Crawl-delay is not known any more either: its robots.txt is asked for again.
            rest, text = max(rest, self._politeness.delay), b""
        self._chooser.brought(grant.host, learned)
        self._exclusions.unpack(grant.host, text, luggage.robots_txt_rest)
        # It waits for us from now on, and not from the beginning of time: what it waits is learned from.
        notes = opinion.unpacked(state.unreached, now)
        # Its address is a hint at most: robots look the name up themselves, and go nowhere else.
        own = msgspec.structs.replace(state, ready_at=now + rest, unreached=notes, address_ready_at=0.0)
        return own, damaged
