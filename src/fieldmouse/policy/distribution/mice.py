"""Hosts that crowd the front are elephants and wait offline (Buijsrogge 2014, Algorithms 11 and 12).

A host becomes an elephant when it has more than `delta` balls online after one
was put there; that ball stays. From then on its balls are stored, and come back
only when none is online. The printed Algorithm 12 says "5 balls"; its tables need
"more than delta", so the trigger is a parameter.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal, TypeVar

from fieldmouse.policy.distribution.onequeue import OneQueue

H = TypeVar("H", bound=Hashable)


class MiceAndElephants(OneQueue[H]):
    """Mice go online as they are drawn; elephants one at a time.

    `stop_search` is the thesis' T*: after that many balls went online no new
    elephant is named; None never stops. `own_queues` looks at every elephant's
    queue (Algorithm 11) instead of the head of one (Algorithm 12).
    """

    def __init__(
        self,
        delta: int = 5,
        trigger: Literal["exceeds", "reaches"] = "exceeds",
        stop_search: int | None = None,
        own_queues: bool = False,
        draw_cap: int = 1000,
    ) -> None:
        super().__init__(draw_cap)
        self.elephants: set[H] = set()
        self._limit = delta if trigger == "exceeds" else delta - 1
        self._stop_search = stop_search
        self._own_queues = own_queues
        self._steps = 0

    def recall(self, dry: bool = False) -> H | None:
        if self._own_queues:
            return next(iter(self.absent), None)
        return super().recall(dry)

    def place(self, host: H) -> bool:
        return host not in self.elephants or self._tired()

    def came_online(self, host: H, balls: int = 1) -> None:
        super().came_online(host, balls)
        self._steps += balls
        searching = self._stop_search is None or self._steps <= self._stop_search
        if searching and self.online[host] > self._limit:
            self.elephants.add(host)
