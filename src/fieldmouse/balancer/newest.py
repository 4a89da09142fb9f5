"""Check that an agent's directory is as new as the coordinator's data about it.

A directory restored from a snapshot lacks pages that the coordinator takes for stored; they would never be
fetched again. An agent acknowledges an outcome, and joins under a new start, only after that is durable.
So a coordinator with later data proves that the directory is an old copy.
"""

from __future__ import annotations

from fieldmouse.balancer.board.contract import Board, Name
from fieldmouse.balancer.board.refusals import outdated
from fieldmouse.balancer.tellings import TellingsState

_ALL_TOLD = 1 << 50  # a rebuilt coordinator reports more than this for batches sent to the lost one


async def check_newest(board: Board, sealed: TellingsState, last: Name) -> None:
    """Raise if the coordinator has later data; `last` is the agent's last start, empty if this is a copy."""
    if not last.agent or sealed.agent != last.agent:
        return
    notes = [*await board.agents(), *await board.departed()]
    starts = [note.incarnation for note in notes if note.agent == last.agent]
    if max(starts, default=0) > last.incarnation:
        raise outdated(last.agent)
    for start in {sealed.incarnation, last.incarnation}:
        if sealed.done < await board.last_told(Name(last.agent, start)) < _ALL_TOLD:
            raise outdated(last.agent)
