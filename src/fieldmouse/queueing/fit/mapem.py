"""Maximum-likelihood arrival processes of several modes that alternate and share one hidden phase.

Where a rule reduces the fetch workers when many pages arrive, a mode is seen mostly in the phases
that led to it, and neither its rate nor its intervals can be estimated alone. But the
rule depends only on the past, so the likelihood of the arrivals, mode by mode
in their order, is still the right one. It is maximised by expectation-maximisation
(Ryden 1996 for one mode), forwards and backwards over the pieces of time
between batches and switches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmouse.compiled import compiled
from fieldmouse.queueing.model.entries import FloatArray, IntArray

_LONGEST = 30.0  # changes of phase in one stretch, on average


@dataclass(frozen=True, eq=False)
class Turns:
    """The matrices by mode (first index), their log-likelihood, and for each mode, from batch to batch
    that came in it, how many were `expected` in it: exponential of mean 1, if the fit is true."""

    D0: FloatArray
    D1: FloatArray
    likelihood: float
    expected: tuple[FloatArray, ...]


def most_likely(
    D0: FloatArray,
    D1: FloatArray,
    lengths: FloatArray,
    modes: IntArray,
    batch: IntArray,
    rounds: int = 60,
) -> Turns:
    """Improve the matrices of each mode (first index) from these starting values.

    Piece k of time has length `lengths[k]`, lies in mode `modes[k]` (an index), and ends with a batch
    where `batch[k]` is 1, else with a switch or the end.
    """
    D0, D1 = D0.copy(), D1.copy()
    n = D0.shape[1]
    start = np.full(n, 1.0 / n)
    before = -np.inf
    for _ in range(rounds):
        parts = _stretches(D0, lengths, modes, batch)
        spent, brought, first, quiet, found = _expected(start, D0, D1, *parts)
        fitted = D0.copy(), D1.copy()
        if found - before < 1e-6 * len(lengths):
            break
        before = found
        for mode in range(len(D0)):
            seconds = np.diag(spent[mode])
            if seconds.sum() <= 0:
                continue
            seconds = np.maximum(seconds, 1e-12 * seconds.sum())
            inner = D0[mode] * spent[mode].T / seconds[:, None]
            np.fill_diagonal(inner, 0.0)
            D1[mode] = brought[mode] / seconds[:, None]
            D0[mode] = inner - np.diag(inner.sum(axis=1) + D1[mode].sum(axis=1))
        start = first / first.sum()
    expected = []
    for mode in range(len(D0)):
        mine = parts[1] == mode
        expected.append(np.diff(np.cumsum(-quiet[mine])[parts[2][mine] == 1], prepend=0.0))
    return Turns(*fitted, float(found), tuple(expected))


def _stretches(
    D0: FloatArray, lengths: FloatArray, modes: IntArray, batch: IntArray
) -> tuple[FloatArray, IntArray, IntArray]:
    """Split pieces with many changes of phase into parts, so that the series stay short."""
    fastest = -D0.diagonal(axis1=1, axis2=2).min(axis=1)
    parts = np.maximum(np.ceil(lengths * fastest[modes] / _LONGEST), 1).astype(np.int64)
    ends = np.zeros(int(parts.sum()), dtype=np.int64)
    ends[np.cumsum(parts) - 1] = batch
    return np.repeat(lengths / parts, parts), np.repeat(modes, parts), ends


@compiled
def _expected(
    start: FloatArray, D0: FloatArray, D1: FloatArray, lengths: FloatArray, modes: IntArray, batch: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, float]:
    """By mode: time with i ahead while in j, batches from i to j; then first phases, the logarithm of the
    chance of each stretch to stay without a batch until its end, and the log-likelihood."""
    pieces, n = len(lengths), len(start)
    fastest = np.zeros(len(D0))
    P = np.zeros(D0.shape)
    for r in range(len(D0)):
        for i in range(n):
            fastest[r] = max(fastest[r], -D0[r, i, i])
        for i in range(n):
            for m in range(n):
                P[r, i, m] = D0[r, i, m] / fastest[r]
            P[r, i, i] = max(P[r, i, i] + 1.0, 0.0)
    here, ends, kept = np.zeros((pieces + 1, n)), np.zeros((pieces, n)), np.zeros(pieces)
    quiet = np.zeros(pieces)
    spent, brought = np.zeros(D0.shape), np.zeros(D0.shape)
    term, other, back, ahead = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    next_term, next_back = np.zeros(n), np.zeros(n)
    product, next_product = np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        here[0, i] = start[i]
        ahead[i] = 1.0

    likelihood = 0.0
    for k in range(pieces):
        r = modes[k]
        passed = fastest[r] * lengths[k]
        weight = np.exp(-passed)
        for i in range(n):
            term[i] = here[k, i]
            ends[k, i] = weight * term[i]
        j = 0
        while j < passed or weight > 1e-13:
            j += 1
            weight *= passed / j
            for i in range(n):
                other[i] = 0.0
                for m in range(n):
                    other[i] += term[m] * P[r, m, i]
            for i in range(n):
                term[i] = other[i]
                ends[k, i] += weight * term[i]
        for i in range(n):
            quiet[k] += ends[k, i]
        quiet[k] = np.log(quiet[k])
        for i in range(n):
            if batch[k] == 1:
                for m in range(n):
                    here[k + 1, i] += ends[k, m] * D1[r, m, i]
            else:
                here[k + 1, i] = ends[k, i]
            kept[k] += here[k + 1, i]
        for i in range(n):
            here[k + 1, i] /= kept[k]
        likelihood += np.log(kept[k])

    for k in range(pieces - 1, -1, -1):
        r = modes[k]
        for i in range(n):
            other[i] = ahead[i] / kept[k]
            if batch[k] == 1:
                other[i] = 0.0
                for m in range(n):
                    flow = D1[r, i, m] * ahead[m] / kept[k]
                    other[i] += flow
                    brought[r, i, m] += ends[k, i] * flow
        # As in `phem`: terms with j - 1 changes of phase in all weigh as much as a Poisson count of j.
        passed = fastest[r] * lengths[k]
        weight = np.exp(-passed)
        for i in range(n):
            term[i] = here[k, i]
            back[i] = other[i]
            ahead[i] = weight * other[i]
            for m in range(n):
                product[i, m] = other[i] * here[k, m]
        j = 0
        while j < passed or weight > 1e-13:
            j += 1
            weight *= passed / j
            for i in range(n):
                for m in range(n):
                    spent[r, i, m] += weight / fastest[r] * product[i, m]
                    next_product[i, m] = 0.0
                    for h in range(n):
                        next_product[i, m] += P[r, i, h] * product[h, m]
            for i in range(n):
                next_term[i], next_back[i] = 0.0, 0.0
                for m in range(n):
                    next_term[i] += term[m] * P[r, m, i]
                    next_back[i] += P[r, i, m] * back[m]
            for i in range(n):
                term[i], back[i] = next_term[i], next_back[i]
                ahead[i] += weight * back[i]
            for i in range(n):
                for m in range(n):
                    product[i, m] = next_product[i, m] + other[i] * term[m]
    for i in range(n):
        ahead[i] *= start[i]
    return spent, brought, ahead, quiet, likelihood
