"""Every threshold rule of a model with its measures: the ground on which an optimum is sought.

A rule gives each level a mode, and a fuller buffer never a larger one. There are
(levels + modes - 1 over modes - 1) such rules; those of the 15 subsets of four
modes at K = 30 are 5984. With exponential lifetimes they are solved together
(`reduction`), else one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fieldmouse.queueing.model.model import Cost, Model, arrivals_for_modes, count_states
from fieldmouse.queueing.model.validation import FloatArray, IntArray, ModelError
from fieldmouse.queueing.optimise.reduction import evaluate_all_rules, rates_by_mode
from fieldmouse.queueing.solve.solve import solve
from fieldmouse.queueing.solve.waiting_page import value_of_admitted, waiting_moments

MOST = 1_000_000
"""Rules that are solved together: some seconds, and a few hundred megabytes."""

MOST_STATES = 2_000_000
"""States of ordered chains, over all rules, that are solved one after another: half a minute."""


@dataclass(frozen=True, slots=True)
class RuleByLevel:
    """A rule written out: how many robots at each level, whatever their order."""

    robots: tuple[int, ...]

    def concurrency_at(self, level: int) -> int:
        return self.robots[level]


@dataclass(frozen=True, eq=False)
class RuleTable:
    """Measures of many rules, an array for each; `peaks[rule, k]` is the highest level of mode `modes[k]`.

    Modes go from the smallest number of robots to the largest; -1 is a mode not used.
    `sojourn_obsolete` is nan where no page grows obsolete.
    """

    model: Model
    modes: tuple[int, ...]
    peaks: IntArray
    rate: FloatArray
    loss: FloatArray
    obs: FloatArray
    success: FloatArray
    star: FloatArray
    robots: FloatArray
    sojourn: FloatArray
    sojourn_served: FloatArray
    sojourn_obsolete: FloatArray
    method: str

    def __len__(self) -> int:
        return len(self.peaks)

    def cost(self, weights: Cost) -> FloatArray:
        """J of each rule."""
        return weights.total(
            dropped=self.rate * self.loss,
            obsolete=self.rate * self.obs,
            sojourn=self.sojourn_served,
            robots=self.robots,
            star=self.star,
        )

    @cached_property
    def used_modes(self) -> IntArray:
        """Which modes a rule uses, as bits."""
        return np.asarray((self.peaks >= 0) @ (1 << np.arange(len(self.modes))))

    def limits(self, rule: int, modes: Sequence[int]) -> tuple[int, ...]:
        """The rule's limits among these numbers of robots, the largest first; unused ones take no level."""
        seen = -1
        found = []
        for robots in modes[:-1]:
            seen = max(seen, int(self.peaks[rule, self.modes.index(robots)]))
            found.append(seen)
        return tuple(found)

    def by_level(self, rule: int) -> RuleByLevel:
        """The rule written out."""
        robots: list[int] = []
        for mode, peak in zip(reversed(self.modes), self.peaks[rule, ::-1], strict=True):
            robots += [mode] * (int(peak) + 1 - len(robots))
        return RuleByLevel(tuple(robots))


def count_rules(modes: int, levels: int) -> int:
    """How many rules there are."""
    return math.comb(levels + modes - 1, modes - 1)


def chosen_modes(model: Model, modes: Sequence[int] | None) -> tuple[int, ...]:
    """The numbers of robots to choose from, all of the model's when None, from the smallest."""
    chosen = tuple(sorted(model.modes if modes is None else set(modes)))
    for robots in chosen:
        if robots not in model.modes:
            raise ModelError(
                f"there is no mode {robots}", f"the modes are {', '.join(map(str, model.modes))}"
            )
    if not chosen:
        raise ModelError("no mode to choose from", "name at least one number of robots")
    return chosen


def is_small(model: Model, modes: Sequence[int] | None = None) -> bool:
    """Whether all rules of these modes can be tried."""
    count = count_rules(len(chosen_modes(model, modes)), model.top + 1)
    if model.lifetime.is_exponential:
        return count <= MOST
    return count * count_states(model, model.lifetime.order) <= MOST_STATES


