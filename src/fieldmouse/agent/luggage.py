"""What travels with a host from one agent of a network to the next."""

from __future__ import annotations

import msgspec

from fieldmouse.balancer.board.contract import Grant, Luggage
from fieldmouse.balancer.board.rows import unread
from fieldmouse.balancer.choice import Chooser
from fieldmouse.clock import Clock
from fieldmouse.policy import opinion
from fieldmouse.policy.politeness import Politeness
from fieldmouse.records import HostState
from fieldmouse.robots.exclusions import Exclusions
from fieldmouse.url import Host

_state = msgspec.msgpack.Decoder(HostState)


class HostLuggage:
    """Times go as seconds that are left: the clocks of machines differ."""

    def __init__(self, chooser: Chooser, exclusions: Exclusions, politeness: Politeness, clock: Clock):
        self._chooser, self._exclusions = chooser, exclusions
        self._politeness, self._clock = politeness, clock

    def pack(self, host: Host, state: HostState) -> Luggage:
        now = self._clock.now()
        text, until = self._exclusions.pack(host)
        learned, notes = self._chooser.learned(host), opinion.packed(state.unreached, now)
        bare = msgspec.structs.replace(state, ready_at=0.0, address_ready_at=0.0, unreached=notes)
        return Luggage(
            msgspec.msgpack.encode(bare),
            rest=max(0.0, state.ready_at - now), delay=self._politeness.host_delay(state), learned=learned,
            robots_txt=text, robots_txt_rest=max(0.0, until - now),
        )  # fmt: skip

    def unpack(self, grant: Grant) -> HostState:
        luggage, now = grant.luggage, self._clock.now()
        try:
            state = _state.decode(luggage.state) if luggage.state else HostState()
        except msgspec.MsgspecError as trouble:
            raise unread(grant.host, trouble) from trouble
        self._chooser.brought(grant.host, luggage.learned)
        self._exclusions.unpack(grant.host, luggage.robots_txt, luggage.robots_txt_rest)
        # It waits for us from now on, and not from the beginning of time: what it waits is learned from.
        notes = opinion.unpacked(state.unreached, now)
        return msgspec.structs.replace(state, ready_at=now + max(0.0, luggage.rest), unreached=notes)
