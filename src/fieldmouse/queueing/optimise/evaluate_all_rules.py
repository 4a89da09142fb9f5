"""Every threshold rule of a model with its measures, evaluated at once with shared work done once.

A rule gives each level a mode, and a fuller buffer never a larger one. There are
(levels + modes - 1 over modes - 1) such rules; those of the 15 subsets of four
modes at K = 30 are 5984. With exponential lifetimes they are solved together,
else one by one.

A rule's levels fall into two parts: those from the bottom up where its largest
number of fetch workers is active, and the rest above. The effect of a visit to the upper part
(where it comes back down, and the gains until then) does not depend on the lower
part, and vice versa. So the lower part is reduced once per mode and
level, the upper parts form a tree (rules that agree on the top levels
share a branch), and a rule costs one small chain on the level where the two meet.
With two modes and K levels that is K small chains instead of K large ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations_with_replacement
from typing import NamedTuple

import numpy as np

from fieldmouse.jit import jit
from fieldmouse.queueing.model.model import CostWeights, Model, WorkersByLevel, arrivals_for_modes, count_states
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray, IntArray, ModelError
from fieldmouse.queueing.solve.solve import solve
from fieldmouse.queueing.solve.stationary import HUGE, eliminate_states, stationary_weights
from fieldmouse.queueing.solve.waiting_page import value_of_admitted_pages, waiting_moments


class RatesByMode(NamedTuple):
    """Transition rates and gains of each mode (the smallest first) at each level.

    `within[mode, level]` stays on the level, `climb[mode, level, l]` goes up by l + 1,
    `down[level]` falls by one, and `gains[mode, level, state]` is collected per unit of
    time; its first kind is time itself. A level has n states, the empty one fewer;
    entries for missing states are 0.
    """

    within: FloatArray
    climb: FloatArray
    down: FloatArray
    gains: FloatArray


def rates_by_mode(up: FloatArray, service: PhaseType, fade: float, gains: FloatArray) -> RatesByMode:
    """From `up[mode, level, l]` (see `ArrivalsByLevel`) and `gains[mode, level, nu, m]`."""
    modes, levels, _, W, _ = up.shape
    M = service.order
    n, eye, idle = W * M, np.eye(M), np.eye(W)
    spread = np.einsum("...ab,mk->...ambk", up, eye).reshape(*up.shape[:3], n, n)
    within, climb = spread[:, :, 0].copy(), spread[:, :, 1:].copy()
    within += np.kron(idle, service.S)
    within[:, 0], climb[:, 0] = 0.0, 0.0
    within[:, 0, :W, :W] = up[:, 0, 0]
    climb[:, 0, :, :W] = np.einsum("...ab,k->...abk", up[:, 0, 1:], service.alpha).reshape(modes, -1, W, n)
    down = np.zeros((levels, n, n))
    down[1, :, :W] = np.kron(idle, service.exit_rates[:, None])
    down[2:] = np.kron(idle, np.outer(service.exit_rates, service.alpha))
    down[2:] += (fade * np.arange(1, levels - 1))[:, None, None] * np.eye(n)
    flat = gains.reshape(modes, levels, n, -1).copy()
    flat[:, 0] = 0.0
    flat[:, 0, :W] = gains[:, 0, :, 0]
    return RatesByMode(within, climb, down, flat)


class EliminatedLowerLevels(NamedTuple):
    """`RatesByMode` of a mode when visits to the levels below are left out but what they gather is counted.

    `folds[mode, level]`: how often gains are divided by HUGE. A visit to the lower half
    of a large, idle buffer lasts longer than a double can say. `ceiling[mode]` is the
    highest level that the mode climbs to: where batches are let in whole, another mode's
    may go beyond.
    """

    within: FloatArray
    climb: FloatArray
    gains: FloatArray
    folds: IntArray
    ceiling: IntArray


def censor_lower_levels(given: RatesByMode, empty_states: int) -> EliminatedLowerLevels:
    within, climb, gains = given.within.copy(), given.climb.copy(), given.gains.copy()
    modes, levels, jumps, n, _ = climb.shape
    folds = np.zeros((modes, levels), dtype=np.int64)
    ceiling = np.full(modes, levels - 1)
    for mode in range(modes):
        states = empty_states
        for level in range(1, levels):
            if not climb[mode, level - 1].any():
                ceiling[mode] = level - 1
                break
            # Where the level below is left for upwards, from each of its states, and what it gathers.
            ways = climb[mode, level - 1, :, :states].transpose(1, 0, 2).reshape(states, jumps * n)
            out = np.concatenate([ways, gains[mode, level - 1, :states]], axis=1)
            eliminate_states(within[mode, level - 1, :states, :states].copy(), out, jumps * n)
            brought = given.down[level, :, :states] @ out
            within[mode, level] += brought[:, :n]
            climb[mode, level, :-1] += brought[:, n : jumps * n].reshape(n, jumps - 1, n).transpose(1, 0, 2)
            folds[mode, level] = folds[mode, level - 1]
            gains[mode, level] *= _scale_after_folds(folds[mode, level])
            gains[mode, level] += brought[:, jumps * n :]
            if gains[mode, level, :, 0].max() > HUGE:
                gains[mode, level] /= HUGE
                folds[mode, level] += 1
            states = n
    return EliminatedLowerLevels(within, climb, gains, folds, ceiling)


@jit
def _scale_after_folds(folds: int) -> float:
    """1 divided by HUGE `folds` times."""
    return 1.0 if folds <= 0 else 1.0 / HUGE if folds == 1 else 0.0


@jit
def _join_upper_part(
    within: FloatArray,
    climb: FloatArray,
    gains: FloatArray,
    own: float,
    back: FloatArray,
    bounty: FloatArray,
    theirs: float,
    chain: FloatArray,
    out: FloatArray,
) -> None:
    """A level, visits to the upper part above it left out: into `chain`, and gains at the end of `out`.

    `own` and `theirs` bring the gains of the level and of the upper part to one scale.
    """
    jumps, states, n = climb.shape
    kinds = gains.shape[1]
    for s in range(states):
        for t in range(states):
            chain[s, t] = within[s, t]
        for k in range(kinds):
            out[s, n + k] = gains[s, k] * own
        for jump in range(jumps):
            for u in range(n):
                rate = climb[jump, s, u]
                if rate == 0.0:
                    continue
                for t in range(states):
                    chain[s, t] += rate * back[jump, u, t]
                for k in range(kinds):
                    out[s, n + k] += rate * theirs * bounty[jump, u, k]


@jit
def _extend_upper_part(
    out: FloatArray, back: FloatArray, bounty: FloatArray, folds: int, new_back: FloatArray, new_bounty: FloatArray
) -> int:
    """Add a level to an upper part: `out` has its destinations below and its gains before.

    `back[l]` and `bounty[l]`: from l + 1 levels above, where this level is entered
    when the upper part is left, and the gains until then; the new ones say the same for
    the level below. Returns how often the new gains are divided by HUGE.
    """
    jumps, n, kinds = bounty.shape
    new_back[0], new_bounty[0] = out[:, :n], out[:, n:]
    for jump in range(1, jumps):
        new_back[jump] = 0.0
        new_bounty[jump] = bounty[jump - 1]
        for s in range(n):
            for u in range(n):
                way = back[jump - 1, s, u]
                for t in range(n):
                    new_back[jump, s, t] += way * out[u, t]
                for k in range(kinds):
                    new_bounty[jump, s, k] += way * out[u, n + k]
    if out[:, n].max() <= HUGE:
        return folds
    new_bounty /= HUGE
    return folds + 1


@jit
def evaluate_all_rules(
    given: RatesByMode, low: EliminatedLowerLevels, empty_states: int, peaks: IntArray, totals: FloatArray
) -> int:
    """Evaluate every rule in which a higher level never has a larger mode; returns their number.

    For each, `peaks[rule, mode]` becomes the highest level of the mode (-1:
    nowhere) and `totals[rule]` the gains, to be divided by its time. The walk goes over the
    tree of upper parts, from the top level down, and under each node over all lower parts.
    """
    modes, levels, jumps, n, _ = given.climb.shape
    kinds = given.gains.shape[3]
    back, bounty = np.zeros((levels + 1, jumps, n, n)), np.zeros((levels + 1, jumps, n, kinds))
    folds, choice = np.zeros(levels + 1, np.int64), np.full(levels + 1, -1)
    highest = np.full((levels + 1, modes), -1)
    chain, out, weights = np.zeros((n, n)), np.zeros((n, n + kinds)), np.zeros(n)
    count, level = 0, levels
    while True:
        # The upper part begins at `level`; at first it is none.
        mode = choice[level]
        for lower in range(mode + 1, modes):
            # Above its ceiling a lower part meets nothing: it ends there.
            meet = min(level - 1, low.ceiling[lower])
            states = n if meet else empty_states
            theirs = low.folds[lower, meet] - folds[meet]
            within = low.within[lower, meet, :states, :states]
            level_below = within, low.climb[lower, meet, :, :states], low.gains[lower, meet, :states]
            upper = back[meet], bounty[meet], _scale_after_folds(theirs)
            _join_upper_part(*level_below, _scale_after_folds(-theirs), *upper, chain[:states, :states], out[:states])
            stationary_weights(chain, weights[:states])
            for k in range(kinds):
                totals[count, k] = 0.0
                for s in range(states):
                    totals[count, k] += weights[s] * out[s, n + k]
            peaks[count] = highest[level]
            peaks[count, lower] = level - 1
            count += 1
        if level > 1:
            level -= 1
            choice[level] = mode - 1 if mode > 0 else -1
        while level < levels and choice[level] >= modes - 2:
            level += 1
        if level == levels:
            return count
        choice[level] += 1
        mode = choice[level]
        here = given.within[mode, level], given.climb[mode, level], given.gains[mode, level]
        _join_upper_part(*here, _scale_after_folds(int(folds[level])), back[level], bounty[level], 1.0, chain, out)
        out[:, :n] = given.down[level]
        eliminate_states(chain, out, n)
        below = back[level - 1], bounty[level - 1]
        folds[level - 1] = _extend_upper_part(out, back[level], bounty[level], int(folds[level]), *below)
        highest[level] = highest[level + 1]
        if highest[level, mode] < 0:
            highest[level, mode] = level


#: Rules that are solved together: some seconds, and a few hundred megabytes.
MOST = 1_000_000

#: States of ordered chains, over all rules, that are solved one after another: half a minute.
MOST_STATES = 2_000_000


#: Columns of a `EvaluatedRules`, named as in `Measures`.
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
    method: str

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
        return count <= MOST
    return count * count_states(model, model.lifetime.order) <= MOST_STATES


def measure_all_rules(model: Model, modes: Sequence[int] | None = None) -> EvaluatedRules:
    """All rules that use some of these modes (all of the model's when None)."""
    chosen = check_modes(model, modes)
    count = count_rules(len(chosen), model.highest_level + 1)
    if not can_try_all_rules(model, chosen):
        raise ModelError(
            f"{len(chosen)} modes on {model.highest_level + 1} levels make {count:,} rules, too many to try them all",
            "name fewer modes, or a smaller K",
        )
    solve_all = _solve_together if model.lifetime.is_exponential else _solve_one_by_one
    return solve_all(model, chosen, count)


def _solve_together(model: Model, modes: tuple[int, ...], count: int) -> EvaluatedRules:
    found = arrivals_for_modes(model, modes)
    levels, W, M = model.highest_level + 1, model.arrival_phases, model.service.order
    fade = model.lifetime.rate
    ways = waiting_moments(model.service, fade, model.highest_level)
    worth = np.concatenate([ways.served[:, :, :2], ways.obsolete[:, :, :2]], axis=2)
    # Gathered in a unit of time: time, pages brought, dropped, served and their time, obsolete and theirs,
    # idleness, fetch workers.
    gains = np.zeros((len(modes), levels, W, M, 9))
    for mode, (robots, stream) in enumerate(zip(modes, found, strict=True)):
        gains[mode, ..., 0] = 1.0
        gains[mode, ..., 1] = stream.brought[:, :, None]
        gains[mode, ..., 2] = stream.dropped[:, :, None]
        gains[mode, ..., 3:7] = value_of_admitted_pages(stream.up, model.service.alpha, worth)
        gains[mode, 0, ..., 7] = 1.0
        gains[mode, ..., 8] = robots
    up = np.stack([stream.up for stream in found])
    peaks, totals = np.empty((count, len(modes)), dtype=np.int64), np.empty((count, 9))
    given = rates_by_mode(up, model.service, fade, gains)
    reached = evaluate_all_rules(given, censor_lower_levels(given, W), W, peaks, totals)
    assert reached == count
    time, brought, dropped, served, served_time, faded, faded_time, idle, robots_time = totals.T
    with np.errstate(invalid="ignore", divide="ignore"):
        return EvaluatedRules(
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


def _solve_one_by_one(model: Model, modes: tuple[int, ...], count: int) -> EvaluatedRules:
    # Modes by level, never rising.
    every = np.array(list(combinations_with_replacement(modes[::-1], model.highest_level + 1)))
    assert len(every) == count
    found = [solve(model, WorkersByLevel(tuple(robots))) for robots in every.tolist()]
    # Modes never rise with the level: below the highest level of a mode there are only it and larger ones.
    peaks = [np.where((every == mode).any(axis=1), (every >= mode).sum(axis=1) - 1, -1) for mode in modes]
    # A time of pages that never end so is None there and nan here.
    columns = {name: np.array([getattr(one, name) for one in found], np.float64) for name in MEASURES}
    return EvaluatedRules(model, modes, np.stack(peaks, axis=1), **columns, method="ordered")
