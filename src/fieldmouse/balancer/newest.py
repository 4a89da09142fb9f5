"""Whether an agent's directory is as new as what the board has heard of it.

One that was brought back from a snapshot lacks pages that the board takes for stored: nobody would ever fetch
them again. An agent tells an outcome, and joins under a new start, only when that is durable: a board that
knows of more proves that the directory is an old copy.
"""

from __future__ import annotations

from fieldmouse.balancer.board.contract import Board, Name
from fieldmouse.balancer.board.refusals import outdated
from fieldmouse.balancer.tellings import TellingsState

_ALL_TOLD = 1 << 50  # a board that was made again says more than that of what was told to the lost one


async def check_newest(board: Board, sealed: TellingsState, last: Name) -> None:
    """Raise if the board knows more; `last` is the agent's last start, of nobody if this is a copy."""
    if not last.agent or sealed.agent != last.agent:
        return
    notes = [*await board.agents(), *await board.departed()]
    starts = [note.incarnation for note in notes if note.agent == last.agent]
    if max(starts, default=0) > last.incarnation:
        raise outdated(last.agent)
    for start in {sealed.incarnation, last.incarnation}:
        if sealed.done < await board.last_told(Name(last.agent, start)) < _ALL_TOLD:
            raise outdated(last.agent)
