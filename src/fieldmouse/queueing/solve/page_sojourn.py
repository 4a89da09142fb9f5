"""Outcome and waiting time of one page in the queue: served or obsolete, and after how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldmouse.jit import jit
from fieldmouse.queueing.model.model import PageSojournTotals
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray
from fieldmouse.queueing.solve.phase_type_lifetimes import (
    Array,
    LevelSolver,
    LifetimePhaseChain,
    append_page_phase,
    kronecker_power,
    obsolescence_flow,
    phase_multisets,
    sum_out_page_phase,
)
from fieldmouse.queueing.solve.stationary import eliminate_states


@dataclass(frozen=True, eq=False)
class WaitingMoments:
    """By pages ahead and service phase: `[n, m, k]` is E[T^k; it ends so] for k = 0, 1, 2."""

    served: FloatArray
    obsolete: FloatArray


def waiting_moments(service: PhaseType, fade: float, longest: int) -> WaitingMoments:
    """Journeys that begin with 0 to `longest` - 1 pages ahead; waiting pages grow obsolete at rate `fade`."""
    M = service.order
    ways = WaitingMoments(np.zeros((longest, M, 3)), np.zeros((longest, M, 3)))
    room = np.empty((M, M)), np.empty((M, M + 1))
    _fill_waiting_moments(service.S, service.exit_rates, service.alpha, fade, ways.served, ways.obsolete, *room)
    return ways


def value_of_admitted_pages(up: FloatArray, beta: FloatArray, worth: FloatArray) -> FloatArray:
    """What pages let in are worth, in a unit of time, by level, arrival phase, service phase and kind.

    `worth[n, m, kind]` is what a page is worth that finds n ahead and service in phase
    m; the l-th page of a batch finds the l - 1 before it too.
    """
    total = np.zeros((len(up), up.shape[2], len(beta), worth.shape[2]))
    _sum_admitted(up, beta, worth, total, np.empty(worth.shape[1:]))
    return total


@jit
def _fill_waiting_moments(
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
        eliminate_states(rates, stay, 1)
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


@jit
def _sum_admitted(up: FloatArray, beta: FloatArray, worth: FloatArray, total: FloatArray, sums: FloatArray) -> None:
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


def admitted_by_queue_length(ordered: LifetimePhaseChain, x: Sequence[Array]) -> list[Array]:
    """Pages let in, in a unit of time: for each number ahead, by phases (its own last) and service phase."""
    chain, at = ordered.chain, ordered.at
    service, W = chain.model.service, chain.model.arrival_phases
    # place[i, l]: how often, at level i, a batch brings an l-th page that is let in.
    place = chain.arrivals.up.sum(axis=3)[:, ::-1].cumsum(axis=1)[:, ::-1]
    found: list[Array] = []
    for ahead in range(chain.highest_level):
        total: Array | None = None
        for level in range(max(0, ahead + 1 - ordered.reach), ahead + 1):
            nth = ahead - level + 1
            if level:
                coming = np.einsum("rwm,w->rm", x[level].reshape(-1, W, service.order), place[level, nth])
            else:
                coming = (x[0] @ place[0, nth]) * service.alpha[None]
            if total is not None:
                coming = coming + (total if level == 1 else append_page_phase(total, at.start))
            total = coming
        assert total is not None
        found.append(append_page_phase(total, at.start) if ahead else total)
    return found


def laplace_moments(
    ordered: LifetimePhaseChain, newcomers: Sequence[Array], u: complex = 0.0, powers_of_time: int = 1
) -> tuple[Array, Array]:
    """E[T^k exp(-u T); served] and E[T^k exp(-u T); obsolete], in a unit of time, for k = 0, 1, ...

    u is real or complex, its real part not negative.
    """
    at, service = ordered.at, ordered.chain.model.service
    dtype = np.complex128 if np.iscomplexobj(at.rates) or isinstance(u, complex) else np.float64
    block = (service.S - u * np.eye(service.order)).astype(dtype)
    where = at.astype(dtype)
    next_served = np.outer(service.exit_rates, service.alpha).astype(dtype)
    served, obsolete = np.zeros((2, powers_of_time), dtype=dtype)
    falling: list[Array] = []
    for ahead in range(len(newcomers) - 1, -1, -1):
        solve = LevelSolver(block, where, *phase_multisets(at.order, ahead))
        own_end = np.multiply.outer(kronecker_power(where.one, ahead - 1), where.leave).ravel() if ahead else None
        time: Array = newcomers[ahead].astype(dtype)
        fallen: list[Array] = []
        for k in range(powers_of_time):
            entering = k * time if k else time
            if falling:
                entering = falling[k] + entering
            time = solve(np.ascontiguousarray(entering))
            if own_end is None:
                served[k] = (time @ service.exit_rates).sum()
                continue
            obsolete[k] += (own_end @ time).sum()
            after = sum_out_page_phase(time, 0, where.one) @ next_served
            if ahead > 1:
                after = after + obsolescence_flow(time, ahead - 1, where.leave)
            fallen.append(after)
        falling = fallen
    return served, obsolete


def phase_type_sojourns(ordered: LifetimePhaseChain, x: Sequence[Array]) -> tuple[PageSojournTotals, PageSojournTotals]:
    """Of pages served and of pages grown obsolete."""
    served, obsolete = laplace_moments(ordered, admitted_by_queue_length(ordered, x), powers_of_time=3)
    return PageSojournTotals(*(float(s) for s in served.real)), PageSojournTotals(*(float(s) for s in obsolete.real))
