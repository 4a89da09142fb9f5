"""Urn game player in pure Python, for any policy.

It calls the policy for every decision and reports every event to it, one ball at a time. A new strategy
needs no other code. It plays a few hundred thousand balls per second.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.random import Generator

from fieldmouse.policy.distribution.registry import DistributionPolicy
from fieldmouse_lab.urn.game import QUEUE_LENGTHS, Game, GameCounts, GameEnd, Longs
from fieldmouse_lab.urn.kernel import DRAWN_OFFLINE, DRAWN_ONLINE, LEFT_ONLINE, RECALLED
from fieldmouse_lab.urn.sources import Ints


class PurePlayer:
    """Balls online and offline by colour, and the counts that are measured."""

    def __init__(self, game: Game, policy: DistributionPolicy[int], rng: Generator) -> None:
        self._game, self._policy, self._rng = game, policy, rng
        source = game.source
        self.p, self._draw = source.p, source.draw
        self._label: Ints | None = None
        self._remaining: list[int] | None = source.sequence(rng).tolist()[::-1] if source.finite else None
        self._one_queue = bool(getattr(policy, "ordered", False))
        self._online: Counter[int] = Counter()
        self._slots: list[int] = []  # colours online
        self._place: dict[int, int] = {}  # place of each colour in that list
        self._backlog: Counter[int] = Counter()
        self._balls = 0
        self._mass = 0.0  # probability of the colours offline, compared with the game's `ceiling`
        self._head = -1
        self._events: list[int] = []
        self.end: GameEnd | None = None
        self.steps = self.sum = self.draws = self.appends = self.reads = self.moves = 0

    def store(self, balls: int) -> None:
        """Draw `balls` and put them offline, before the game begins."""
        for _ in range(balls):
            colour = self._draw_colour()
            if colour is None:
                return
            self._put_offline(colour)

    def fill(self, balls: int, neutral: bool) -> None:
        for _ in range(balls):
            if self._balls < self._game.capacity:
                self._refill(neutral)
            if self.end is GameEnd.STUCK:
                return
            self._end_step()

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            if not self._slots:
                self.end = GameEnd.DRY
                return
            self._remove(self.choose())
            while self._balls < self._game.capacity and self._refill(False):
                pass
            if self.end is GameEnd.STUCK:
                return
            self.steps += 1
            self._end_step()
            if self.end is not None:
                return

    def choose(self) -> int:
        """Choose the colour that loses a ball, with the same probability for each colour online."""
        return self._slots[int(self._rng.random() * len(self._slots))]

    def permute(self, label: Ints) -> None:
        """Give host i's probability to host label[i]."""
        self._label = label
        self.p = np.empty_like(self._game.source.p)
        self.p[label] = self._game.source.p
        self._mass = float(self.p[sorted(self._backlog)].sum()) if self._backlog else 0.0

    def _end_step(self) -> None:
        self.sum += len(self._slots)
        if self._game.ceiling < 1.0 and self._mass > self._game.ceiling:
            self.end = GameEnd.FULL

    def _draw_colour(self) -> int | None:
        if self._remaining is not None:
            if not self._remaining:
                return None
            colour = self._remaining.pop()
        else:
            colour = self._draw(self._rng)
            if self._label is not None:
                colour = int(self._label[colour])
        self.draws += 1
        return colour

    def _refill(self, neutral: bool) -> bool:
        """Put one ball online; return False if there is none or none is accepted."""
        policy = self._policy
        for _ in range(self._game.draw_cap):
            colour = None if neutral else policy.next_queue_to_read()
            if colour is None:
                colour = self._draw_colour()
                if colour is not None:
                    if neutral or policy.goes_online(colour):
                        self._record(colour, DRAWN_ONLINE)
                        self._put_online(colour)
                        return True
                    self._put_offline(colour)
                    continue
                colour = policy.next_queue_to_read(dry=True)
                if colour is None:
                    return False
            self._recall(colour)
            return True
        colour = None if neutral else policy.next_queue_to_read()
        if colour is None:
            self.end = GameEnd.STUCK
            return False
        self._recall(colour)
        return True

    def _put_online(self, colour: int) -> None:
        if not self._online[colour]:
            self._place[colour] = len(self._slots)
            self._slots.append(colour)
        self._online[colour] += 1
        self._balls += 1
        self._policy.came_online(colour)

    def _remove(self, colour: int) -> None:
        self._record(colour, LEFT_ONLINE)
        self._balls -= 1
        self._online[colour] -= 1
        if not self._online[colour]:
            del self._online[colour]
            last = self._slots.pop()
            hole = self._place.pop(colour)
            if last != colour:
                self._slots[hole] = last
                self._place[last] = hole
        self._policy.left_online(colour)

    def _put_offline(self, colour: int) -> None:
        self._record(colour, DRAWN_OFFLINE)
        self._move_head(colour)
        self.appends += 1
        if not self._backlog[colour]:
            self._mass += self.p[colour]
        self._backlog[colour] += 1
        self._policy.added_to_queue(colour)

    def _recall(self, colour: int) -> None:
        self._record(colour, RECALLED)
        self._move_head(colour)
        self.reads += 1
        self._backlog[colour] -= 1
        if not self._backlog[colour]:
            del self._backlog[colour]
            self._mass -= self.p[colour]
        self._policy.read_from_queue(colour)
        self._put_online(colour)

    def _move_head(self, colour: int) -> None:
        queue = 0 if self._one_queue else colour
        if queue != self._head:
            self._head = queue
            self.moves += 1

    def _record(self, colour: int, kind: int) -> None:
        if len(self._events) < self._game.events:
            self._events.append(colour * 4 + kind)

    @property
    def counts(self) -> GameCounts:
        named, backlog = len(self.elephants), self.appends - self.reads
        totals = (self.draws, self.appends, self.reads, self.moves)
        return GameCounts(len(self._slots), self.sum, named, *totals, backlog, len(self._backlog))

    @property
    def elephants(self) -> Ints:
        return np.array(sorted(getattr(self._policy, "elephants", ())), np.int32)

    @property
    def online(self) -> Longs:
        counts = np.zeros(len(self.p), np.int64)
        counts[self._slots] = [self._online[colour] for colour in self._slots]
        return counts

    def chances(self) -> tuple[float, float]:
        """P_new and P_offline now."""
        new = 1.0 - float(self.p[self._slots].sum())
        return new, float(self.p[sorted(self._backlog)].sum())

    def lengths(self) -> list[int]:
        counts_by_length = Counter(self._online.values())
        return [len(self.p) - len(self._slots), *(counts_by_length[length] for length in range(1, QUEUE_LENGTHS))]

    @property
    def events(self) -> Ints:
        return np.array(self._events, np.int32)
