"""Fate of a waiting page with an exponential lifetime: probability of service and time in the system.

Under first come, first served nothing that arrives later matters to a page. With
an exponential lifetime its fate depends only on the pages ahead of it (the one in
service included) and the phase of service, so one table serves every rule, every
mode and every level: the paper's vectors v and w (section 5), without the
transforms. Nothing is subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmouse.compiled import compiled
from fieldmouse.queueing.model.entries import FloatArray
from fieldmouse.queueing.model.ph import PhaseType
from fieldmouse.queueing.solve.stationary import passage


@dataclass(frozen=True, eq=False)
class Journey:
    """By pages ahead and service phase: `[n, m, k]` is E[T^k; it ends so] for k = 0, 1, 2."""

    served: FloatArray
    obsolete: FloatArray


def journey(service: PhaseType, fade: float, longest: int) -> Journey:
    """Journeys that begin with 0 to `longest` - 1 pages ahead; waiting pages grow obsolete at rate `fade`."""
    M = service.order
    ways = Journey(np.zeros((longest, M, 3)), np.zeros((longest, M, 3)))
    room = np.empty((M, M)), np.empty((M, M + 1))
    _journey(service.S, service.exit, service.alpha, fade, ways.served, ways.obsolete, *room)
    return ways


def welcomed(up: FloatArray, beta: FloatArray, worth: FloatArray) -> FloatArray:
    """What pages let in are worth, in a unit of time, by level, arrival phase, service phase and kind.

    `worth[n, m, kind]` is what a page is worth that finds n ahead and service in phase
    m; the l-th page of a batch finds the l - 1 before it too.
    """
    total = np.zeros((len(up), up.shape[2], len(beta), worth.shape[2]))
    _welcomed(up, beta, worth, total, np.empty(worth.shape[1:]))
    return total


@compiled
def _journey(
    S: FloatArray,
    leave: FloatArray,
    beta: FloatArray,
    fade: float,
    served: FloatArray,
    obsolete: FloatArray,
    rates: FloatArray,
    stay: FloatArray,
) -> None:
    M = len(beta)
    for ahead in range(len(served)):
        for m in range(M):
            for to in range(M):
                rates[m, to] = S[m, to]
                stay[m, to + 1] = 1.0 if to == m else 0.0
            stay[m, 0] = leave[m] + ahead * fade
        # Column m + 1 becomes the expected time in phase m before this number of pages ahead changes.
        passage(rates, stay, 1)
        for k in range(3):
            for m in range(M):
                for at in range(M):
                    time = stay[m, at + 1]
                    if k:
                        served[ahead, m, k] += time * k * served[ahead, at, k - 1]
                        obsolete[ahead, m, k] += time * k * obsolete[ahead, at, k - 1]
                    elif ahead:
                        obsolete[ahead, m, 0] += time * fade
                    else:
                        served[ahead, m, 0] += time * leave[at]
                    if not ahead:
                        continue
                    others = (ahead - 1) * fade
                    served[ahead, m, k] += time * others * served[ahead - 1, at, k]
                    obsolete[ahead, m, k] += time * others * obsolete[ahead - 1, at, k]
                    for start in range(M):
                        next_served = leave[at] * beta[start]
                        served[ahead, m, k] += time * next_served * served[ahead - 1, start, k]
                        obsolete[ahead, m, k] += time * next_served * obsolete[ahead - 1, start, k]


@compiled
def _welcomed(
    up: FloatArray, beta: FloatArray, worth: FloatArray, total: FloatArray, sums: FloatArray
) -> None:
    levels, jumps, W = up.shape[:3]
    M, kinds = len(beta), worth.shape[2]
    for level in range(levels):
        for m in range(M):
            for k in range(kinds):
                sums[m, k] = 0.0
        for jump in range(1, min(jumps, levels - level)):
            ahead = level + jump - 1
            for k in range(kinds):
                for m in range(M):
                    if level:
                        sums[m, k] += worth[ahead, m, k]
                    else:
                        sums[0, k] += beta[m] * worth[ahead, m, k]
            for nu in range(W):
                rate = 0.0
                for to in range(W):
                    rate += up[level, jump, nu, to]
                for m in range(M if level else 1):
                    for k in range(kinds):
                        total[level, nu, m, k] += rate * sums[m, k]
