"""Evaluation of all threshold rules of a model at once, with shared work done once.

A rule's levels fall into two parts: those from the bottom up where its largest
number of fetch workers is active, and the rest above. The effect of a visit to the upper part
(where it comes back down, and the gains until then) does not depend on the lower
part, and vice versa. So the lower part is reduced once per mode and
level, the upper parts form a tree (rules that agree on the top levels
share a branch), and a rule costs one small chain on the level where the two meet.
With two modes and K levels that is K small chains instead of K large ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmouse.jit import jit
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray, IntArray
from fieldmouse.queueing.solve.stationary import HUGE, eliminate_states, stationary_weights


@dataclass(frozen=True, eq=False)
class RatesByMode:
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
    down[1, :, :W] = np.kron(idle, service.exit[:, None])
    down[2:] = np.kron(idle, np.outer(service.exit, service.alpha))
    down[2:] += (fade * np.arange(1, levels - 1))[:, None, None] * np.eye(n)
    flat = gains.reshape(modes, levels, n, -1).copy()
    flat[:, 0] = 0.0
    flat[:, 0, :W] = gains[:, 0, :, 0]
    return RatesByMode(within, climb, down, flat)


@dataclass(frozen=True, eq=False)
class ReducedLower:
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


def reduce_lower_levels(given: RatesByMode, empty_states: int) -> ReducedLower:
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
            gains[mode, level] *= _folded(folds[mode, level])
            gains[mode, level] += brought[:, jumps * n :]
            if gains[mode, level, :, 0].max() > HUGE:
                gains[mode, level] /= HUGE
                folds[mode, level] += 1
            states = n
    return ReducedLower(within, climb, gains, folds, ceiling)


def evaluate_all_rules(given: RatesByMode, empty_states: int, peaks: IntArray, totals: FloatArray) -> int:
    """Evaluate every rule in which a higher level never has a larger mode; returns their number.

    For each, `peaks[rule, mode]` becomes the highest level of the mode (-1:
    nowhere) and `totals[rule]` the gains, to be divided by its time.
    """
    modes, levels, jumps, n, _ = given.climb.shape
    kinds = given.gains.shape[3]
    low = reduce_lower_levels(given, empty_states)
    return _walk(
        given.within,
        given.climb,
        given.down,
        given.gains,
        low.within,
        low.climb,
        low.gains,
        low.folds,
        low.ceiling,
        np.zeros((levels + 1, jumps, n, n)),
        np.zeros((levels + 1, jumps, n, kinds)),
        np.zeros(levels + 1, dtype=np.int64),
        np.full((levels + 1, modes), -1),
        np.full(levels + 1, -1),
        np.zeros((n, n)),
        np.zeros((n, n + kinds)),
        np.zeros(n),
        empty_states,
        peaks,
        totals,
    )


@jit
def _folded(folds: int) -> float:
    """1 divided by HUGE `folds` times."""
    return 1.0 if folds <= 0 else 1.0 / HUGE if folds == 1 else 0.0


@jit
def _joined(
    states: int,
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
    n, kinds, jumps = len(within), gains.shape[1], len(climb)
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
def _upper_part(
    out: FloatArray,
    back: FloatArray,
    bounty: FloatArray,
    folds: int,
    new_back: FloatArray,
    new_bounty: FloatArray,
) -> int:
    """Add a level to an upper part: `out` has its destinations below and its gains before.

    `back[l]` and `bounty[l]`: from l + 1 levels above, where this level is entered
    when the upper part is left, and the gains until then; the new ones say the same for
    the level below. Returns how often the new gains are divided by HUGE.
    """
    jumps, n, kinds = bounty.shape
    longest = 0.0
    for s in range(n):
        longest = max(longest, out[s, n])
        for t in range(n):
            new_back[0, s, t] = out[s, t]
        for k in range(kinds):
            new_bounty[0, s, k] = out[s, n + k]
    fold = longest > HUGE
    for jump in range(jumps):
        for s in range(n):
            if jump:
                for t in range(n):
                    new_back[jump, s, t] = 0.0
                for k in range(kinds):
                    new_bounty[jump, s, k] = bounty[jump - 1, s, k]
                for u in range(n):
                    way = back[jump - 1, s, u]
                    for t in range(n):
                        new_back[jump, s, t] += way * out[u, t]
                    for k in range(kinds):
                        new_bounty[jump, s, k] += way * out[u, n + k]
            if fold:
                for k in range(kinds):
                    new_bounty[jump, s, k] /= HUGE
    return folds + 1 if fold else folds


@jit
def _walk(
    within: FloatArray,
    climb: FloatArray,
    down: FloatArray,
    gains: FloatArray,
    low_within: FloatArray,
    low_climb: FloatArray,
    low_gains: FloatArray,
    low_folds: IntArray,
    ceiling: IntArray,
    back: FloatArray,
    bounty: FloatArray,
    folds: IntArray,
    highest: IntArray,
    choice: IntArray,
    chain: FloatArray,
    out: FloatArray,
    weights: FloatArray,
    empty_states: int,
    peaks: IntArray,
    totals: FloatArray,
) -> int:
    """Over the tree of upper parts, from the top level down; under each node, all lower parts."""
    modes, levels, n, kinds = gains.shape
    count, level = 0, levels
    while True:
        # The upper part begins at `level`; at first it is none.
        mode = choice[level]
        for lower in range(mode + 1, modes):
            # Above its ceiling a lower part meets nothing: it ends there.
            meet = min(level - 1, ceiling[lower])
            states = n if meet else empty_states
            theirs = low_folds[lower, meet] - folds[meet]
            _joined(
                states,
                low_within[lower, meet],
                low_climb[lower, meet],
                low_gains[lower, meet],
                _folded(-theirs),
                back[meet],
                bounty[meet],
                _folded(theirs),
                chain,
                out,
            )
            stationary_weights(chain, weights[:states])
            for k in range(kinds):
                totals[count, k] = 0.0
                for s in range(states):
                    totals[count, k] += weights[s] * out[s, n + k]
            for k in range(modes):
                peaks[count, k] = level - 1 if k == lower else highest[level, k]
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
        _joined(
            n,
            within[mode, level],
            climb[mode, level],
            gains[mode, level],
            _folded(int(folds[level])),
            back[level],
            bounty[level],
            1.0,
            chain,
            out,
        )
        for s in range(n):
            for t in range(n):
                out[s, t] = down[level, s, t]
        eliminate_states(chain, out, n)
        folds[level - 1] = _upper_part(
            out, back[level], bounty[level], int(folds[level]), back[level - 1], bounty[level - 1]
        )
        for k in range(modes):
            highest[level, k] = highest[level + 1, k]
        if highest[level, mode] < 0:
            highest[level, mode] = level
