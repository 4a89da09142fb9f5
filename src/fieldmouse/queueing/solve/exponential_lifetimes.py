"""Banded chain for exponential lifetimes: level, arrival phase, service phase.

If lifetimes are exponential, waiting pages are alike and only their number counts.
Levels fall by one at a time and rise by at most one batch, so the chain is a band,
and eliminating states from the top keeps it one: a buffer of a thousand pages takes
milliseconds.

The same band serves the ordered chain as its coarse view; there the rate at which
some waiting page becomes obsolete differs from state to state.
"""

from __future__ import annotations

import numpy as np

from fieldmouse.jit import jit
from fieldmouse.queueing.model.model import Chain
from fieldmouse.queueing.model.validation import FloatArray
from fieldmouse.queueing.solve.stationary import stationary_band_weights


def obsolescence_rates(chain: Chain, rate: float) -> FloatArray:
    """How often some waiting page grows obsolete, by level, arrival phase and service phase."""
    waiting = np.maximum(np.arange(chain.highest_level + 1) - 1.0, 0.0)
    shape = (chain.highest_level + 1, chain.model.arrival_phases, chain.model.service.order)
    return np.broadcast_to((waiting * rate)[:, None, None], shape).copy()


def banded_distribution(chain: Chain, fades: FloatArray) -> FloatArray:
    """Share of time by level, arrival phase and service phase; an empty system is in service phase 0."""
    rows, low = banded_rates(chain, fades)
    weights = np.empty(len(rows))
    stationary_band_weights(rows, low, weights)
    weights /= weights.sum()
    levels, W, M = fades.shape
    share = np.zeros((levels, W, M))
    share[0, :, 0] = weights[:W]
    share[1:] = weights[W:].reshape(levels - 1, W, M)
    return share


def banded_rates(chain: Chain, fades: FloatArray) -> tuple[FloatArray, int]:
    """Rates in a band, and how far it reaches down: `rows[s, t - s + low]` is the rate from state s to t."""
    up, service = chain.arrivals.up, chain.model.service
    levels, jumps, W, M = len(up), up.shape[1], up.shape[2], service.order
    low = 2 * W * M - 1
    rows = np.zeros((W + (levels - 1) * W * M, low + jumps * W * M))
    _fill_band(up, service.S, service.exit_rates, service.alpha, fades, rows, low)
    return rows, low


@jit
def _fill_band(
    up: FloatArray, S: FloatArray, leave: FloatArray, beta: FloatArray, fades: FloatArray, rows: FloatArray, low: int
) -> None:
    """Write the rate from state s to state t at `rows[s, t - s + low]`."""
    levels, jumps, W = up.shape[:3]
    M = len(beta)
    for level in range(levels):
        for nu in range(W):
            for m in range(M if level else 1):
                s = _state_index(level, nu, m, W, M)
                for jump in range(min(jumps, levels - level)):
                    for to in range(W):
                        rate = up[level, jump, nu, to]
                        if level or not jump:
                            rows[s, _state_index(level + jump, to, m, W, M) - s + low] += rate
                        else:
                            for start in range(M):
                                rows[s, _state_index(jump, to, start, W, M) - s + low] += rate * beta[start]
                if level:
                    for to in range(M):
                        rows[s, _state_index(level, nu, to, W, M) - s + low] += S[m, to]
                        if level > 1:
                            rows[s, _state_index(level - 1, nu, to, W, M) - s + low] += leave[m] * beta[to]
                if level > 1:
                    rows[s, _state_index(level - 1, nu, m, W, M) - s + low] += fades[level, nu, m]
                elif level:
                    rows[s, nu - s + low] += leave[m]


@jit
def _state_index(level: int, nu: int, m: int, W: int, M: int) -> int:
    """Where a state stands: the empty system first, then level by level."""
    return nu if level == 0 else W + (level - 1) * W * M + nu * M + m
