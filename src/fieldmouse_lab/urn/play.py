"""Urn game runs: fill, play the steps, permute the source, and take measures at the requested times.

The same seed gives the same game with the pure and the compiled player.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Protocol

import numpy as np
from numpy.random import Generator, default_rng

from fieldmouse.policy.distribution.registry import DistributionPolicy
from fieldmouse_lab.urn.compiled import CompiledPlayer
from fieldmouse_lab.urn.game import Game, GameCounts, GameEnd, GameResult, Longs
from fieldmouse_lab.urn.kernel import kernel_rules
from fieldmouse_lab.urn.pure import PurePlayer
from fieldmouse_lab.urn.sources import Ints, Reals
from fieldmouse_lab.urn.strategies import StrategyInputs, build_policy, strategy_factory


class GamePlayer(Protocol):
    """Player of one game."""

    @property
    def end(self) -> GameEnd | None: ...
    @property
    def steps(self) -> int: ...
    @property
    def counts(self) -> GameCounts: ...
    @property
    def elephants(self) -> Ints: ...
    @property
    def online(self) -> Longs: ...
    @property
    def p(self) -> Reals: ...
    @property
    def events(self) -> Ints: ...
    def chances(self) -> tuple[float, float]: ...
    def lengths(self) -> list[int]: ...
    def store(self, balls: int) -> None: ...
    def fill(self, balls: int, neutral: bool) -> None: ...
    def advance(self, steps: int) -> None: ...
    def permute(self, label: Ints) -> None: ...


def play(game: Game, seed: int) -> GameResult:
    """Play with the compiled kernel if it supports the strategy, else in pure Python."""
    rng = default_rng(seed)
    policy = _policy(game, rng)
    rules = kernel_rules(policy)
    table = PurePlayer(game, policy, rng) if rules is None else CompiledPlayer(game, rules, rng)
    return _play(game, table, rng)


def play_pure(game: Game, seed: int) -> GameResult:
    """Play in pure Python, even if the kernel supports the strategy."""
    return play_with(PurePlayer, game, seed)


def play_with(
    table: Callable[[Game, DistributionPolicy[int], Generator], GamePlayer], game: Game, seed: int
) -> GameResult:
    """Play with a player of this kind, which may change the rules."""
    rng = default_rng(seed)
    return _play(game, table(game, _policy(game, rng), rng), rng)


def _policy(game: Game, rng: Generator) -> DistributionPolicy[int]:
    """Create the policy with a generator that is separate from the game's, so that it does not change the
    draws."""
    return build_policy(game.strategy, StrategyInputs(game.source, game.capacity, rng.spawn(1)[0]))


def play_many(games: Sequence[Game], seeds: Sequence[int], jobs: int = 2) -> list[list[GameResult]]:
    """Play every game with every seed; return one row per game, in the given order.

    Kernels release the interpreter lock, so two threads use two cores. The longest games start first.
    """
    outcomes: dict[tuple[int, int], GameResult] = {}
    with ThreadPoolExecutor(jobs) as pool:
        order = sorted(range(len(games)), key=lambda number: -games[number].steps)
        runs = {
            pool.submit(play, games[number], seed): (number, place)
            for number in order
            for place, seed in enumerate(seeds)
        }
        try:
            for run in as_completed(runs):
                outcomes[runs[run]] = run.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [[outcomes[number, place] for place in range(len(seeds))] for number in range(len(games))]


def _play(game: Game, table: GamePlayer, rng: Generator) -> GameResult:
    every = game.source.permute_every
    neutral = (game.initial or strategy_factory(game.strategy.name).initial) == "neutral"
    measured = GameMeasurer()
    now = -game.capacity
    table.store(game.stored)
    for time in game.times:
        while now < time and table.end is None:
            if now < 0:
                table.fill(time - now, neutral)
                now = time
                continue
            if every and now and now % every == 0:
                table.permute(rng.permutation(game.source.hosts).astype(np.int32))
            stop = min(time, now + every - now % every) if every else time
            table.advance(stop - now)
            now = stop
        if table.end is not None:
            # Stuck during the filling: no step was played, so the measures are those of time 0.
            measured.measure(table.steps, table)
            break
        measured.measure(time, table)
    return measured.outcome(table)


class GameMeasurer:
    """Measures collected as rows, one per time, and returned as the columns of an outcome."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._chances: list[tuple[float, float]] = []
        self._lengths: list[list[int]] = []

    def measure(self, time: int, table: GamePlayer) -> None:
        if self._rows and self._rows[-1][0] == time:
            del self._rows[-1], self._chances[-1], self._lengths[-1]
        self._rows.append((time, *table.counts))
        self._chances.append(table.chances())
        self._lengths.append(table.lengths())

    def outcome(self, table: GamePlayer) -> GameResult:
        times, *columns = np.array(self._rows, np.int64).T
        counts = dict(zip(GameCounts._fields, columns, strict=True))
        total = counts.pop("sum")
        new, offline = np.array(self._chances).T
        lasted = np.diff(times)
        between = np.concatenate(([float(counts["distinct"][0])], np.diff(total) / np.maximum(lasted, 1)))
        return GameResult(
            end=table.end or GameEnd.STEPS,
            steps=table.steps,
            times=times,
            distinct_between=between,
            new=new,
            offline=offline,
            **counts,
            lengths=np.array(self._lengths, np.int64),
            elephant_hosts=table.elephants,
            online=table.online,
            p=table.p,
            events=table.events,
        )
