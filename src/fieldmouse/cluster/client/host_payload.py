"""Codec for the state of a host that travels from agent to agent.

It holds the delays, the failures, the robots.txt and what the balance policy learned about the host.
"""

from __future__ import annotations

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.cluster.client.host_placement import HostPlacement
from fieldmouse.cluster.coordinator import DamagedField, HostGrant, HostPayload
from fieldmouse.cluster.decoding import MOST_ROBOTS_TXT, MOST_STATE, decode_host_payload
from fieldmouse.policy.local_outage import export_notes, import_notes
from fieldmouse.policy.politeness import Politeness
from fieldmouse.robotstxt.parser import RobotsTxtCache
from fieldmouse.types.host_state import HostState
from fieldmouse.url import Host

_NOTES = 128  # agents that could not reach a host, the latest ones
_DETAIL = 1000  # characters of the reason it was given up


class HostPayloadCodec:
    """State of hosts that other agents hold next. Times are sent as seconds left: the clocks of machines differ."""

    def __init__(self, placement: HostPlacement, robots_txt: RobotsTxtCache, politeness: Politeness, clock: Clock):
        self.placement, self._robots_txt = placement, robots_txt
        self._politeness, self._clock = politeness, clock

    def export_host(self, host: Host, state: HostState) -> HostPayload:
        now = self._clock.now()
        text, until = self._robots_txt.export_host(host)
        if len(text) > MOST_ROBOTS_TXT:  # too long for the coordinator: the next agent fetches it again
            text = b""
        learned, notes = self.placement.policy_data(host), export_notes(state.unreached, now)[-_NOTES:]
        detail = state.detail[:_DETAIL]
        bare = msgspec.structs.replace(state, ready_at=0.0, address_ready_at=0.0, unreached=notes, detail=detail)
        return HostPayload(
            msgspec.msgpack.encode(bare),
            rest=max(0.0, state.ready_at - now),
            delay=self._politeness.host_delay(state),
            policy_data=learned if len(learned) <= MOST_STATE else b"",
            robots_txt=text,
            robots_txt_seconds=max(0.0, until - now),
        )

    def import_host(self, grant: HostGrant) -> tuple[HostState, list[DamagedField]]:
        """State of a granted host, and its unreadable fields, which take the values of a new host."""
        payload, now = grant.payload, self._clock.now()
        state, learned, damaged = decode_host_payload(payload)
        rest, text = max(0.0, payload.rest), payload.robots_txt
        if any(field.field == "st" for field in damaged):
            # Its Crawl-delay is lost, too, so its robots.txt is fetched again.
            rest, text = max(rest, self._politeness.delay), b""
        self.placement.add_held_host(grant.host, learned)
        self._robots_txt.import_host(grant.host, text, payload.robots_txt_seconds)
        # It waits for us from now on, not from time 0: the policy learns from that wait.
        notes = import_notes(state.unreached, now)
        # Its address is only a hint: fetch workers look the name up themselves, and go nowhere else.
        own = msgspec.structs.replace(state, ready_at=now + rest, unreached=notes, address_ready_at=0.0)
        return own, damaged
