"""Every threshold rule of a model with its measures, each solved exactly.

A rule gives each level a mode, and a fuller buffer never a larger one. There are
(levels + modes - 1 over modes - 1) such rules; those of the 15 subsets of four
modes at K = 30 are 5984, solved in a second if lifetimes are exponential.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations_with_replacement
from operator import attrgetter

import numpy as np

from fieldmouse.queueing.model.model import CostWeights, Model, WorkersByLevel, arrivals_for_modes, count_states
from fieldmouse.queueing.model.validation import FloatArray, IntArray, ModelError
from fieldmouse.queueing.solve.solve import solve

#: Rules that are tried with exponential lifetimes, and states of their chains over all rules: half a minute.
MOST = 150_000
MOST_BANDED_STATES = 60_000_000

#: States of ordered chains, over all rules: half a minute.
MOST_STATES = 2_000_000

#: Columns of `EvaluatedRules`, named as in `Measures`.
MEASURES = ("rate", "loss", "obs", "success", "star", "robots", "sojourn", "sojourn_served", "sojourn_obsolete")


@dataclass(frozen=True, eq=False)
class EvaluatedRules:
    """Measures of many rules, an array for each; `peaks[rule, k]` is the highest level of mode `modes[k]`.

    Modes go from the smallest number of fetch workers to the largest; -1 is a mode not used.
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

    def __len__(self) -> int:
        return len(self.peaks)

    def costs(self, weights: CostWeights) -> FloatArray:
        """J of each rule."""
        return weights.total(
            dropped=self.rate * self.loss,
            obsolete=self.rate * self.obs,
            sojourn=self.sojourn_served,
            robots=self.robots,
            star=self.star,
        )

    @cached_property
    def used_mode_bits(self) -> IntArray:
        """Which modes a rule uses, as bits."""
        return np.asarray((self.peaks >= 0) @ (1 << np.arange(len(self.modes))))

    def limits_of_rule(self, rule: int, modes: Sequence[int]) -> tuple[int, ...]:
        """The rule's limits among these numbers of fetch workers, the largest first; unused ones take no level."""
        last = [int(self.peaks[rule, self.modes.index(robots)]) for robots in modes[:-1]]
        return tuple(accumulate(last, max))

    def rule_by_level(self, rule: int) -> WorkersByLevel:
        """The rule written out."""
        return WorkersByLevel.from_limits(self.modes[::-1], self.peaks[rule, :0:-1].tolist(), self.model.highest_level)


def count_rules(modes: int, levels: int) -> int:
    return math.comb(levels + modes - 1, modes - 1)


def check_modes(model: Model, modes: Sequence[int] | None) -> tuple[int, ...]:
    """The numbers of fetch workers to choose from, all of the model's when None, from the smallest."""
    chosen = tuple(sorted(model.modes if modes is None else set(modes)))
    for robots in chosen:
        if robots not in model.modes:
            raise ModelError(f"there is no mode {robots}", f"the modes are {', '.join(map(str, model.modes))}")
    if not chosen:
        raise ModelError("no mode to choose from", "name at least one number of robots")
    return chosen


def can_try_all_rules(model: Model, modes: Sequence[int] | None = None) -> bool:
    """Whether all rules of these modes can be tried."""
    count = count_rules(len(check_modes(model, modes)), model.highest_level + 1)
    if model.lifetime.is_exponential:
        return count <= MOST and count * count_states(model, 1) <= MOST_BANDED_STATES
    return count * count_states(model, model.lifetime.order) <= MOST_STATES


def measure_all_rules(model: Model, modes: Sequence[int] | None = None) -> EvaluatedRules:
    """All rules that use some of these modes (all of the model's when None)."""
    chosen = check_modes(model, modes)
    levels = model.highest_level + 1
    count = count_rules(len(chosen), levels)
    if not can_try_all_rules(model, chosen):
        raise ModelError(
            f"{len(chosen)} modes on {levels} levels make {count:,} rules, too many to try them all",
            "name fewer modes, or a smaller K",
        )
    arrivals_for_modes(model, chosen)  # refuses modes that never end an idleness
    # Modes by level, never rising.
    every = np.array(list(combinations_with_replacement(chosen[::-1], levels)))
    # Below the highest level of a mode there are only it and larger ones.
    peaks = [np.where((every == mode).any(axis=1), (every >= mode).sum(axis=1) - 1, -1) for mode in chosen]
    measures = attrgetter(*MEASURES)
    # A time of pages that never end so is None there and nan here.
    rows = [measures(solve(model, WorkersByLevel(tuple(robots)))) for robots in every.tolist()]
    columns = dict(zip(MEASURES, np.array(rows, np.float64).T, strict=True))
    return EvaluatedRules(model, chosen, np.stack(peaks, axis=1), **columns)
