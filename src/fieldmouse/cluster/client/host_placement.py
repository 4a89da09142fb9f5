"""Placement of hosts: the known agents, and the agent that visits a host next.

The rule is a policy of `policy/balance`, applied after each visit. What the policy learns about a host
travels with the host; figures of the agents come from their status. Round trips are passed in units of
fifty milliseconds, which makes those of the web about as large as the ones that the policies were tested
with. A host that this agent cannot reach is tried by another one (`policy/local_outage.py`).

A heartbeat reply lists only some agents when there are many. The last status of each agent is kept. Every
member is listed within one round of replies, so an agent that is missing for two rounds has left. Only
prices and estimates depend on this: the coordinator alone knows the holder of a host, fences overdue
agents, and sends no host to an agent that left.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from math import ceil, isfinite
from typing import Any

import msgspec
from numpy.random import Generator

from fieldmouse.clock import Clock
from fieldmouse.cluster.coordinator import MOST_LISTED_AGENTS, AgentReport, HeartbeatReply, ListedAgent
from fieldmouse.cluster.decoding import DamagedValue, decode_agent_status
from fieldmouse.policy.balance.agent_choice import AgentTable, Balancer, HashBalancer
from fieldmouse.policy.balance.priced import MAX_PRICE
from fieldmouse.policy.local_outage import NOTE_SECONDS, AgentLocation, agents_to_ask, with_note, with_polls_only
from fieldmouse.types.host_state import AgentConnectFailure, HostState
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import FrontierEntry, HostVisit
from fieldmouse.url import Host

log = logging.getLogger(__name__)


def status_or_default(note: ListedAgent) -> AgentReport:
    """Read the status of an agent; an unreadable one gives the defaults; `KnownAgents` warns of it."""
    try:
        return decode_agent_status(note.status)
    except DamagedValue:
        return AgentReport()


def _clamp(value: float, least: float, most: float, usual: float) -> float:
    """Clamp a figure that an agent reports; `usual` if it is not finite."""
    return min(max(value, least), most) if isfinite(value) else usual


def agent_table(notes: Sequence[ListedAgent]) -> AgentTable:
    """Table of the living agents by name; draining and resting ones are marked to get no hosts."""
    living = sorted((note for note in notes if note.alive), key=lambda note: note.agent)
    agent_statuses = [status_or_default(note) for note in living]
    return AgentTable(
        [note.agent for note in living],
        [_clamp(agent_status.backlog, 0.0, 1e9, 0.0) for agent_status in agent_statuses],
        [_clamp(agent_status.speed, 0.05, 50.0, 1.0) for agent_status in agent_statuses],
        [_clamp(agent_status.price, -MAX_PRICE, MAX_PRICE, 0.0) for agent_status in agent_statuses],
        [
            not (note.draining or agent_status.resting)
            for note, agent_status in zip(living, agent_statuses, strict=True)
        ],
        [float(max(0, note.host_count)) for note in living],
        [_clamp(agent_status.load, 0.0, 1.0, 0.0) for agent_status in agent_statuses],
    )


def any_agent_refreshes(notes: Sequence[ListedAgent]) -> bool:
    """Whether an agent wants hosts for more than the URLs that wait at the coordinator."""
    return any(note.alive and status_or_default(note).refreshes for note in notes)


def share_of_pages(notes: Sequence[ListedAgent], agent: str, alive: int) -> float:
    """Share of this agent in a total of the cluster, in proportion to its pages.

    Agents that are `alive` but not listed count as having as many pages as the listed ones on average.

    >>> import msgspec
    >>> def note(name: str, pages: int) -> ListedAgent:
    ...     return ListedAgent(name, 1, True, False, msgspec.msgpack.encode(AgentReport(pages=pages)), 0.0)
    >>> share_of_pages([note("ada", 30), note("bob", 10)], "bob", 2), share_of_pages([], "ada", 1)
    (0.25, 1.0)
    >>> share_of_pages([note("ada", 30), note("bob", 10)], "bob", 4)
    0.1
    """
    pages = {note.agent: max(1, status_or_default(note).pages) for note in notes if note.alive}
    if agent not in pages:
        return 1.0
    own, listed = pages.pop(agent), len(pages)
    others = sum(pages.values()) * (alive - 1) / listed if listed else own * (alive - 1)
    return own / (own + max(0.0, others))


class KnownAgents:
    """Agents known to one agent, itself included."""

    def __init__(self) -> None:
        self._turn = 0
        self._unreadable: set[str] = set()  # agents whose status could not be read the last time
        self._listed: dict[str, tuple[int, ListedAgent]] = {}  # last turn in which it was listed, and its status

    def update_from_reply(self, heartbeat_reply: HeartbeatReply) -> Sequence[ListedAgent]:
        """Take in a heartbeat reply and return all agents believed to be alive."""
        self._turn += 1
        for note in heartbeat_reply.agents:
            self._warn_if_status_unreadable(note)
        if heartbeat_reply.lists_all_agents:
            self._listed.clear()
        self._listed.update((note.agent, (self._turn, note)) for note in heartbeat_reply.agents)
        last = self._turn - 2 * ceil(heartbeat_reply.members / MOST_LISTED_AGENTS)
        self._listed = {
            agent: (turn, note) for agent, (turn, note) in self._listed.items() if note.alive and turn > last
        }
        return [note for _, note in self._listed.values()]

    def _warn_if_status_unreadable(self, note: ListedAgent) -> None:
        """Warn of an unreadable status: once for each agent, until it can be read again."""
        try:
            if note.status:
                decode_agent_status(note.status)
            self._unreadable.discard(note.agent)
        except DamagedValue as trouble:
            if note.agent not in self._unreadable:
                self._unreadable.add(note.agent)
                log.warning("the status of agent %s is ignored: %s", note.agent, trouble)


#: Seconds.
ROUND_TRIP_UNIT = 0.05


class HostPlacement:
    """Placement of the hosts that this agent holds. Asking twice about one visit gives the same answer.

    Invariant: it holds data on hosts that were added and not forgotten, and on no others.
    """

    def __init__(self, balancer: Balancer):
        self._balancer = balancer
        self._me = ""
        self.agents = AgentTable.from_names([])
        self._own_index = -1
        self._robots = 1
        self._learned: dict[Host, bytes] = {}
        self._round_trips: dict[Host, list[float]] = {}
        self._queue_times: dict[Host, float] = {}
        self._places: dict[Host, str] = {}
        self._tables: tuple[dict[Host, Any], ...] = (self._learned, self._round_trips, self._queue_times, self._places)

    def set_agent_name(self, me: str) -> None:
        """Set the name of this agent."""
        self._me = me

    def update_agents(self, table: AgentTable, told: Collection[str]) -> None:
        """Update the table of agents: those in `told` reported now, the others earlier."""
        table.keep_unconfirmed(self.agents, told)
        self.agents = table
        self._own_index = table.names.index(self._me) if self._me in table.names else -1

    def add_held_host(self, host: Host, learned: bytes) -> None:
        """Add a host with the policy's data about it."""
        self._learned[host] = learned
        self._places.pop(host, None)

    def __contains__(self, host: object) -> bool:
        """Whether there is any data on the host."""
        return any(host in table for table in self._tables)

    def policy_data(self, host: Host) -> bytes:
        return self._learned.get(host, b"")

    def remove_host(self, host: Host) -> None:
        """Drop a host that left."""
        for table in self._tables:
            table.pop(host, None)

    def record_queue_time(self, host: Host, seconds: float) -> None:
        """Record how long the host was ready and waited for a fetch worker."""
        if host in self._learned:
            self._queue_times[host] = seconds

    def record_round_trip(self, host: Host, seconds: float) -> None:
        """Record a round trip in seconds; ignored for hosts that this agent does not hold."""
        if host in self._learned:
            self._round_trips.setdefault(host, []).append(seconds)

    def place_host_at(self, host: Host, agent: str) -> None:
        """Place a host at the agent that holds its address."""
        if agent != self._me and host in self._learned:
            self._places[host] = agent

    def should_make_next_visit(self, host: Host, visits: int, avoided: Collection[str] = ()) -> bool:
        """Whether this agent also makes the next visit. Agents in `avoided` are never chosen."""
        if self._places.get(host, self._me) != self._me:
            return False
        trips = self._round_trips.pop(host, None)
        if not trips or not visits:
            return True
        queued = self._queue_times.pop(host, 0.0) / ROUND_TRIP_UNIT
        row = self._learned.get(host, b"")
        for trip in trips:
            row = self._balancer.record_visit(row, self._me, trip / ROUND_TRIP_UNIT, queued)
        self._learned[host] = row
        if len(self.agents.names) < 2:
            return True
        if self._own_index >= 0:
            self.agents.hosts[self._own_index] = float(len(self._learned))
        place = self._balancer.choose(host, row, self._own_index, self.agents)
        if place < 0 or place == self._own_index or self.agents.names[place] in avoided:
            self._places[host] = self._me
            return True
        self.agents.record_sent_host(place, self._balancer.load_of(self._me).visit_time / self._robots)
        self._places[host] = self.agents.names[place]
        return False

    def agent_for_released_host(self, host: Host, avoided: Collection[str] = (), *, idle: bool = False) -> str:
        """Agent that should visit a host that we release; "" for any.

        With `avoided` agents, or if the host is released only because it is idle (`idle`), that may be
        this agent: a host that is near to us should not go to the first agent that asks when a link to it
        is found.
        """
        place = self._places.get(host, "")
        if place not in ("", self._me):
            return place
        ours = bool(avoided) or (idle and bool(place))
        return self._me if ours and self._me not in avoided else ""

    def fixed_agent_for_new_host(self, host: Host) -> str:
        """Agent that should visit a new host; "" (the first with time) except under the hashing policy."""
        hashes = isinstance(self._balancer, HashBalancer)
        place = self._balancer.choose(host, b"", -1, self.agents) if hashes else -1
        return self.agents.names[place] if place >= 0 else ""

    def next_reported_backlog(self, due: int, robots: int, behind: float = 0.0) -> float:
        """Backlog to report next: units of time that `due` hosts mean to `robots` fetch workers, smoothed.

        The workers start on a page that arrives now after `behind` seconds.
        """
        self._robots = max(1, robots)
        return self._balancer.load_of(self._me).next_advert(max(0, due), self._robots, behind / ROUND_TRIP_UNIT)

    @property
    def slowdown(self) -> float:
        return self._balancer.load_of(self._me).speed

    def price_to_report(self) -> float:
        """Price to report next."""
        return self.agents.next_price(self._own_index) if self._own_index >= 0 else 0.0


