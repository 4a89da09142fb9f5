"""The agents that we have heard of, of whom a sign of life tells only some when there are many.

What was told last is kept. Everybody who is there is told of within a round of turns, so whoever was not for
two of them has left. Nothing but prices and guesses goes by it: the board alone knows who holds what, fences
whoever is overdue, and sends no host to who is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from fieldmouse.balancer.board.contract import TOLD, AgentNote, Pulse


class Neighbours:
    """One for an agent, which is among them."""

    def __init__(self) -> None:
        self._turn = 0
        self._heard: dict[str, tuple[int, AgentNote]] = {}  # the turn it was told of last, and what

    def hear(self, pulse: Pulse) -> Sequence[AgentNote]:
        """All that are believed to live, after one more sign of life was answered."""
        self._turn += 1
        if pulse.whole:
            self._heard.clear()
        self._heard.update((note.agent, (self._turn, note)) for note in pulse.agents)
        last = self._turn - 2 * ceil(pulse.members / TOLD)
        self._heard = {
            agent: (turn, note) for agent, (turn, note) in self._heard.items() if note.alive and turn > last
        }
        return [note for _, note in self._heard.values()]
