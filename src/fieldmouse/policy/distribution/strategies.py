"""Simple distribution policies: neutral, greedy, and mice and elephants.

Neutral puts every drawn URL online. Greedy accepts only hosts absent online (Buijsrogge 2014, Algorithm
4), with a cap on rejected draws in a row. Mice and elephants (Algorithms 11 and 12): a host with more than
`delta` balls online becomes an elephant; its later balls are stored and return only when none is online.
The printed Algorithm 12 says "5 balls"; its tables need "more than delta", so the trigger is a parameter.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Literal, TypeVar

from fieldmouse.policy.distribution.host_counts import HostCounts
from fieldmouse.policy.distribution.one_queue import OneQueuePolicy

H = TypeVar("H", bound=Hashable)


class NeutralPolicy(HostCounts[H]):
    """Policy without an offline side. URLs stored by an earlier policy are recalled last."""

    def recall(self, dry: bool = False) -> H | None:
        return next(iter(self.absent), None) if dry else None

    def place(self, host: H) -> bool:
        return True


class GreedyPolicy(OneQueuePolicy[H]):
    """Recall the head of the offline queue if its host is absent online, else draw a host that is nowhere
    yet."""

    def __init__(self, draw_cap: int = 1000) -> None:
        super().__init__(draw_cap)

    def place(self, host: H) -> bool:
        return (host not in self.online and host not in self.backlog) or self._tired()


class MiceAndElephants(OneQueuePolicy[H]):
    """Mice go online as they are drawn; elephants one at a time.

    `stop_search` is the thesis' T*: after that many balls went online no new elephant is named; None
    never stops. `own_queues` looks at every elephant's queue (Algorithm 11) instead of the head of one
    (Algorithm 12). `adapted` lets an elephant that is nowhere go online at once (section 8.4).
    `elephants` are known in advance; with `stop_search` 0 they stay the only ones (chapter 7).
    """

    def __init__(
        self,
        delta: int = 5,
        trigger: Literal["exceeds", "reaches"] = "exceeds",
        stop_search: int | None = None,
        own_queues: bool = False,
        draw_cap: int = 1000,
        adapted: bool = False,
        elephants: Iterable[H] = (),
    ) -> None:
        super().__init__(draw_cap, ordered=not own_queues)
        self.elephants: set[H] = set(elephants)
        self.limit = delta if trigger == "exceeds" else delta - 1
        self.stop_search = stop_search
        self.own_queues = own_queues
        self.adapted = adapted
        self._steps = 0

    def recall(self, dry: bool = False) -> H | None:
        if not self.own_queues:
            return super().recall(dry)
        return None if self._refused and not dry else next(iter(self.absent), None)

    def place(self, host: H) -> bool:
        if host not in self.elephants:
            return True
        nowhere = host not in self.online and host not in self.backlog
        return (self.adapted and nowhere) or self._tired()

    def came_online(self, host: H, balls: int = 1) -> None:
        super().came_online(host, balls)
        self._steps += balls
        searching = self.stop_search is None or self._steps <= self.stop_search
        if searching and self.online[host] > self.limit:
            self.elephants.add(host)