def measure_all_rules(model: Model, modes: Sequence[int] | None = None) -> RuleTable:
    """All rules that use some of these modes (all of the model's when None)."""
    chosen = chosen_modes(model, modes)
    count = count_rules(len(chosen), model.top + 1)
    if not is_small(model, chosen):
        raise ModelError(
            f"{len(chosen)} modes on {model.top + 1} levels make {count:,} rules, too many to try them all",
            "name fewer modes, or a smaller K",
        )
    return _together(model, chosen, count) if model.lifetime.is_exponential else _apart(model, chosen, count)


def _together(model: Model, modes: tuple[int, ...], count: int) -> RuleTable:
    found = arrivals_for_modes(model, modes)
    levels, W, M = model.top + 1, model.phases, model.service.order
    fade = model.lifetime.rate
    ways = waiting_moments(model.service, fade, model.top)
    worth = np.concatenate([ways.served[:, :, :2], ways.obsolete[:, :, :2]], axis=2)
    # Gathered in a unit of time: time, pages brought, dropped, served and their time, obsolete and theirs,
    # idleness, robots.
    gains = np.zeros((len(modes), levels, W, M, 9))
    for mode, (robots, stream) in enumerate(zip(modes, found, strict=True)):
        gains[mode, ..., 0] = 1.0
        gains[mode, ..., 1] = stream.brought[:, :, None]
        gains[mode, ..., 2] = stream.dropped[:, :, None]
        gains[mode, ..., 3:7] = value_of_admitted(stream.up, model.service.alpha, worth)
        gains[mode, 0, ..., 7] = 1.0
        gains[mode, ..., 8] = robots
    up = np.stack([stream.up for stream in found])
    peaks, totals = np.empty((count, len(modes)), dtype=np.int64), np.empty((count, 9))
    reached = evaluate_all_rules(rates_by_mode(up, model.service, fade, gains), W, peaks, totals)
    assert reached == count
    time, brought, dropped, served, served_time, faded, faded_time, idle, robots_time = totals.T
    with np.errstate(invalid="ignore", divide="ignore"):
        return RuleTable(
            model=model,
            modes=modes,
            peaks=peaks,
            rate=brought / time,
            loss=dropped / brought,
            obs=faded / brought,
            success=served / brought,
            star=idle / time,
            robots=robots_time / time,
            sojourn=(served_time + faded_time) / brought,
            sojourn_served=served_time / served,
            sojourn_obsolete=faded_time / faded,
            method="banded",
        )


def _apart(model: Model, modes: tuple[int, ...], count: int) -> RuleTable:
    every = list(_every_rule(len(modes), model.top + 1))
    assert len(every) == count
    found = [solve(model, RuleByLevel(tuple(modes[k] for k in choice))) for choice in every]
    last = {k: np.array([_highest(choice, k) for choice in every]) for k in range(len(modes))}

    def column(name: str) -> FloatArray:
        values = [getattr(one, name) for one in found]
        return np.array([np.nan if value is None else value for value in values])

    return RuleTable(
        model,
        modes,
        np.stack([last[k] for k in range(len(modes))], axis=1),
        column("rate"),
        column("loss"),
        column("obs"),
        column("success"),
        column("star"),
        column("robots"),
        column("sojourn"),
        column("sojourn_served"),
        column("sojourn_obsolete"),
        "ordered",
    )


def _every_rule(modes: int, levels: int) -> Iterator[tuple[int, ...]]:
    """Modes by level, never rising."""

    def below(level: int, most: int) -> Iterator[tuple[int, ...]]:
        if level == levels:
            yield ()
            return
        for mode in range(most, -1, -1):
            for rest in below(level + 1, mode):
                yield (mode, *rest)

    return below(0, modes - 1)


def _highest(choice: tuple[int, ...], mode: int) -> int:
    return max((level for level, chosen in enumerate(choice) if chosen == mode), default=-1)
