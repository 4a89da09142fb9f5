"""Greedy policy: only hosts absent online are accepted (Buijsrogge 2014, Algorithm 4).

Once every host has something offline, no draw would ever be accepted. So the rejected draws in a row are
capped, and after the cap the drawn ball goes online whatever its host.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from fieldmouse.policy.distribution.onequeue import OneQueue

H = TypeVar("H", bound=Hashable)


class Greedy(OneQueue[H]):
    """Recall the head of the offline queue if its host is absent online, else draw a host that is nowhere
    yet."""

    def __init__(self, draw_cap: int = 1000) -> None:
        super().__init__(draw_cap)

    def place(self, host: H) -> bool:
        return (host not in self.online and host not in self.backlog) or self._tired()
