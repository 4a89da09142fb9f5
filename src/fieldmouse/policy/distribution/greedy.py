"""Only hosts absent online are accepted (Buijsrogge 2014, Algorithm 4).

It cannot go on for ever: once every host has something offline, no draw is ever accepted. So the draws in
a row are capped, and after the cap the ball drawn goes online whatever its host.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from fieldmouse.policy.distribution.onequeue import OneQueue

H = TypeVar("H", bound=Hashable)


class Greedy(OneQueue[H]):
    """The head of the offline queue if its host is absent online, else a draw whose host is nowhere yet."""

    def __init__(self, draw_cap: int = 1000) -> None:
        super().__init__(draw_cap)

    def place(self, host: H) -> bool:
        return (host not in self.online and host not in self.backlog) or self._tired()
