"""Strategies that the thesis tried and rejected before mice and elephants (Buijsrogge 2014, chapter 7).

These are Algorithms 1 to 3 and 5 to 10; the lab plays them to show why they fail, and `crawl --policy alg5`
and `lab replay` take them by name, as they take Algorithms 4, 11 and 12. All keep a single queue offline and
accept a draw if its host is neither online nor waiting. Some use the probability of each host, which a crawl
does not have: there the share of the newest draws whose host waits offline is counted instead. Some toss a
coin. After `draw_cap` rejected draws in a row one is accepted.

The text is interpreted in two places. In Algorithm 6 an acceptable second ball brings the first ball
online, because the balls are in a queue. In Algorithm 10 a ball whose host waits offline may not overtake
it, as in all other rules of the game.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from itertools import islice
from typing import TypeVar

from numpy.random import Generator, default_rng

from fieldmouse.policy.distribution.single_queue_policies import FifoBacklogPolicy, MiceAndElephants

H = TypeVar("H", bound=Hashable)

#: When hosts offline have more than this share of all draws, new ones are too hard to find.
OFFLINE_SHARE_LIMIT = 0.99
#: Number of draws over which the share of hosts offline is averaged where probabilities are unknown.
_DRAWS = 1000.0


class AcceptNewHosts(FifoBacklogPolicy[H]):
    """Base of these strategies: a draw is accepted only if its host is neither online nor offline."""

    def __init__(self, draw_cap: int = 1000) -> None:
        super().__init__(draw_cap)

    def goes_online(self, host: H) -> bool:
        return self._accepts(host)

    def _accepts(self, host: H) -> bool:
        return self._is_new(host) or self._count_rejected_draw()

    def _is_new(self, host: H) -> bool:
        return host not in self.online and host not in self.backlog


class SourceFirst(AcceptNewHosts[H]):
    """Algorithm 1: a draw; if it is rejected, the first ball offline, regardless of its host."""

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        return self._queue_head() if self._refused or dry else None


class OfflineFirst(AcceptNewHosts[H]):
    """Algorithm 2: the first ball offline, regardless of its host; draws only if offline is empty."""

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        return None if self._refused and not dry else self._queue_head()


class SourceOnly(AcceptNewHosts[H]):
    """Algorithm 3: draws until one is acceptable."""

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        return self._queue_head() if dry else None


class GreedySecond(AcceptNewHosts[H]):
    """Algorithm 6: the first ball offline if it or the second is of a host absent online, else draws."""

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        if self._refused and not dry:
            return None
        first = self._queue_head()
        if first is None or first not in self.online or dry:
            return first
        second = self._second()
        return first if second is not None and second not in self.online else None

    def _second(self) -> H | None:
        passed: dict[H, int] = {}
        for host in islice(self._order, 1, None):
            if self._gone.get(host, 0) == passed.get(host, 0):
                return host
            passed[host] = passed.get(host, 0) + 1
        return None


class ProbabilityAware(AcceptNewHosts[H]):
    """Base of strategies that use the probability of each host to compute the share of draws that hosts
    offline have; without `share` that is estimated."""

    def __init__(self, draw_cap: int = 1000, share: Callable[[H], float] | None = None) -> None:
        super().__init__(draw_cap)
        self._share = share
        self._offline = 0.0

    def goes_online(self, host: H) -> bool:
        if self._share is None:
            self._offline += ((host in self.backlog) - self._offline) / _DRAWS
        return self._accepts(host)

    @property
    def mostly_offline(self) -> bool:
        return self._offline > OFFLINE_SHARE_LIMIT

    def added_to_queue(self, host: H, balls: int = 1) -> None:
        if self._share is not None and host not in self.backlog:
            self._offline += self._share(host)
        super().added_to_queue(host, balls)

    def read_from_queue(self, host: H, balls: int = 1) -> None:
        super().read_from_queue(host, balls)
        if self._share is not None and host not in self.backlog:
            self._offline -= self._share(host)


class GreedyUntilFull(ProbabilityAware[H]):
    """Algorithm 5: as Algorithm 4, but once most hosts are offline, the first ball offline."""

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        return self._queue_head() if self.mostly_offline else super().next_queue_to_read(dry)


class CoinSourceOrOffline(AcceptNewHosts[H]):
    """Algorithm 7: with probability `r` from the source, else from offline. No ball is ever put offline."""

    def __init__(self, draw_cap: int = 1000, r: float = 0.5, seed: int = 1, dice: Generator | None = None) -> None:
        super().__init__(draw_cap)
        self._r, self._dice = r, dice or default_rng(seed)

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        return self._queue_head() if dry or self._dice.random() >= self._r else None

    def goes_online(self, host: H) -> bool:
        return True


class CoinStrategy(ProbabilityAware[H]):
    """Base of strategies that also toss a coin: it shows heads with probability `r`."""

    def __init__(
        self,
        draw_cap: int = 1000,
        r: float = 0.5,
        seed: int = 1,
        share: Callable[[H], float] | None = None,
        dice: Generator | None = None,
    ) -> None:
        super().__init__(draw_cap, share)
        self._r, self._dice = r, dice or default_rng(seed)
        self._due = False  # the first ball offline must come online

    def _heads(self) -> bool:
        return self._dice.random() < self._r

    def came_online(self, host: H, balls: int = 1) -> None:
        super().came_online(host, balls)
        self._due = False


class CoinAfterDraw(CoinStrategy[H]):
    """Algorithm 8: a draw, accepted with probability `r`; otherwise the first ball offline goes online."""

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        return self._queue_head() if self._due or dry else None

    def _accepts(self, host: H) -> bool:
        if self.mostly_offline or not self._heads():
            self._due = True
            return False
        return host not in self.backlog


class CoinGreedy(CoinStrategy[H]):
    """Algorithm 9: with probability `r` an acceptable draw, else the first ball offline."""

    _any = False  # offline is empty and the coin rejects new hosts: accept any draw

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        if dry:
            return self._queue_head()
        if self._refused:
            return None
        if self._heads():
            self._any = False
            return self._queue_head() if self.mostly_offline else None
        first = self._queue_head()
        self._any = first is None
        return first

    def _accepts(self, host: H) -> bool:
        return self._any or super()._accepts(host)


class GreedyThenCoin(CoinStrategy[H]):
    """Algorithm 10: acceptable draws; once most hosts are offline, one draw, then a coin, then the first ball
    offline."""

    _late = False

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        if dry or self._due:
            return self._queue_head()
        if not self._refused:
            self._late = self.mostly_offline
        return None

    def _accepts(self, host: H) -> bool:
        if not self._late:
            return super()._accepts(host)
        if self._is_new(host) or (self._heads() and host not in self.backlog):
            return True
        self._due = True
        return False


#: Algorithms 11 and 12, and 12 with the adaptation of section 8.4, as crawls take them. The search for elephants stops
#: while the number of hosts online is stable.
algorithm_11: partial[MiceAndElephants[int]] = partial(MiceAndElephants, own_queues=True, settle=2000)
algorithm_12: partial[MiceAndElephants[int]] = partial(MiceAndElephants, settle=2000)
algorithm_12_adapted: partial[MiceAndElephants[int]] = partial(MiceAndElephants, settle=2000, adapted=True)
