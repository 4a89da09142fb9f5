"""Strategies the thesis tried before mice and elephants, and gave up (Buijsrogge 2014, chapter 7).

They are Algorithms 1 to 3 and 5 to 10; the lab plays them to show why. All keep one
queue offline and call a draw acceptable when its host is neither online nor
waiting. Some may see how probable each host is, which no crawl can; some toss a
coin; none is for live use, and none guards itself against drawing for ever.

Two readings of the text: in Algorithm 6 a second ball worth having brings the first
online, since it is a queue; and in Algorithm 10 a ball whose host waits offline may
not overtake it, as the rules of the game say everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice
from typing import TypeVar

from numpy.random import Generator

from fieldmouse.policy.distribution.onequeue import OneQueue

H = TypeVar("H", bound=Hashable)

MOST = 0.99
"""When hosts offline have more than this share of all draws, new ones are too hard to find."""


class Picky(OneQueue[H]):
    """What they share: a draw is accepted only if its host is nowhere yet."""

    def __init__(self) -> None:
        super().__init__(draw_cap=1 << 62)

    def place(self, host: H) -> bool:
        return self._nowhere(host) or self._tired()

    def _nowhere(self, host: H) -> bool:
        return host not in self.online and host not in self.backlog


class SourceFirst(Picky[H]):
    """Algorithm 1: a draw; if it is turned away, the first ball offline, whatever its host."""

    def recall(self, dry: bool = False) -> H | None:
        return self._first() if self._refused or dry else None


class OfflineFirst(Picky[H]):
    """Algorithm 2: the first ball offline, whatever its host; only if there is none, draws."""

    def recall(self, dry: bool = False) -> H | None:
        return None if self._refused and not dry else self._first()


class SourceOnly(Picky[H]):
    """Algorithm 3: draws, until one is acceptable."""

    def recall(self, dry: bool = False) -> H | None:
        return self._first() if dry else None


class GreedySecond(Picky[H]):
    """Algorithm 6: the first ball offline if it or the second is of a host absent online, else draws."""

    def recall(self, dry: bool = False) -> H | None:
        if self._refused and not dry:
            return None
        first = self._first()
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


class Weighing(Picky[H]):
    """Knows how probable each host is, and so what share of the draws is of hosts offline."""

    def __init__(self, share: Callable[[H], float]) -> None:
        super().__init__()
        self._share = share
        self._offline = 0.0

    @property
    def full(self) -> bool:
        return self._offline > MOST

    def stored(self, host: H, balls: int = 1) -> None:
        if host not in self.backlog:
            self._offline += self._share(host)
        super().stored(host, balls)

    def recalled(self, host: H, balls: int = 1) -> None:
        super().recalled(host, balls)
        if host not in self.backlog:
            self._offline -= self._share(host)


class GreedyUntilFull(Weighing[H]):
    """Algorithm 5: as Algorithm 4, but once most hosts are offline the first ball there."""

    def recall(self, dry: bool = False) -> H | None:
        return self._first() if self.full else super().recall(dry)


class Coin(Picky[H]):
    """Algorithm 7: with probability `r` from the source, else from offline. Nothing ever gets there."""

    def __init__(self, r: float, dice: Generator) -> None:
        super().__init__()
        self._r, self._dice = r, dice

    def recall(self, dry: bool = False) -> H | None:
        return self._first() if dry or self._dice.random() >= self._r else None

    def place(self, host: H) -> bool:
        return True


class CoinAfterDraw(Weighing[H]):
    """Algorithm 8: a draw; with probability `r` it is accepted, else the first ball offline is."""

    def __init__(self, r: float, dice: Generator, share: Callable[[H], float]) -> None:
        super().__init__(share)
        self._r, self._dice = r, dice
        self._due = False  # the first ball offline is to come online

    def recall(self, dry: bool = False) -> H | None:
        return self._first() if self._due or dry else None

    def place(self, host: H) -> bool:
        if self.full or self._dice.random() >= self._r:
            self._due = True
            return False
        return host not in self.backlog

    def came_online(self, host: H, balls: int = 1) -> None:
        super().came_online(host, balls)
        self._due = False


class CoinGreedy(Weighing[H]):
    """Algorithm 9: with probability `r` an acceptable draw, else the first ball offline."""

    def __init__(self, r: float, dice: Generator, share: Callable[[H], float]) -> None:
        super().__init__(share)
        self._r, self._dice = r, dice
        self._any = False  # nothing is offline, and the coin wants no new host: any draw will do

    def recall(self, dry: bool = False) -> H | None:
        if dry:
            return self._first()
        if self._refused:
            return None
        if self._dice.random() < self._r:
            self._any = False
            return self._first() if self.full else None
        first = self._first()
        self._any = first is None
        return first

    def place(self, host: H) -> bool:
        return self._any or super().place(host)


class GreedyThenCoin(Weighing[H]):
    """Algorithm 10: acceptable draws; once most hosts are offline, one draw, a coin, the first ball there."""

    def __init__(self, r: float, dice: Generator, share: Callable[[H], float]) -> None:
        super().__init__(share)
        self._r, self._dice = r, dice
        self._late = self._due = False

    def recall(self, dry: bool = False) -> H | None:
        if dry or self._due:
            return self._first()
        if not self._refused:
            self._late = self.full
        return None

    def place(self, host: H) -> bool:
        if not self._late:
            return super().place(host)
        if self._nowhere(host) or (self._dice.random() < self._r and host not in self.backlog):
            return True
        self._due = True
        return False

    def came_online(self, host: H, balls: int = 1) -> None:
        super().came_online(host, balls)
        self._due = False
