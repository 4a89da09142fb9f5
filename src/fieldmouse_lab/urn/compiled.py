"""Urn game player that runs the compiled kernel, for the policies that the kernel supports."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from fieldmouse_lab.urn import kernel as b
from fieldmouse_lab.urn.game import QUEUE_LENGTHS, Game, GameCounts, GameEnd, Longs
from fieldmouse_lab.urn.kernel import advance, store
from fieldmouse_lab.urn.sources import Ints, Reals

_ENDS = {b.STUCK: GameEnd.STUCK, b.FULL: GameEnd.FULL, b.DRY: GameEnd.DRY}
_COUNTS = [b.DISTINCT, b.SUM, b.NAMED, b.DRAWS, b.APPENDS, b.READS, b.MOVES, b.STORED, b.WAITING]
_FIRST_RING = 1 << 12


class CompiledPlayer:
    """Kernel state, and the operations that cannot run inside the compiled loop."""

    def __init__(self, game: Game, rules: b.KernelRules, rng: Generator) -> None:
        self._game, self._rng = game, rng
        self._board = _board(game, rules, rng)
        self._numbers = self._board.numbers

    def store(self, balls: int) -> None:
        """Draw `balls` and put them offline, before the game begins."""
        self._numbers[b.LEFT] = balls
        while self._numbers[b.LEFT]:
            store(self._rng, self._board)
            self._enlarge_ring()

    def fill(self, balls: int, neutral: bool) -> None:
        self._numbers[b.NEVER_ASK] = neutral
        self._numbers[b.FILLING] = 1
        self.advance(balls)
        self._numbers[b.FILLING] = self._numbers[b.NEVER_ASK] = 0

    def advance(self, steps: int) -> None:
        self._numbers[b.LEFT] = steps
        while self._numbers[b.LEFT] and self._numbers[b.STATE] == b.PLAYING:
            advance(self._rng, self._board)
            self._enlarge_ring()

    def _enlarge_ring(self) -> None:
        """Double the ring of the single queue if it is full."""
        ring, numbers = self._board.ring, self._numbers
        head, tail = int(numbers[b.HEAD]), int(numbers[b.TAIL])
        if tail - head < len(ring):
            return
        larger = np.empty(2 * len(ring), np.int32)
        larger[: tail - head] = np.roll(ring, -(head % len(ring)))
        numbers[b.HEAD], numbers[b.TAIL] = 0, tail - head
        self._board = self._board._replace(ring=larger)

    def permute(self, label: Ints) -> None:
        """Give host i's probability to host label[i]."""
        p = np.empty_like(self._game.source.p)
        p[label] = self._game.source.p
        p.flags.writeable = False
        self._numbers[b.PERMUTED] = 1
        self._board = self._board._replace(p=p, label=label)
        self._board.reals[b.MASS] = p[np.flatnonzero(self._board.hosts[:-1, b.BACKLOG])].sum()

    @property
    def end(self) -> GameEnd | None:
        return _ENDS.get(int(self._numbers[b.STATE]))

    @property
    def steps(self) -> int:
        return int(self._numbers[b.STEPS])

    @property
    def counts(self) -> GameCounts:
        return GameCounts(*self._numbers[_COUNTS].tolist())

    @property
    def elephants(self) -> Ints:
        return np.flatnonzero(self._board.hosts[:-1, b.ELEPHANT]).astype(np.int32)

    @property
    def p(self) -> Reals:
        return self._board.p

    @property
    def online(self) -> Longs:
        return self._board.hosts[:-1, b.ONLINE].astype(np.int64)

    @property
    def _slots(self) -> Ints:
        """Colours online."""
        return self._board.slots[: self._numbers[b.DISTINCT]]

    def chances(self) -> tuple[float, float]:
        """P_new and P_offline now."""
        board = self._board
        new = 1.0 - float(board.p[self._slots].sum())
        return new, float(board.p[np.flatnonzero(board.hosts[:-1, b.BACKLOG])].sum())

    def lengths(self) -> list[int]:
        board = self._board
        counts = np.bincount(board.hosts[self._slots, b.ONLINE], minlength=QUEUE_LENGTHS)
        return [len(board.p) - len(self._slots), *counts[1:QUEUE_LENGTHS].tolist()]

    @property
    def events(self) -> Ints:
        return self._board.events[: self._numbers[b.EVENTS]]


def _board(game: Game, rules: b.KernelRules, rng: Generator) -> b.KernelState:
    """Return an empty state. The ring has length 1 if the strategy has no single queue."""
    source = game.source
    end = source.hosts
    hosts = np.zeros((end + 1, b.COLUMNS), np.int32)
    hosts[end, b.AFTER] = hosts[end, b.BEFORE] = end
    hosts[sorted(rules.elephants), b.ELEPHANT] = 1
    numbers = np.zeros(b.NUMBERS, np.int64)
    numbers[b.KIND], numbers[b.CAPACITY], numbers[b.CAP] = rules.kind, game.capacity, game.draw_cap
    numbers[b.LIMIT], numbers[b.STOP_SEARCH], numbers[b.DEPTH] = rules.limit, rules.stop_search, rules.depth
    numbers[b.ORDERED], numbers[b.OWN_QUEUES] = rules.ordered, rules.own_queues
    numbers[b.ADAPTED], numbers[b.DRAW_CAP] = rules.adapted, rules.draw_cap
    numbers[b.BACKLOG_LIMIT], numbers[b.INDEX_LIMIT] = rules.backlog_limit, rules.index_limit
    numbers[b.WATCHED], numbers[b.NAMED], numbers[b.LAST] = game.ceiling < 1.0, len(rules.elephants), -1
    reals = np.zeros(b.REALS)
    reals[b.TOKENS] = reals[b.BURST] = rules.burst
    reals[b.BUDGET], reals[b.CEILING] = rules.budget, game.ceiling
    return b.KernelState(
        numbers=numbers,
        reals=reals,
        hosts=hosts,
        slots=np.zeros(game.capacity, np.int32),
        ring=np.zeros(_FIRST_RING if rules.ordered else 1, np.int32),
        events=np.zeros(game.events, np.int32),
        p=source.p,
        below=source.below,
        guide=source.guide,
        label=np.empty(0, np.int32),
        sequence=source.sequence(rng) if source.finite else np.empty(0, np.int32),
    )
