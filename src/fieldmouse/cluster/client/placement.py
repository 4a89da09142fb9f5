"""Placement of hosts: the agent that visits a host next, and a second opinion on unreachable hosts.

The rule is a policy of `policy/balance`, applied after each visit. What the policy learns about a host
travels with the host; figures of the agents come from their status. Round trips are passed in units of
fifty milliseconds, which makes those of the web about as large as the ones that the policies were tested
with. A host that this agent cannot reach is tried by another one (`policy/outage.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from numpy.random import Generator

from fieldmouse.clock import Clock
from fieldmouse.cluster.client.membership import status_of
from fieldmouse.cluster.coordinator import ListedAgent
from fieldmouse.policy.balance.balancer import AgentTable, Balancer
from fieldmouse.policy.outage import NOTE_SECONDS, AgentOnMachine, agents_to_ask, with_note, with_polls_only
from fieldmouse.types.host import HostState, UnreachedNote
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import HostVisit, Origin
from fieldmouse.url import Host

#: Seconds.
ROUND_TRIP_UNIT = 0.05


class HostPlacement:
    """Placement of the hosts that this agent holds. Asking twice about one visit gives the same answer.

    Invariant: it holds data on hosts that were added and not forgotten, and on no others.
    """

    def __init__(self, balancer: Balancer):
        self._balancer = balancer
        self._me = ""
        self.agents = AgentTable.with_defaults([])
        self._here = -1
        self._robots = 1
        self._learned: dict[Host, bytes] = {}
        self._trips: dict[Host, list[float]] = {}
        self._queued: dict[Host, float] = {}
        self._places: dict[Host, str] = {}

    def set_agent_name(self, me: str) -> None:
        """Set the name of this agent."""
        self._me = me

    def update_agents(self, table: AgentTable, told: Collection[str]) -> None:
        """Update the table of agents: those in `told` reported now, the others earlier."""
        table.keep_unconfirmed(self.agents, told)
        self.agents = table
        self._here = table.names.index(self._me) if self._me in table.names else -1

    def add_host(self, host: Host, learned: bytes) -> None:
        """Add a host with the policy's data about it."""
        self._learned[host] = learned
        self._places.pop(host, None)

    def __contains__(self, host: object) -> bool:
        """Whether there is any data on the host."""
        return any(host in table for table in (self._learned, self._trips, self._queued, self._places))

    def policy_data(self, host: Host) -> bytes:
        return self._learned.get(host, b"")

    def remove_host(self, host: Host) -> None:
        """Drop a host that left."""
        self._learned.pop(host, None)
        self._trips.pop(host, None)
        self._queued.pop(host, None)
        self._places.pop(host, None)

    def record_queue_time(self, host: Host, seconds: float) -> None:
        """Record how long the host was ready and waited for a fetch worker."""
        if host in self._learned:
            self._queued[host] = seconds

    def record_round_trip(self, host: Host, seconds: float) -> None:
        """Record a round trip in seconds; ignored for hosts that this agent does not hold."""
        if host in self._learned:
            self._trips.setdefault(host, []).append(seconds)

    def place_at(self, host: Host, agent: str) -> None:
        """Place a host at the agent that holds its address."""
        if agent != self._me and host in self._learned:
            self._places[host] = agent

    def should_keep(self, host: Host, visits: int, shunned: Collection[str] = ()) -> bool:
        """Whether this agent also makes the next visit. Agents in `shunned` are never chosen."""
        if self._places.get(host, self._me) != self._me:
            return False
        trips = self._trips.pop(host, None)
        if not trips or not visits:
            return True
        queued = self._queued.pop(host, 0.0) / ROUND_TRIP_UNIT
        row = self._learned.get(host, b"")
        for trip in trips:
            row = self._balancer.observe(row, self._me, trip / ROUND_TRIP_UNIT, queued)
        self._learned[host] = row
        if len(self.agents.names) < 2:
            return True
        if self._here >= 0:
            self.agents.hosts[self._here] = float(len(self._learned))
        place = self._balancer.choose(host, row, self._here, self.agents)
        if place < 0 or place == self._here or self.agents.names[place] in shunned:
            self._places[host] = self._me
            return True
        self.agents.record_sent_host(place, self._balancer.load_of(self._me).visit_time / self._robots)
        self._places[host] = self.agents.names[place]
        return False

    def next_agent(self, host: Host, shunned: Collection[str] = (), *, idle: bool = False) -> str:
        """Agent that should visit a host that we release; "" for any.

        With `shunned` agents, or if the host is released only because it is idle (`idle`), that may be
        this agent: a host that is near to us should not go to the first agent that asks when a link to it
        is found.
        """
        place = self._places.get(host, "")
        if place not in ("", self._me):
            return place
        ours = bool(shunned) or (idle and bool(place))
        return self._me if ours and self._me not in shunned else ""

    def agent_for_new_host(self, host: Host) -> str:
        """Agent that should visit a new host; "" (the first with time) except under the hashing policy."""
        place = self._balancer.choose(host, b"", -1, self.agents) if self._decides_first else -1
        return self.agents.names[place] if place >= 0 else ""

    @property
    def _decides_first(self) -> bool:
        return type(self._balancer).__name__ == "HashBalancer"

    def reported_backlog(self, due: int, robots: int, behind: float = 0.0) -> float:
        """Backlog to report next: units of time that `due` hosts mean to `robots` fetch workers, smoothed.

        The workers start on a page that arrives now after `behind` seconds.
        """
        self._robots = max(1, robots)
        return self._balancer.load_of(self._me).next_advert(max(0, due), self._robots, behind / ROUND_TRIP_UNIT)

    @property
    def speed(self) -> float:
        return self._balancer.load_of(self._me).speed

    def reported_price(self) -> float:
        """Price to report next."""
        return self.agents.next_price(self._here) if self._here >= 0 else 0.0


