"""Failures that are taken back: URLs that were booked wait again, and are settled no longer.

An agent says so of what it has booked itself (`agent --retry-failed`), in parts that are numbered. A part
counts once, however often it is told; and what was taken back is not sent out once more should its agent be
lost (`forget`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fieldmouse.url import Host

if TYPE_CHECKING:
    from fieldmouse.balancer.board.contract import Name


@dataclass(frozen=True, slots=True)
class TakenBack:
    """Outcomes of one host that an agent takes back: keys with their rows, and of which kind each was."""

    host: Host
    rows: Sequence[tuple[int, bytes]]
    kinds: Sequence[str]
    number: int = 0  # grows with each that an agent tells


class ForgivingBoard(Protocol):
    """The part of a board that takes failures back."""

    async def take_back(self, name: Name, taken: TakenBack) -> int:
        """These wait again; returns how many. 0 if it was told before."""
