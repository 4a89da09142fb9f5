"""Urn game strategies by name, each built from a distribution policy.

Algorithms 1 to 12 of the thesis are available under their numbers, with the thesis' meaning of their
parameters: T* counts steps from the moment the online side is full. Policies in `POLICIES` are available
under their own names and parameters, and so is any importable policy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from fieldmouse.errors import UsageError
from fieldmouse.policy.distribution import registry
from fieldmouse.policy.distribution.registry import POLICIES, Distribution
from fieldmouse.policy.distribution.strategies import Greedy, MiceAndElephants, Neutral
from fieldmouse_lab.urn import thesis_strategies
from fieldmouse_lab.urn.sources import Source

NO_CAP = 1 << 62
"""Draw limit that is never reached: the game has its own `draw_cap`, so a policy needs none."""


class Seat(NamedTuple):
    """Inputs of a strategy before the game. The thesis lets some strategies see the source."""

    source: Source
    capacity: int
    dice: Generator

    def share(self, host: int) -> float:
        return float(self.source.p[host])


@dataclass(frozen=True, slots=True)
class Strategy:
    """Name of a strategy and the parameters that differ from the defaults. Create one with `strategy`."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """Constructor of a strategy, and the thesis' way to fill the online side before the game."""

    make: Callable[..., Distribution[int]]
    about: str
    initial: Literal["strategy", "neutral"] = "strategy"


Queues = Literal["per-host", "one"]


def _mice(default_queues: Queues, adapted: bool = False) -> Callable[..., Distribution[int]]:
    """Return a constructor of mice and elephants whose default for `queues` is `default_queues`."""

    def make(
        seat: Seat,
        *,
        delta: int = 5,
        trigger: Literal["exceeds", "reaches"] = "exceeds",
        stop_search: int | None = None,
        queues: Queues = default_queues,
        beta: float | None = None,
    ) -> Distribution[int]:
        if delta < 1:
            raise UsageError(f"with delta {delta} nothing may be online", "give a delta of 1 or more")
        if beta is not None and not beta > 0:
            raise UsageError(f"beta {beta:g} names no elephants", "give a beta above 0")
        elephants: list[int] = []
        search = None if stop_search is None else stop_search + seat.capacity
        if beta is not None:
            # Slightly lower, so that rounding does not exclude hosts whose probability is exactly 1/(beta K).
            elephants = np.flatnonzero(seat.source.p >= (1 - 1e-12) / (beta * seat.capacity)).tolist()
            search = 0
        return MiceAndElephants(
            delta,
            trigger,
            search,
            own_queues=queues == "per-host",
            draw_cap=NO_CAP,
            adapted=adapted,
            elephants=elephants,
        )

    return make


def _chance(r: float) -> float:
    if not 0.0 <= r <= 1.0:
        raise UsageError(f"r is a probability, and {r:g} is none", "give a number from 0 to 1")
    return r


STRATEGIES: dict[str, Recipe] = {
    "none": Recipe(lambda seat: Neutral(), "all that is drawn goes online"),
    "alg1": Recipe(
        lambda seat: thesis_strategies.SourceFirst(), "greedy source first, then any ball offline", "neutral"
    ),
    "alg2": Recipe(
        lambda seat: thesis_strategies.OfflineFirst(), "any ball offline, then the greedy source", "neutral"
    ),
    "alg3": Recipe(lambda seat: thesis_strategies.SourceOnly(), "the greedy source alone", "neutral"),
    "alg4": Recipe(lambda seat: Greedy(NO_CAP), "greedy offline, then the greedy source", "neutral"),
    "alg5": Recipe(
        lambda seat: thesis_strategies.GreedyUntilFull(seat.share),
        "as 4, and any ball offline once most are there",
        "neutral",
    ),
    "alg6": Recipe(
        lambda seat: thesis_strategies.GreedySecond(), "as 4, looking at two balls offline", "neutral"
    ),
    "alg7": Recipe(
        lambda seat, *, r=0.5: thesis_strategies.Coin(_chance(r), seat.dice),
        "a coin between source and offline",
        "neutral",
    ),
    "alg8": Recipe(
        lambda seat, *, r=0.5: thesis_strategies.CoinAfterDraw(_chance(r), seat.dice, seat.share),
        "draw, then a coin between that ball and the first offline",
        "neutral",
    ),
    "alg9": Recipe(
        lambda seat, *, r=0.5: thesis_strategies.CoinGreedy(_chance(r), seat.dice, seat.share),
        "a coin between the greedy source and any ball offline",
        "neutral",
    ),
    "alg10": Recipe(
        lambda seat, *, r=0.5: thesis_strategies.GreedyThenCoin(_chance(r), seat.dice, seat.share),
        "the greedy source until most are offline, then a coin",
        "neutral",
    ),
    "alg11": Recipe(_mice("per-host"), "mice and elephants, a queue per elephant"),
    "alg12": Recipe(_mice("one"), "mice and elephants, one queue: recommended by the thesis"),
    "alg12-adapted": Recipe(
        _mice("one", adapted=True), "as 12, and an elephant that is nowhere goes online (section 8.4)"
    ),
}


def names() -> list[str]:
    return [*STRATEGIES, *(name for name in POLICIES if name not in STRATEGIES)]


def recipe(name: str) -> Recipe:
    """Return the constructor of the strategy with this name; a policy keeps its own parameters."""
    if name in STRATEGIES:
        return STRATEGIES[name]
    policy = _policy(name)
    return Recipe(lambda seat, **options: policy(**options), (inspect.getdoc(policy) or "").split("\n")[0])


def options_of(name: str) -> dict[str, Any]:
    """Return the parameters of a strategy with their defaults."""
    make = STRATEGIES[name].make if name in STRATEGIES else _policy(name)
    return {
        parameter.name: parameter.default
        for parameter in inspect.signature(make).parameters.values()
        if parameter.default is not parameter.empty
    }


def _policy(name: str) -> Callable[..., Distribution[Any]]:
    if name not in POLICIES and ":" not in name:
        raise UsageError(
            f"there is no strategy `{name}`",
            f"choose one of {', '.join(names())}, or `package.module:Class` for one of your own",
        )
    return registry.strategy(name)


def strategy(name: str, **options: Any) -> Strategy:
    """Return a strategy with some of its parameters changed."""
    parameters = options_of(name)
    for option in options:
        if option not in parameters:
            has = f"it has {', '.join(parameters)}" if parameters else "it has none"
            raise UsageError(f"strategy `{name}` has no parameter `{option}`", has)
    if name not in STRATEGIES:
        registry.check(name, options)
    return Strategy(name, tuple(sorted(options.items())))


def build(chosen: Strategy, seat: Seat) -> Distribution[int]:
    """Create a new policy for one game."""
    return recipe(chosen.name).make(seat, **dict(chosen.options))
