"""Known agents of the cluster, of which a heartbeat reply lists only some when there are many.

The last status of each agent is kept. Every member is listed within one round of replies, so an agent that
is missing for two rounds has left. Only prices and estimates depend on this: the coordinator alone knows
the holder of a host, fences overdue agents, and sends no host to an agent that left.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from fieldmouse.balancer.board.contract import TOLD, AgentNote, Pulse


class Neighbours:
    """Agents known to one agent, itself included."""

    def __init__(self) -> None:
        self._turn = 0
        self._listed: dict[
            str, tuple[int, AgentNote]
        ] = {}  # last turn in which it was listed, and its status

    def hear(self, pulse: Pulse) -> Sequence[AgentNote]:
        """Take in a heartbeat reply and return all agents believed to be alive."""
        self._turn += 1
        if pulse.whole:
            self._listed.clear()
        self._listed.update((note.agent, (self._turn, note)) for note in pulse.agents)
        last = self._turn - 2 * ceil(pulse.members / TOLD)
        self._listed = {
            agent: (turn, note) for agent, (turn, note) in self._listed.items() if note.alive and turn > last
        }
        return [note for _, note in self._listed.values()]