class UnreachableHostReferrer:
    """Implementation of `fetch.outage.UnreachableHostReferral`. Agents that drain or have no network are not asked."""

    def __init__(self, clock: Clock, rng: Generator, machine: str):
        self._clock, self._rng = clock, rng
        self._me, self._others = AgentLocation("", machine), list[AgentLocation]()

    def set_other_agents(self, me: str, notes: Sequence[ListedAgent]) -> None:
        """Update the list of agents."""
        self._me = AgentLocation(me, self._me.machine)
        statuses = [(note, status_or_default(note)) for note in notes if note.alive and not note.draining]
        self._others = [
            AgentLocation(note.agent, agent_status.machine)
            for note, agent_status in statuses
            if note.agent != me and not agent_status.resting
        ]

    @property
    def other_agents_take_hosts(self) -> bool:
        """Whether any other agent takes hosts."""
        return bool(self._others)

    def mark_if_polls_only_visit(self, visit: HostVisit) -> HostVisit:
        """Start a visit. If it is for polls alone, no other agent can make the final attempt."""
        state = visit.state
        if not state.unreached:
            return visit
        only = all(ticket.frontier_entry is FrontierEntry.POLLED for ticket in visit.tickets)
        notes = with_polls_only(state.unreached, self._me.agent, only=only)
        return msgspec.structs.replace(visit, state=msgspec.structs.replace(state, unreached=notes))

    def offer_to_others(self, state: HostState, reason: OutcomeReason, *, final: bool) -> HostState | None:
        now = self._clock.now()
        if not agents_to_ask(state.unreached, self._me, self._others, now, final=final):
            return None
        note = AgentConnectFailure(self._me.agent, self._me.machine, reason, now + NOTE_SECONDS, counts=final)
        return msgspec.structs.replace(state, unreached=with_note(state.unreached, note))

    def next_agent_to_try(self, before: HostState, after: HostState) -> str:
        """Agent that should try a host that we have just noted as unreached; "" if we have not."""
        note = self._own_note(after)
        if note is None or note == self._own_note(before):
            return ""
        agents = agents_to_ask(after.unreached, self._me, self._others, self._clock.now(), final=note.counts)
        return agents[int(self._rng.integers(len(agents)))].agent if agents else ""

    def _own_note(self, state: HostState) -> AgentConnectFailure | None:
        return next((note for note in state.unreached if note.agent == self._me.agent), None)
