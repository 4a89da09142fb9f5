"""Markov chain of a model under a rule: the transitions at each level and their rates.

Levels count the pages in the system. A level takes its arrivals from the
number of fetch workers that the rule allows there, so that the chain holds for any rule. Batches
that find too little room are already cut to the admitted pages; the phase of the
arrivals changes all the same. A chain does not contain the lifetimes of pages:
`banded` and `ordered` differ in that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fieldmouse.queueing.model.entries import FloatArray, IntArray, ModelError
from fieldmouse.queueing.model.model import Model, Rule


@dataclass(frozen=True, eq=False)
class Arrivals:
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
    arrivals: Arrivals

    @property
    def top(self) -> int:
        return self.model.top


def states(model: Model, lifetime_phases: int) -> int:
    """Number of states when each waiting page has `lifetime_phases` phases, in order."""
    waiting = sum(int(lifetime_phases**pages) for pages in range(model.top))
    return model.phases * (1 + model.service.order * waiting)


def chain(model: Model, rule: Rule) -> Chain:
    robots = model.robots_by_level(rule)
    by_mode = {int(r): arrivals(model, int(r)) for r in np.unique(robots)}
    first = next(iter(by_mode.values()))
    chosen = Arrivals(np.empty_like(first.up), np.empty_like(first.brought), np.empty_like(first.dropped))
    for r, seen in by_mode.items():
        here = robots == r
        chosen.up[here], chosen.brought[here], chosen.dropped[here] = (
            seen.up[here],
            seen.brought[here],
            seen.dropped[here],
        )
    return Chain(model, robots, chosen)


def reach(model: Model) -> int:
    """How many levels one batch can climb."""
    return min(model.top, max(stream.largest for stream in model.modes.values()))


@lru_cache(maxsize=16)  # a search asks for the same few modes under hundreds of rules
def arrivals(model: Model, robots: int) -> Arrivals:
    """Arrivals when this many robots work at every level; the arrays are shared: leave them as they are."""
    stream = model.modes[robots]
    levels, W = model.top + 1, model.phases
    up = np.zeros((levels, reach(model) + 1, W, W))
    brought = np.broadcast_to(sum(k * D.sum(axis=1) for k, D in enumerate(stream.D)), (levels, W))
    dropped = np.zeros((levels, W))
    roomy = max(0, model.capacity - stream.largest + 1)
    for k, D in enumerate(stream.D[: stream.largest + 1]):
        if roomy:
            up[:roomy, k] = D
        for level in range(roomy, levels):
            let_in = admitted(model, level, k)
            up[level, let_in] += D
            dropped[level] += (k - let_in) * D.sum(axis=1) if k else 0.0
    return Arrivals(up, brought, dropped)


def streams(model: Model, modes: Iterable[int]) -> list[Arrivals]:
    """Arrivals by mode, each of which must be able to end an idleness."""
    found = [arrivals(model, robots) for robots in modes]
    for robots, stream in zip(modes, found, strict=True):
        if not stream.up[0, 1:].any():
            raise ModelError(f"mode {robots} brings only batches that are larger than K and turned away")
    return found


def admitted(model: Model, level: int, batch: int) -> int:
    """How many pages of a batch are let in at this level."""
    room = max(0, model.capacity - level)
    if batch <= room:
        return batch
    match model.admission:
        case "partial":
            return room
        case "rejection":
            return 0
        case "complete":
            return batch if room else 0
