"""Distribution policies with one offline queue: neutral, greedy, and mice and elephants.

Neutral puts every drawn URL online. Greedy accepts only hosts absent online (Buijsrogge 2014, Algorithm
4), with a cap on rejected draws in a row. Mice and elephants (Algorithms 11 and 12): a host with more than
`delta` balls online becomes an elephant; its later balls are stored and return only when none is online.
The printed Algorithm 12 says "5 balls"; its tables need "more than delta", so the trigger is a parameter.

The thesis keeps a single queue, since a disk with a moving head handles many badly. We store a queue per
host and keep the order of arrival here, so that a policy written for the single queue makes the same
decisions.

The thesis looks at the offline side once for each ball that goes online, before the first draw: balls
rejected while drawing wait for the next turn. An empty source is the exception, since the offline side is
all there is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Literal, TypeVar

from fieldmouse.policy.distribution.host_counts import HostCounts

H = TypeVar("H", bound=Hashable)


class FifoBacklogPolicy(HostCounts[H]):
    """Order in which balls went offline, over all hosts; one entry per ball.

    `ordered=False` is for a policy that looks into every host's queue: no order is kept.
    """

    def __init__(self, draw_cap: int, ordered: bool = True) -> None:
        super().__init__()
        self.draw_cap = draw_cap
        self.ordered = ordered
        self._order: deque[H] = deque()
        self._gone: dict[H, int] = {}  # balls recalled in a batch whose entries are still in the order
        self._refused = 0  # rejected draws in a row since a ball went online

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        if self._refused and not dry:
            return None
        first = self._queue_head()
        if first is None or first not in self.online:
            return first
        return next(iter(self.absent), None) if dry else None

    def added_to_queue(self, host: H, balls: int = 1) -> None:
        super().added_to_queue(host, balls)
        if self.ordered:
            self._order.extend([host] * balls)

    def read_from_queue(self, host: H, balls: int = 1) -> None:
        super().read_from_queue(host, balls)
        if self.ordered:
            self._gone[host] = self._gone.get(host, 0) + balls

    def came_online(self, host: H, balls: int = 1) -> None:
        super().came_online(host, balls)
        self._refused = 0

    def _queue_head(self) -> H | None:
        while self._order:
            host = self._order[0]
            gone = self._gone.get(host, 0)
            if not gone:
                return host
            self._order.popleft()
            if gone == 1:
                del self._gone[host]
            else:
                self._gone[host] = gone - 1
        return None

    def _count_rejected_draw(self) -> bool:
        """Count a rejected draw; return whether the cap is exceeded and it must be accepted."""
        self._refused += 1
        return self._refused > self.draw_cap


class NeutralPolicy(HostCounts[H]):
    """Policy without an offline side. URLs stored by an earlier policy are recalled last."""

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        return next(iter(self.absent), None) if dry else None

    def goes_online(self, host: H) -> bool:
        return True


class GreedyAbsentHostsPolicy(FifoBacklogPolicy[H]):
    """Recall the head of the offline queue if its host is absent online, else draw a host that is nowhere
    yet."""

    def __init__(self, draw_cap: int = 1000) -> None:
        super().__init__(draw_cap)

    def goes_online(self, host: H) -> bool:
        return (host not in self.online and host not in self.backlog) or self._count_rejected_draw()


class MiceAndElephants(FifoBacklogPolicy[H]):
    """Mice go online as they are drawn; elephants one at a time.

    `stop_search` is the thesis' T*: after that many balls went online no new elephant is named; None
    never stops. With `settle` the search also stops while the number of hosts online is stable, that is, has
    not grown by a fiftieth over so many balls, and begins again when it falls by a tenth. `own_queues` looks
    at every elephant's queue (Algorithm 11) instead of the head of one (Algorithm 12). `adapted` lets
    an elephant that is nowhere go online at once (section 8.4). `elephants` are known in advance; with
    `stop_search` 0 they stay the only ones (chapter 7).
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
        settle: int = 0,
    ) -> None:
        super().__init__(draw_cap, ordered=not own_queues)
        self.elephants: set[H] = set(elephants)
        self.limit = delta if trigger == "exceeds" else delta - 1
        self.stop_search = stop_search
        self.own_queues = own_queues
        self.adapted = adapted
        self.settle = settle
        self._steps = self._looked_at = self._hosts_then = 0
        self._settled_at = 0  # hosts online when the search stopped; 0: it goes on

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        if not self.own_queues:
            return super().next_queue_to_read(dry)
        return None if self._refused and not dry else next(iter(self.absent), None)

    def goes_online(self, host: H) -> bool:
        if host not in self.elephants:
            return True
        nowhere = host not in self.online and host not in self.backlog
        return (self.adapted and nowhere) or self._count_rejected_draw()

    def came_online(self, host: H, balls: int = 1) -> None:
        super().came_online(host, balls)
        self._steps += balls
        searching = self.stop_search is None or self._steps <= self.stop_search
        if self.settle and self._steps >= self._looked_at + self.settle:
            hosts = self.online_host_count
            if hosts < 0.9 * self._settled_at:
                self._settled_at = 0
            elif not self._settled_at and hosts <= 1.02 * self._hosts_then:
                self._settled_at = hosts
            self._looked_at, self._hosts_then = self._steps, hosts
        if searching and not self._settled_at and self.online[host] > self.limit:
            self.elephants.add(host)