class ClusterOpinion:
    """Implementation of `fetch.blame.SecondOpinion`. Agents that drain or have no network are not asked."""

    def __init__(self, clock: Clock, rng: Generator, machine: str):
        self._clock, self._rng = clock, rng
        self._me, self._others = AgentOnMachine("", machine), list[AgentOnMachine]()

    def update_agents(self, me: str, notes: Sequence[ListedAgent]) -> None:
        """Update the list of agents."""
        self._me = AgentOnMachine(me, self._me.machine)
        statuses = [(note, status_of(note)) for note in notes if note.alive and not note.draining]
        self._others = [
            AgentOnMachine(note.agent, advert.machine)
            for note, advert in statuses
            if note.agent != me and not advert.resting
        ]

    @property
    def has_others(self) -> bool:
        """Whether any other agent takes hosts."""
        return bool(self._others)

    def begin_visit(self, errand: HostVisit) -> HostVisit:
        """Start a visit. If it is for polls alone, no other agent can make the final attempt."""
        state = errand.state
        if not state.unreached:
            return errand
        only = all(ticket.origin is Origin.POLLED for ticket in errand.tickets)
        notes = with_polls_only(state.unreached, self._me.agent, only=only)
        return msgspec.structs.replace(errand, state=msgspec.structs.replace(state, unreached=notes))

    def offer_to_others(self, state: HostState, reason: OutcomeReason, *, final: bool) -> HostState | None:
        now = self._clock.now()
        if not agents_to_ask(state.unreached, self._me, self._others, now, final=final):
            return None
        note = UnreachedNote(self._me.agent, self._me.machine, reason, now + NOTE_SECONDS, counts=final)
        return msgspec.structs.replace(state, unreached=with_note(state.unreached, note))

    def next_agent_to_try(self, before: HostState, after: HostState) -> str:
        """Agent that should try a host that we have just noted as unreached; "" if we have not."""
        note = self._own(after)
        if note is None or note == self._own(before):
            return ""
        agents = agents_to_ask(after.unreached, self._me, self._others, self._clock.now(), final=note.counts)
        return agents[int(self._rng.integers(len(agents)))].agent if agents else ""

    def _own(self, state: HostState) -> UnreachedNote | None:
        return next((note for note in state.unreached if note.agent == self._me.agent), None)
