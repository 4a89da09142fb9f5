"""Membership of an agent: the other agents and their status, and the check that its directory is newest.

A heartbeat reply lists only some agents when there are many. The last status of each agent is kept. Every
member is listed within one round of replies, so an agent that is missing for two rounds has left. Only
prices and estimates depend on this: the coordinator alone knows the holder of a host, fences overdue
agents, and sends no host to an agent that left.

A directory restored from a snapshot lacks pages that the coordinator takes for stored; they would never
be fetched again. An agent acknowledges an outcome, and joins under a new start, only after that is
durable. So a coordinator with later data proves that the directory is an old copy.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import ceil, isfinite

from fieldmouse.cluster.client.outbox import OutboxState
from fieldmouse.cluster.coordinator import MOST_LISTED_AGENTS, AgentId, Coordinator, HeartbeatReply, ListedAgent
from fieldmouse.cluster.coordinator import AgentStatus as AgentStatus
from fieldmouse.cluster.decoding import DamagedValue, decode_agent_status
from fieldmouse.cluster.errors import stale_directory_error
from fieldmouse.policy.balance.balancer import AgentTable
from fieldmouse.policy.balance.priced import MAX_PRICE

log = logging.getLogger(__name__)


def status_of(note: ListedAgent) -> AgentStatus:
    """Read the status of an agent; an unreadable one gives the defaults (see `StatusWarnings`)."""
    try:
        return decode_agent_status(note.status)
    except DamagedValue:
        return AgentStatus()


class StatusWarnings:
    """Warning about unreadable status figures: once for each agent, until they can be read again."""

    def __init__(self) -> None:
        self._agents: set[str] = set()

    def check(self, notes: Sequence[ListedAgent]) -> None:
        for note in notes:
            try:
                if note.status:
                    decode_agent_status(note.status)
                self._agents.discard(note.agent)
            except DamagedValue as trouble:
                if note.agent not in self._agents:
                    self._agents.add(note.agent)
                    log.warning("the status of agent %s is ignored: %s", note.agent, trouble)


def _within(value: float, least: float, most: float, usual: float) -> float:
    """Clamp a figure that an agent reports; `usual` if it is not finite."""
    return min(max(value, least), most) if isfinite(value) else usual


def agent_table(notes: Sequence[ListedAgent]) -> AgentTable:
    """Table of the living agents by name; draining and resting ones are marked to get no hosts."""
    living = sorted((note for note in notes if note.alive), key=lambda note: note.agent)
    adverts = [status_of(note) for note in living]
    return AgentTable(
        [note.agent for note in living],
        [_within(advert.backlog, 0.0, 1e9, 0.0) for advert in adverts],
        [_within(advert.speed, 0.05, 50.0, 1.0) for advert in adverts],
        [_within(advert.price, -MAX_PRICE, MAX_PRICE, 0.0) for advert in adverts],
        [not (note.draining or advert.resting) for note, advert in zip(living, adverts, strict=True)],
        [float(max(0, note.host_count)) for note in living],
        [_within(advert.load, 0.0, 1.0, 0.0) for advert in adverts],
    )


def any_agent_refreshes(notes: Sequence[ListedAgent]) -> bool:
    """Whether an agent wants hosts for more than the URLs that wait at the coordinator."""
    return any(note.alive and status_of(note).refreshes for note in notes)


def page_share(notes: Sequence[ListedAgent], agent: str, alive: int) -> float:
    """Share of this agent in a total of the cluster, in proportion to its pages.

    Agents that are `alive` but not listed count as having as many pages as the listed ones on average.

    >>> import msgspec
    >>> def note(name: str, pages: int) -> ListedAgent:
    ...     return ListedAgent(name, 1, True, False, msgspec.msgpack.encode(AgentStatus(pages=pages)), 0.0)
    >>> page_share([note("ada", 30), note("bob", 10)], "bob", 2), page_share([], "ada", 1)
    (0.25, 1.0)
    >>> page_share([note("ada", 30), note("bob", 10)], "bob", 4)
    0.1
    """
    pages = {note.agent: max(1, status_of(note).pages) for note in notes if note.alive}
    if agent not in pages:
        return 1.0
    own, listed = pages.pop(agent), len(pages)
    others = sum(pages.values()) * (alive - 1) / listed if listed else own * (alive - 1)
    return own / (own + max(0.0, others))


class KnownAgents:
    """Agents known to one agent, itself included."""

    def __init__(self) -> None:
        self._turn = 0
        self._listed: dict[str, tuple[int, ListedAgent]] = {}  # last turn in which it was listed, and its status

    def update(self, pulse: HeartbeatReply) -> Sequence[ListedAgent]:
        """Take in a heartbeat reply and return all agents believed to be alive."""
        self._turn += 1
        if pulse.lists_all_agents:
            self._listed.clear()
        self._listed.update((note.agent, (self._turn, note)) for note in pulse.agents)
        last = self._turn - 2 * ceil(pulse.members / MOST_LISTED_AGENTS)
        self._listed = {
            agent: (turn, note) for agent, (turn, note) in self._listed.items() if note.alive and turn > last
        }
        return [note for _, note in self._listed.values()]


_ALL_TOLD = 1 << 50  # a rebuilt coordinator reports more than this for batches sent to the lost one


async def check_directory_is_newest(board: Coordinator, sealed: OutboxState, last: AgentId) -> None:
    """Raise if the coordinator has later data; `last` is the agent's last start, empty if this is a copy."""
    if not last.agent or sealed.agent != last.agent:
        return
    notes = [*await board.list_agents(), *await board.list_departed_agents()]
    starts = [note.incarnation for note in notes if note.agent == last.agent]
    if max(starts, default=0) > last.incarnation:
        raise stale_directory_error(last.agent)
    for start in {sealed.incarnation, last.incarnation}:
        if sealed.done < await board.last_acked_batch(AgentId(last.agent, start)) < _ALL_TOLD:
            raise stale_directory_error(last.agent)
