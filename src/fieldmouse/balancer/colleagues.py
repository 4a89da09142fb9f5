"""Second opinion of other agents on a host that this one cannot reach: `policy/opinion` with agent status."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from numpy.random import Generator

from fieldmouse.balancer.adverts import advert_of
from fieldmouse.balancer.board.contract import AgentNote
from fieldmouse.clock import Clock
from fieldmouse.policy.opinion import WHILE, Colleague, to_ask, with_note, with_polls
from fieldmouse.records import Door, Errand, HostState, Reason, Unreached


class Colleagues:
    """Implementation of `robots.blame.SecondOpinion`. Agents that drain or have no network are not asked."""

    def __init__(self, clock: Clock, rng: Generator, machine: str):
        self._clock, self._rng = clock, rng
        self._me, self._others = Colleague("", machine), list[Colleague]()

    def meet(self, me: str, notes: Sequence[AgentNote]) -> None:
        """Update the list of agents."""
        self._me = Colleague(me, self._me.machine)
        statuses = [(note, advert_of(note)) for note in notes if note.alive and not note.draining]
        self._others = [
            Colleague(note.agent, advert.machine)
            for note, advert in statuses
            if note.agent != me and not advert.resting
        ]

    @property
    def present(self) -> bool:
        """Whether any other agent takes hosts."""
        return bool(self._others)

    def visit(self, errand: Errand) -> Errand:
        """Start a visit. If it is for polls alone, no other agent can make the final attempt."""
        state = errand.state
        if not state.unreached:
            return errand
        only = all(ticket.door is Door.POLLED for ticket in errand.tickets)
        notes = with_polls(state.unreached, self._me.agent, only=only)
        return msgspec.structs.replace(errand, state=msgspec.structs.replace(state, unreached=notes))

    def hand_on(self, state: HostState, reason: Reason, *, final: bool) -> HostState | None:
        now = self._clock.now()
        if not to_ask(state.unreached, self._me, self._others, now, final=final):
            return None
        note = Unreached(self._me.agent, self._me.machine, reason, now + WHILE, counts=final)
        return msgspec.structs.replace(state, unreached=with_note(state.unreached, note))

    def heir(self, before: HostState, after: HostState) -> str:
        """Agent that should try a host that we have just noted as unreached; "" if we have not."""
        note = self._own(after)
        if note is None or note == self._own(before):
            return ""
        agents = to_ask(after.unreached, self._me, self._others, self._clock.now(), final=note.counts)
        return agents[int(self._rng.integers(len(agents)))].agent if agents else ""

    def _own(self, state: HostState) -> Unreached | None:
        return next((note for note in state.unreached if note.agent == self._me.agent), None)
