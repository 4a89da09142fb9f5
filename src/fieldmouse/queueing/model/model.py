"""Measures of a solved model: starvation, loss, obsolescence, active fetch workers, time in the system.

All rates are sums of events, never one minus the opposite: a loss of 1e-30
is as exact as one of a half. `lambda` is the controlled rate of the paper's (9),
so that a page is dropped, obsolete or served with the three probabilities of (8),
(14) and (15), which add up to one.

Queueing model of the page buffer, and its Markov chain under a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias, TypeVar, get_args

import numpy as np

from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray, IntArray, ModelError, show_number

N = TypeVar("N", float, FloatArray)

Admission: TypeAlias = Literal["partial", "rejection", "complete"]
#: Handling of a batch with too little room: part of it is dropped, all, or (with any room) nothing.
ADMISSIONS: tuple[Admission, ...] = get_args(Admission)

Method: TypeAlias = Literal["auto", "ordered", "banded", "simulate"]
#: Solution methods that a model may ask for; `solve` says what each needs.
METHODS: tuple[Method, ...] = get_args(Method)


class WorkerCountRule(Protocol):
    """Number of fetch workers that may run at a level; `policy.concurrency_thresholds.Thresholds` is one."""

    def concurrency_at(self, level: int) -> int: ...


@dataclass(frozen=True, slots=True)
class WorkersByLevel:
    """A rule written out: how many fetch workers run at each level, whatever their order."""

    robots: tuple[int, ...]

    @classmethod
    def from_limits(cls, robots: Sequence[int], limits: Sequence[int], top: int) -> WorkersByLevel:
        """`robots[0]` up to level `limits[0]` and so on, the last up to `top`; a limit of -1 takes no level."""
        by_level: list[int] = []
        for mode, limit in zip(robots, (*limits, top), strict=True):
            by_level += [mode] * (limit + 1 - len(by_level))
        return cls(tuple(by_level))

    def concurrency_at(self, level: int) -> int:
        return self.robots[level]


@dataclass(frozen=True, eq=False)
class Model:
    """`capacity` (the paper's K) counts the page in service; `modes` has arrivals by number of fetch workers."""

    capacity: int
    modes: Mapping[int, BatchArrivals]
    service: PhaseType
    lifetime: PhaseType
    admission: Admission = "partial"

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ModelError(f"K is {show_number(self.capacity)}: there must be room for the page in service")
        if not self.modes:
            raise ModelError("modes is empty: there must be arrivals for at least one number of robots")
        if self.admission not in ADMISSIONS:
            raise ModelError(f"admission is {show_number(self.admission)}", f"it is one of {', '.join(ADMISSIONS)}")
        if self.service.is_never:
            raise ModelError("service S is all 0: no page would ever be served")
        first = min(self.modes)
        if first < 1:
            raise ModelError(f"mode {first}: a mode is named by its number of robots, 1 or more")
        for robots, arrivals in self.modes.items():
            if arrivals.phases != self.modes[first].phases:
                raise ModelError(
                    f"mode {robots} has {arrivals.phases} phases and mode {first} has "
                    f"{self.modes[first].phases}: the phase is kept when the mode changes, so all must agree"
                )
        object.__setattr__(self, "modes", dict(sorted(self.modes.items())))

    @property
    def arrival_phases(self) -> int:
        """Of the arrivals, in every mode."""
        return next(iter(self.modes.values())).phases

    @property
    def highest_level(self) -> int:
        """The highest level: the capacity, unless the last batch is let in whole."""
        if self.admission != "complete":
            return self.capacity
        return self.capacity - 1 + max(arrivals.largest_batch for arrivals in self.modes.values())

    def robots_by_level(self, rule: WorkerCountRule) -> IntArray:
        """What the rule says at each level from 0 to the highest; it must name modes of this model."""
        asked = [rule.concurrency_at(level) for level in range(self.highest_level + 1)]
        for level, robots in enumerate(asked):
            if robots not in self.modes:
                raise ModelError(
                    f"the rule sends {robots} robots at level {level}, and there is no mode {robots}",
                    f"the modes are {', '.join(map(str, self.modes))}",
                )
        return np.array(asked, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class CostWeights:
    """Weights of the cost J: dropped and obsolete pages per unit of time, response, fetch workers, starvation."""

    loss: float = 0.0
    obs: float = 0.0
    sojourn: float = 0.0
    robots: float = 0.0
    star: float = 0.0

    def total(self, *, dropped: N, obsolete: N, sojourn: N, robots: N, star: N) -> N:
        """J of the paper's (2); `dropped` and `obsolete` are pages in a unit of time. Arrays give an array.

        >>> CostWeights(loss=2.0, star=10.0).total(dropped=0.5, obsolete=0.0, sojourn=3.0, robots=4.0, star=0.1)
        2.0
        """
        return (
            self.loss * dropped + self.obs * obsolete + self.sojourn * sojourn + self.robots * robots + self.star * star
        )


@dataclass(frozen=True, eq=False)
class ArrivalsByLevel:
    """Arrivals level by level, for one mode or for the mode that a rule chooses at each.

    `up[i, l]` has the rates of changing phase at level i while l pages are let in
    (the diagonal of `up[i, 0]` is that of a generator); `brought` and `dropped` are
    pages in a unit of time, by level and phase.
    """

    up: FloatArray
    brought: FloatArray
    dropped: FloatArray


@dataclass(frozen=True, eq=False)
class Chain:
    """A model under a rule."""

    model: Model
    robots: IntArray
    arrivals: ArrivalsByLevel

    @property
    def highest_level(self) -> int:
        return self.model.highest_level


def count_states(model: Model, lifetime_phases: int) -> int:
    """Number of states when each waiting page has `lifetime_phases` phases, in order."""
    waiting = sum(int(lifetime_phases**pages) for pages in range(model.highest_level))
    return model.arrival_phases * (1 + model.service.order * waiting)


def build_chain(model: Model, rule: WorkerCountRule) -> Chain:
    robots = model.robots_by_level(rule)
    by_mode = {int(r): arrivals_for_mode(model, int(r)) for r in np.unique(robots)}
    first = next(iter(by_mode.values()))
    chosen = ArrivalsByLevel(np.empty_like(first.up), np.empty_like(first.brought), np.empty_like(first.dropped))
    for r, seen in by_mode.items():
        here = robots == r
        for part in ("up", "brought", "dropped"):
            getattr(chosen, part)[here] = getattr(seen, part)[here]
    return Chain(model, robots, chosen)


def largest_jump(model: Model) -> int:
    """How many levels one batch can climb."""
    return min(model.highest_level, max(stream.largest_batch for stream in model.modes.values()))


@lru_cache(maxsize=16)  # a search asks for the same few modes under hundreds of rules
def arrivals_for_mode(model: Model, robots: int) -> ArrivalsByLevel:
    """Arrivals when this many fetch workers run at every level; the arrays are shared and must not be changed."""
    stream = model.modes[robots]
    levels, W = model.highest_level + 1, model.arrival_phases
    up = np.zeros((levels, largest_jump(model) + 1, W, W))
    brought = np.broadcast_to(sum(k * D.sum(axis=1) for k, D in enumerate(stream.D)), (levels, W))
    dropped = np.zeros((levels, W))
    roomy = max(0, model.capacity - stream.largest_batch + 1)
    for k, D in enumerate(stream.D[: stream.largest_batch + 1]):
        if roomy:
            up[:roomy, k] = D
        for level in range(roomy, levels):
            let_in = admitted_pages(model, level, k)
            up[level, let_in] += D
            dropped[level] += (k - let_in) * D.sum(axis=1) if k else 0.0
    return ArrivalsByLevel(up, brought, dropped)


def arrivals_for_modes(model: Model, modes: Iterable[int]) -> list[ArrivalsByLevel]:
    """Arrivals by mode, each of which must be able to end an idleness."""
    found = [arrivals_for_mode(model, robots) for robots in modes]
    for robots, stream in zip(modes, found, strict=True):
        if not stream.up[0, 1:].any():
            raise ModelError(f"mode {robots} brings only batches that are larger than K and turned away")
    return found


def admitted_pages(model: Model, level: int, batch: int) -> int:
    """How many pages of a batch are let in at this level."""
    room = max(0, model.capacity - level)
    if batch <= room:
        return batch
    if model.admission == "partial":
        return room
    return batch if model.admission == "complete" and room else 0


@dataclass(frozen=True, eq=False)
class Measures:
    """`loss`, `obs` and `success` are probabilities of a page; `star` is the share of time the server idles.

    `sojourn_served` (V1) and `sojourn_obsolete` (V2, None when no page grows obsolete)
    are mean times of pages that end so; `sojourn` (V) is that of any page, a dropped one
    staying no time at all (the paper's (22)).
    """

    rate: float
    loss: float
    obs: float
    success: float
    star: float
    robots: float
    robots_distribution: dict[int, float]
    levels: FloatArray
    sojourn: float
    sojourn_served: float
    sojourn_obsolete: float | None
    method: str

    @property
    def mean_level(self) -> float:
        """L, the mean number of pages in the system; by Little's law rate x sojourn."""
        return float(np.arange(len(self.levels)) @ self.levels)


@dataclass(frozen=True, slots=True)
class PageSojournTotals:
    """Of pages that end in one way: how many in a unit of time, and the sums of their times and squares."""

    rate: float
    time: float
    square: float

    @property
    def mean(self) -> float | None:
        return self.time / self.rate if self.rate > 0 else None

    @property
    def variance(self) -> float | None:
        return None if self.mean is None else self.square / self.rate - self.mean**2


def compute_measures(
    chain: Chain,
    share: FloatArray,
    fades: FloatArray,
    served: PageSojournTotals,
    obsolete: PageSojournTotals,
    method: str,
) -> Measures:
    """`share` and `fades` by level, arrival phase and service phase; the stays in pages and their times."""
    by_phase = share.sum(axis=2)
    levels = by_phase.sum(axis=1)
    brought = float((by_phase * chain.arrivals.brought).sum())
    if served.mean is None:
        raise ModelError("no page is ever served: every batch is larger than K and turned away")
    distribution = {r: float(levels[chain.robots == r].sum()) for r in map(int, np.unique(chain.robots))}
    return Measures(
        rate=brought,
        loss=float((by_phase * chain.arrivals.dropped).sum()) / brought,
        obs=float((share * fades).sum()) / brought,
        success=float((share[1:] @ chain.model.service.exit_rates).sum()) / brought,
        star=float(levels[0]),
        robots=sum(r * p for r, p in distribution.items()),
        robots_distribution=distribution,
        levels=levels,
        sojourn=(served.time + obsolete.time) / brought,
        sojourn_served=served.mean,
        sojourn_obsolete=obsolete.mean,
        method=method,
    )


def cost_of(found: Measures, weights: CostWeights) -> float:
    """The cost J of the measures."""
    return weights.total(
        dropped=found.rate * found.loss,
        obsolete=found.rate * found.obs,
        sojourn=found.sojourn_served,
        robots=found.robots,
        star=found.star,
    )
