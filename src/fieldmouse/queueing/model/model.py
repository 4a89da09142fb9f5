"""Queueing model: a buffer, arrivals by number of fetch workers, service, lifetime, cost.

The system of Avrachenkov et al. (2011), section 2. Fetch workers bring pages in batches.
The arrivals depend on how many of them work, and that depends on the level, which counts
the pages in the buffer and the one in service. One server takes pages in the order
of arrival. A page that waits longer than its lifetime is obsolete and leaves; a
page in service no longer ages. A page that finds no room is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar, get_args

import numpy as np

from fieldmouse.queueing.model.bmap import BatchArrivals
from fieldmouse.queueing.model.entries import FloatArray, IntArray, ModelError, show
from fieldmouse.queueing.model.ph import PhaseType

N = TypeVar("N", float, FloatArray)

Admission: TypeAlias = Literal["partial", "rejection", "complete"]
ADMISSIONS: tuple[Admission, ...] = get_args(Admission)
"""Handling of a batch with too little room: part of it is dropped, all, or (with any room) nothing."""

Method: TypeAlias = Literal["auto", "ordered", "banded", "simulate"]
METHODS: tuple[Method, ...] = get_args(Method)
"""Solution methods that a model may ask for; `solve` says what each needs."""


class Rule(Protocol):
    """How many robots may work at a level; `policy.thresholds.Thresholds` is one."""

    def robots_at(self, level: int) -> int: ...


@dataclass(frozen=True, eq=False)
class Model:
    """`capacity` (the paper's K) counts the page in service; `modes` has arrivals by number of robots."""

    capacity: int
    modes: Mapping[int, BatchArrivals]
    service: PhaseType
    lifetime: PhaseType
    admission: Admission = "partial"

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ModelError(f"K is {show(self.capacity)}: there must be room for the page in service")
        if not self.modes:
            raise ModelError("modes is empty: there must be arrivals for at least one number of robots")
        if self.admission not in ADMISSIONS:
            raise ModelError(f"admission is {show(self.admission)}", f"it is one of {', '.join(ADMISSIONS)}")
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
    def phases(self) -> int:
        """Of the arrivals, in every mode."""
        return next(iter(self.modes.values())).phases

    @property
    def top(self) -> int:
        """The highest level: the capacity, unless the last batch is let in whole."""
        if self.admission != "complete":
            return self.capacity
        return self.capacity - 1 + max(arrivals.largest for arrivals in self.modes.values())

    def robots_by_level(self, rule: Rule) -> IntArray:
        """What the rule says at each level from 0 to the highest; it must name modes of this model."""
        asked = [rule.robots_at(level) for level in range(self.top + 1)]
        for level, robots in enumerate(asked):
            if robots not in self.modes:
                raise ModelError(
                    f"the rule sends {robots} robots at level {level}, and there is no mode {robots}",
                    f"the modes are {', '.join(map(str, self.modes))}",
                )
        return np.array(asked, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Cost:
    """Weights of the cost J: dropped and obsolete pages per unit of time, response, robots, starvation."""

    loss: float = 0.0
    obs: float = 0.0
    sojourn: float = 0.0
    robots: float = 0.0
    star: float = 0.0

    def of(self, *, dropped: N, obsolete: N, sojourn: N, robots: N, star: N) -> N:
        """J of the paper's (2); `dropped` and `obsolete` are pages in a unit of time. Arrays give an array.

        >>> Cost(loss=2.0, star=10.0).of(dropped=0.5, obsolete=0.0, sojourn=3.0, robots=4.0, star=0.1)
        2.0
        """
        return (
            self.loss * dropped
            + self.obs * obsolete
            + self.sojourn * sojourn
            + self.robots * robots
            + self.star * star
        )
