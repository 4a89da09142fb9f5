"""Host payload: the state of a host that moves from one agent of a cluster to the next."""

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

_NOTES = 128  # agents that could not reach a host, the latest ones
_DETAIL = 1000  # characters of the reason it was given up


class HostLuggage:
    """Times are sent as seconds left, because the clocks of machines differ."""

    def __init__(self, chooser: Chooser, exclusions: Exclusions, politeness: Politeness, clock: Clock):
        self._chooser, self._exclusions = chooser, exclusions
        self._politeness, self._clock = politeness, clock

    def pack(self, host: Host, state: HostState) -> Luggage:
        now = self._clock.now()
        text, until = self._exclusions.pack(host)
        if len(text) > MOST_ROBOTS_TXT:  # too long for the coordinator: the next agent fetches it again
            text = b""
        learned, notes = self._chooser.learned(host), opinion.packed(state.unreached, now)[-_NOTES:]
        detail = state.detail[:_DETAIL]
        bare = msgspec.structs.replace(
            state, ready_at=0.0, address_ready_at=0.0, unreached=notes, detail=detail
        )
        return Luggage(
            msgspec.msgpack.encode(bare),
            rest=max(0.0, state.ready_at - now),
            delay=self._politeness.host_delay(state),
            learned=learned if len(learned) <= MOST_STATE else b"",
            robots_txt=text,
            robots_txt_rest=max(0.0, until - now),
        )

    def unpack(self, grant: Grant) -> tuple[HostState, list[DamagedField]]:
        """State of a granted host, and its unreadable fields, which take the values of a new host."""
        luggage, now = grant.luggage, self._clock.now()
        state, learned, damaged = host_values(luggage)
        rest, text = max(0.0, luggage.rest), luggage.robots_txt
        if any(field.field == "st" for field in damaged):
            # Its Crawl-delay is lost, too, so its robots.txt is fetched again.
            rest, text = max(rest, self._politeness.delay), b""
        self._chooser.brought(grant.host, learned)
        self._exclusions.unpack(grant.host, text, luggage.robots_txt_rest)
        # It waits for us from now on, not from time 0: the policy learns from that wait.
        notes = opinion.unpacked(state.unreached, now)
        # Its address is only a hint: fetch workers look the name up themselves, and go nowhere else.
        own = msgspec.structs.replace(state, ready_at=now + rest, unreached=notes, address_ready_at=0.0)
        return own, damaged
