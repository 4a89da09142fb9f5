"""Mark of a heartbeat, by which an agent detects that a server has an old copy of its data.

An agent drops a message from its outbox when it is safe: when the coordinator has recorded a later
heartbeat, long ago. A coordinator that does not know that heartbeat lacks data that the agent takes for
granted: its server was given an old copy. Only an agent itself raises the number of its heartbeats, so
calls of other agents on the old copy hide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heard:
    """A heartbeat of one start of an agent. Every coordinator knows the one of the agent ""."""

    agent: str = ""
    incarnation: int = 0
    number: int = 0


ANY = Heard()
"""Known to every coordinator."""
