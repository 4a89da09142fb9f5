"""Cached games behind the tables and figures of the thesis.

Several tables use the same games: 8.1 and 8.2 use different measures, 8.5 to 8.10 different times, and the
figures their course. Games are therefore cached by their parameters and reduced to the measures that are
used, because a full outcome has a value for every host. Mean and spread use all seeds; the course in a
figure is that of the first seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from fieldmouse_lab.catalogue import Sample, Series
from fieldmouse_lab.papers.bubing.printed import COLOURS, PLACES, SEEDS
from fieldmouse_lab.urn.exact import initial_colours
from fieldmouse_lab.urn.game import Game, GameResult
from fieldmouse_lab.urn.play import play_many
from fieldmouse_lab.urn.sources import Source, power
from fieldmouse_lab.urn.strategies import Strategy, strategy

Reals = npt.NDArray[np.float64]

Queues = Literal["per-host", "one"]

NEUTRAL = Strategy("none")

#: Points in the curve of a course.
CURVE_POINTS = 200


@dataclass(frozen=True, slots=True)
class GameCourse:
    """One game over time; `cost` is the thesis' m(t)/t, moves of the disk's head per step since time 0."""

    t: Reals
    distinct: Reals
    new: Reals
    offline: Reals
    cost: Reals

    @classmethod
    def of(cls, outcome: GameResult) -> GameCourse:
        t = outcome.times.astype(np.float64)
        cost = outcome.moves / np.maximum(t, 1.0)
        cost[t <= 0] = np.nan
        return cls(t, outcome.distinct.astype(np.float64), outcome.new, outcome.offline, cost)


def curve(label: str, t: Reals, y: Reals, style: Literal["line", "dashes"] = "line") -> Series:
    return Series(label, t.tolist(), y.tolist(), style)


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """Measures of one game over all seeds, as far as the thesis prints or draws them."""

    elephants: Mapping[int, Sample]  # by step
    share: Sample  # 1 - q: share of the source, at the end
    distinct: Sample  # colours online, over the last half
    cost: Sample  # moves of the disk's head per step
    course: GameCourse


@cache
def power_law(gamma: float, colours: int = COLOURS) -> Source:
    return power(colours, gamma)


@cache
def play_elephants(
    gamma: float,
    delta: int,
    queues: Queues,
    steps: int = 200_000,
    *,
    beta: float | None = None,
    adapted: bool = False,
    seeds: int = SEEDS,
) -> PlayedGame:
    """Play mice and elephants: an elephant has more than `delta` balls online, or is known from the start by
    `beta`."""
    played = strategy("alg12-adapted" if adapted else "alg12", delta=delta, queues=queues, beta=beta)
    marks = tuple(range(50_000, steps + 1, 50_000))
    game = Game(power_law(gamma), PLACES, steps, played, initial="strategy", checkpoints=marks)
    # Only the first course is drawn. Measuring all others as often would take longer than playing.
    drawn = play_many([replace(game, every=max(1, game.steps // CURVE_POINTS))], [1])[0]
    outcomes = drawn + play_many([game], range(2, seeds + 1))[0]
    return PlayedGame(
        {mark: _throws(outcome.elephants[outcome.index_of(mark)] for outcome in outcomes) for mark in marks},
        _throws(outcome.elephant_share for outcome in outcomes),
        _throws(outcome.distinct_mean for outcome in outcomes),
        _throws(outcome.moves[-1] / outcome.steps for outcome in outcomes),
        GameCourse.of(outcomes[0]),
    )


def _throws(values: Iterable[float]) -> Sample:
    return Sample.of([float(value) for value in values])


@dataclass(frozen=True, slots=True)
class NeutralGame:
    """Measures of the game without an offline structure: at t = K of the thesis' clock, and over the last
    half."""

    initial: Sample
    distinct: Sample
    new: Sample
    lengths: tuple[Sample, ...]  # number of colours with 0 to 5 balls online
    course: GameCourse
    lengths_course: Reals  # one row per point of the course


@cache
def play_neutral(source: Source, places: int, steps: int, seeds: int = SEEDS) -> NeutralGame:
    game = Game(source, places, steps, NEUTRAL, every=max(1, (steps + places) // CURVE_POINTS))
    outcomes = play_many([game], range(1, seeds + 1))[0]
    first = outcomes[0]
    return NeutralGame(
        _throws(outcome.distinct[outcome.index_of(0)] for outcome in outcomes),
        _throws(outcome.distinct_mean for outcome in outcomes),
        _throws(outcome.new[outcome.half_index :].mean() for outcome in outcomes),
        tuple(
            _throws(outcome.lengths[outcome.half_index :, length].mean() for outcome in outcomes)
            for length in range(first.lengths.shape[1])
        ),
        GameCourse.of(first),
        first.lengths.astype(np.float64),
    )


@cache
def play_course(
    source: Source,
    places: int,
    steps: int,
    chosen: Strategy = NEUTRAL,
    *,
    stored: int = 0,
    ceiling: float = 1.0,
    draw_cap: int = 1_000_000,
    initial: Literal["strategy", "neutral"] | None = None,
) -> GameCourse:
    """Play one game and measure it over time, from the first ball on; its clock starts at -K."""
    every = max(1, (steps + places) // CURVE_POINTS)
    game = Game(source, places, steps, chosen, initial, every, stored=stored, ceiling=ceiling, draw_cap=draw_cap)
    return GameCourse.of(play_many([game], [1])[0][0])


def expected_filling(source: Source, places: int) -> tuple[Reals, Reals, Reals]:
    """Lemma 3.2.1 for t from 1 to K: t, expected colours online, and the probability of a new colour."""
    t = np.unique(np.linspace(1, places, 41).round())
    p = source.p[source.p > 0]
    distinct = np.array([initial_colours(p, int(at)) for at in t])
    new = np.array([float(p @ (1 - p) ** at) for at in t])
    return t, distinct, new
