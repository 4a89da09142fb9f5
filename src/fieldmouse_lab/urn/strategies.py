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
from fieldmouse.policy.distribution.registry import POLICIES, DistributionPolicy
from fieldmouse.policy.distribution.single_queue_policies import (
    GreedyAbsentHostsPolicy,
    MiceAndElephants,
    NeutralPolicy,
)
from fieldmouse_lab.urn import thesis_strategies as thesis
from fieldmouse_lab.urn.sources import Source

#: Draw limit that is never reached: the game has its own `draw_cap`, so a policy needs none.
NO_CAP = 1 << 62


class StrategyInputs(NamedTuple):
    """Inputs of a strategy before the game. The thesis lets some strategies see the source."""

    source: Source
    capacity: int
    rng: Generator

    def share(self, host: int) -> float:
        return float(self.source.p[host])


@dataclass(frozen=True, slots=True)
class Strategy:
    """Name of a strategy and the parameters that differ from the defaults. Create one with `strategy`."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class StrategyFactory:
    """Constructor of a strategy, and the thesis' way to fill the online side before the game."""

    make: Callable[..., DistributionPolicy[int]]
    initial: Literal["strategy", "neutral"] = "strategy"


Queues = Literal["per-host", "one"]


def _mice(default_queues: Queues, adapted: bool = False) -> Callable[..., DistributionPolicy[int]]:
    """Return a constructor of mice and elephants whose default for `queues` is `default_queues`."""

    def make(
        seat: StrategyInputs,
        *,
        delta: int = 5,
        trigger: Literal["exceeds", "reaches"] = "exceeds",
        stop_search: int | None = None,
        queues: Queues = default_queues,
        beta: float | None = None,
    ) -> DistributionPolicy[int]:
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
        own_queues = queues == "per-host"
        return MiceAndElephants(
            delta, trigger, search, own_queues=own_queues, draw_cap=NO_CAP, adapted=adapted, elephants=elephants
        )

    return make


def _coin(make: Callable[..., DistributionPolicy[int]], seat: StrategyInputs, r: float, **more: Any) -> Any:
    if not 0.0 <= r <= 1.0:
        raise UsageError(f"r is a probability, and {r:g} is none", "give a number from 0 to 1")
    return make(NO_CAP, r, dice=seat.rng, **more)


STRATEGIES: dict[str, StrategyFactory] = {
    "none": StrategyFactory(lambda seat: NeutralPolicy()),
    "alg1": StrategyFactory(lambda seat: thesis.SourceFirst(NO_CAP), "neutral"),
    "alg2": StrategyFactory(lambda seat: thesis.OfflineFirst(NO_CAP), "neutral"),
    "alg3": StrategyFactory(lambda seat: thesis.SourceOnly(NO_CAP), "neutral"),
    "alg4": StrategyFactory(lambda seat: GreedyAbsentHostsPolicy(NO_CAP), "neutral"),
    "alg5": StrategyFactory(lambda seat: thesis.GreedyUntilFull(NO_CAP, seat.share), "neutral"),
    "alg6": StrategyFactory(lambda seat: thesis.GreedySecond(NO_CAP), "neutral"),
    "alg7": StrategyFactory(lambda seat, *, r=0.5: _coin(thesis.CoinSourceOrOffline, seat, r), "neutral"),
    "alg8": StrategyFactory(lambda seat, *, r=0.5: _coin(thesis.CoinAfterDraw, seat, r, share=seat.share), "neutral"),
    "alg9": StrategyFactory(lambda seat, *, r=0.5: _coin(thesis.CoinGreedy, seat, r, share=seat.share), "neutral"),
    "alg10": StrategyFactory(lambda seat, *, r=0.5: _coin(thesis.GreedyThenCoin, seat, r, share=seat.share), "neutral"),
    "alg11": StrategyFactory(_mice("per-host")),
    "alg12": StrategyFactory(_mice("one")),
    # As 12, and an elephant that is neither online nor offline goes online (section 8.4).
    "alg12-adapted": StrategyFactory(_mice("one", adapted=True)),
}


def strategy_names() -> list[str]:
    return [*STRATEGIES, *(name for name in POLICIES if name not in STRATEGIES)]


def strategy_factory(name: str) -> StrategyFactory:
    """Return the constructor of the strategy with this name; a policy keeps its own parameters."""
    if name in STRATEGIES:
        return STRATEGIES[name]
    policy = _policy(name)
    return StrategyFactory(lambda seat, **options: policy(**options))


def strategy_parameters(name: str) -> dict[str, Any]:
    """Return the parameters of a strategy with their defaults."""
    make = STRATEGIES[name].make if name in STRATEGIES else _policy(name)
    return {
        parameter.name: parameter.default
        for parameter in inspect.signature(make).parameters.values()
        if parameter.default is not parameter.empty
    }


def _policy(name: str) -> Callable[..., DistributionPolicy[Any]]:
    if name not in POLICIES and ":" not in name:
        raise UsageError(
            f"there is no strategy `{name}`",
            f"choose one of {', '.join(strategy_names())}, or `package.module:Class` for one of your own",
        )
    return registry.find_policy_class(name)


def strategy(name: str, **options: Any) -> Strategy:
    """Return a strategy with some of its parameters changed."""
    parameters = strategy_parameters(name)
    for option in options:
        if option not in parameters:
            has = f"it has {', '.join(parameters)}" if parameters else "it has none"
            raise UsageError(f"strategy `{name}` has no parameter `{option}`", has)
    if name not in STRATEGIES:
        registry.check_parameters(name, options)
    return Strategy(name, tuple(sorted(options.items())))


def build_policy(chosen: Strategy, seat: StrategyInputs) -> DistributionPolicy[int]:
    """Create a new policy for one game."""
    return strategy_factory(chosen.name).make(seat, **dict(chosen.options))
