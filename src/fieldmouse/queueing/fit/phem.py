"""The most likely phase type of a given order, whatever its shape.

Expectation and maximisation as of Asmussen, Nerman and Olsson (1996): from how long
each phase would have lasted and how often each change of phase would have happened,
given the times seen, follow better rates. A time of which only a lower bound is known
ends in no exit. The chain is followed forwards and backwards from time to time, by
series of non-negative terms; nothing is subtracted, nothing underflows.
"""

from __future__ import annotations

import numpy as np

from fieldmouse.compiled import compiled
from fieldmouse.queueing.fit.hypererlang import condensed
from fieldmouse.queueing.model.entries import FloatArray
from fieldmouse.queueing.model.ph import PhaseType

_STEP = 8.0  # changes of phase in one stretch, on average: series stay short
_NONE: FloatArray = np.empty(0)


def most_likely(
    times: FloatArray,
    order: int,
    rng: np.random.Generator,
    outlived: FloatArray = _NONE,
    rounds: int = 300,
    starts: int = 3,
) -> tuple[PhaseType, float]:
    """The phase type with `order` phases found by the climbs, and its log-likelihood.

    The likelihood has several maxima, so the best of some random `starts` is kept.
    """
    scale = float(times.sum() + outlived.sum()) / len(times)
    exact, counts = condensed(np.maximum(times, 1e-9 * scale) / scale)
    bounds, bound_counts = condensed(outlived / scale)
    at = np.concatenate((exact, bounds))
    ended = np.concatenate((counts, np.zeros(len(bounds))))
    lasted = np.concatenate((np.zeros(len(exact)), bound_counts))
    sort = np.argsort(at, kind="stable")
    at, ended, lasted = at[sort], ended[sort], lasted[sort]
    best: tuple[float, FloatArray, FloatArray] | None = None
    for _ in range(starts):
        alpha = rng.dirichlet(np.ones(order))
        S = rng.exponential(1.0, (order, order)) * rng.uniform(0.2, 5.0, (order, 1))
        leave = rng.exponential(1.0, order) * order
        before = -np.inf
        for _ in range(rounds):
            np.fill_diagonal(S, 0.0)
            np.fill_diagonal(S, -(S.sum(axis=1) + leave))
            begun, spent, left, found = _expected(alpha, S, leave, *_stretches(at, ended, lasted, S))
            if best is None or found > best[0]:
                best = found, alpha, S
            seconds = np.maximum(np.diag(spent), 1e-300)
            alpha = begun / begun.sum()
            S, leave = S * spent.T / seconds[:, None], left / seconds
            if found - before < 1e-7 * len(times):
                break
            before = found
    assert best is not None, "at least one start"
    likelihood, alpha, S = best
    return PhaseType(alpha, S / scale), likelihood - len(times) * float(np.log(scale))


def _stretches(
    at: FloatArray, ended: FloatArray, lasted: FloatArray, S: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lengths from time to time, long ones in several parts, and what the times at their ends count."""
    gaps = np.diff(at, prepend=0.0)
    parts = np.maximum(np.ceil(gaps * float(-S.diagonal().min()) / _STEP), 1).astype(np.int64)
    lengths = np.repeat(gaps / parts, parts)
    ends = np.cumsum(parts) - 1
    ending, lasting = np.zeros(len(lengths)), np.zeros(len(lengths))
    ending[ends], lasting[ends] = ended, lasted
    return lengths, ending, lasting


@compiled
def _expected(
    alpha: FloatArray,
    S: FloatArray,
    leave: FloatArray,
    lengths: FloatArray,
    ended: FloatArray,
    lasted: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Expected starts by phase, time with i ahead while in j, exits by phase, and the log-likelihood."""
    n, stretches = len(alpha), len(lengths)
    fastest = -S[0, 0]
    for i in range(1, n):
        fastest = max(fastest, -S[i, i])
    P = np.zeros((n, n))
    for i in range(n):
        for m in range(n):
            P[i, m] = S[i, m] / fastest
        P[i, i] = max(P[i, i] + 1.0, 0.0)
    here, kept = np.zeros((stretches + 1, n)), np.zeros(stretches)
    spent, left, ahead = np.zeros((n, n)), np.zeros(n), np.zeros(n)
    term, next_term, back, before = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    product, next_product = np.zeros((n, n)), np.zeros((n, n))

    # Forwards: where the chain is at each end, given that it has not left; `kept` is the chance of that.
    for i in range(n):
        here[0, i] = alpha[i]
    likelihood, gone = 0.0, 0.0
    for k in range(stretches):
        passed = fastest * lengths[k]
        weight = np.exp(-passed)
        for i in range(n):
            term[i] = here[k, i]
            here[k + 1, i] = weight * term[i]
        j = 0
        while j < passed or weight > 1e-17:
            j += 1
            weight *= passed / j
            for i in range(n):
                next_term[i] = 0.0
                for m in range(n):
                    next_term[i] += term[m] * P[m, i]
            for i in range(n):
                term[i] = next_term[i]
                here[k + 1, i] += weight * term[i]
        for i in range(n):
            kept[k] += here[k + 1, i]
        density = 0.0
        for i in range(n):
            here[k + 1, i] /= kept[k]
            density += here[k + 1, i] * leave[i]
        gone += np.log(kept[k])
        likelihood += lasted[k] * gone
        if ended[k] > 0.0:
            likelihood += ended[k] * (gone + np.log(density))

    # Backwards: what lies ahead of each phase, scaled like the way forwards. Over a stretch, terms with j - 1
    # changes of phase in all, before and behind any moment of it, weigh as much as a Poisson count of j.
    for k in range(stretches - 1, -1, -1):
        density = 0.0
        for i in range(n):
            density += here[k + 1, i] * leave[i]
        for i in range(n):
            ahead[i] += lasted[k]
            if ended[k] > 0.0:
                left[i] += ended[k] * here[k + 1, i] * leave[i] / density
                ahead[i] += ended[k] * leave[i] / density
        passed = fastest * lengths[k]
        weight = np.exp(-passed)
        for i in range(n):
            term[i] = here[k, i]
            back[i] = ahead[i]
            before[i] = weight * ahead[i]
            for m in range(n):
                product[i, m] = ahead[i] * here[k, m]
        j = 0
        while j < passed or weight > 1e-17:
            j += 1
            weight *= passed / j
            for i in range(n):
                for m in range(n):
                    spent[i, m] += weight / fastest / kept[k] * product[i, m]
            for i in range(n):
                next_term[i] = 0.0
                for m in range(n):
                    next_term[i] += term[m] * P[m, i]
            for i in range(n):
                term[i] = next_term[i]
            for i in range(n):
                next_term[i] = 0.0
                for m in range(n):
                    next_term[i] += P[i, m] * back[m]
                    next_product[i, m] = ahead[i] * term[m]
                    for h in range(n):
                        next_product[i, m] += P[i, h] * product[h, m]
            for i in range(n):
                back[i] = next_term[i]
                before[i] += weight * back[i]
                for m in range(n):
                    product[i, m] = next_product[i, m]
        for i in range(n):
            ahead[i] = before[i] / kept[k]
    for i in range(n):
        ahead[i] *= alpha[i]
    return ahead, spent, left, likelihood
