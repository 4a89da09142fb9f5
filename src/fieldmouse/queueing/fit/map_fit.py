"""Markovian arrival processes (MAPs) fitted by moments and by likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldmouse.jit import jit
from fieldmouse.queueing.model.validation import FloatArray, IntArray

_LONGEST = 30.0  # changes of phase in one stretch, on average
_NEGLIGIBLE = 1e-17  # weight of a term after which a series ends


@dataclass(frozen=True, eq=False)
class PerModeMapFit:
    """The matrices by mode (first index), their log-likelihood, and for each mode, from batch to batch
    that came in it, how many were `expected` in it: exponential of mean 1, if the fit is true."""

    D0: FloatArray
    D1: FloatArray
    likelihood: float
    expected: tuple[FloatArray, ...]


def fit_maps_per_mode(
    D0: FloatArray, D1: FloatArray, lengths: FloatArray, modes: IntArray, batch: IntArray, rounds: int = 60
) -> PerModeMapFit:
    """Improve the matrices of each mode (first index) from these starting values.

    Piece k of time has length `lengths[k]`, lies in mode `modes[k]` (an index), and ends with a batch
    where `batch[k]` is 1, else with a switch or the end.
    """
    D0, D1 = D0.copy(), D1.copy()
    n = D0.shape[1]
    start = np.full(n, 1.0 / n)
    before = -np.inf
    for _ in range(rounds):
        parts = _split_long_pieces(D0, lengths, modes, batch)
        spent, brought, first, quiet, found = _expectation_step(start, D0, D1, *parts)
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
    _, part_modes, ends = parts
    # What was expected so far in a mode, at each batch in it.
    sums = [np.cumsum(-quiet[part_modes == mode])[ends[part_modes == mode] == 1] for mode in range(len(D0))]
    return PerModeMapFit(*fitted, float(found), tuple(np.diff(sum_, prepend=0.0) for sum_ in sums))


def _split_long_pieces(
    D0: FloatArray, lengths: FloatArray, modes: IntArray, batch: IntArray
) -> tuple[FloatArray, IntArray, IntArray]:
    """Split pieces with many changes of phase into parts, so that the series stay short."""
    fastest = -D0.diagonal(axis1=1, axis2=2).min(axis=1)
    parts = np.maximum(np.ceil(lengths * fastest[modes] / _LONGEST), 1).astype(np.int64)
    ends = np.zeros(int(parts.sum()), dtype=np.int64)
    ends[np.cumsum(parts) - 1] = batch
    return np.repeat(lengths / parts, parts), np.repeat(modes, parts), ends


@jit
def _expectation_step(
    start: FloatArray, D0: FloatArray, D1: FloatArray, lengths: FloatArray, modes: IntArray, batch: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, float]:
    """By mode: time with i ahead while in j, batches from i to j; then first phases, the logarithm of the
    chance of each stretch to stay without a batch until its end, and the log-likelihood."""
    pieces, n = len(lengths), len(start)
    fastest, P = np.zeros(len(D0)), np.zeros(D0.shape)
    for r in range(len(D0)):
        fastest[r] = uniformise(D0[r], P[r])
    here, ends, kept, quiet = np.zeros((pieces + 1, n)), np.zeros((pieces, n)), np.zeros(pieces), np.zeros(pieces)
    spent, brought = np.zeros(D0.shape), np.zeros(D0.shape)
    stay = np.eye(n)
    here[0] = start
    for k in range(pieces):
        r = modes[k]
        propagate_forwards(P[r], fastest[r] * lengths[k], here[k], ends[k])
        quiet[k] = np.log(ends[k].sum())
        jumps = D1[r] if batch[k] == 1 else stay
        for i in range(n):
            for m in range(n):
                here[k + 1, i] += ends[k, m] * jumps[m, i]
        kept[k] = here[k + 1].sum()
        here[k + 1] /= kept[k]
    ahead, back = np.ones(n), np.zeros(n)
    for k in range(pieces - 1, -1, -1):
        r = modes[k]
        jumps = D1[r] if batch[k] == 1 else stay
        back[:] = 0.0
        for i in range(n):
            for m in range(n):
                flow = jumps[i, m] * ahead[m] / kept[k]
                back[i] += flow
                brought[r, i, m] += batch[k] * ends[k, i] * flow
        propagate_backwards(P[r], fastest[r], lengths[k], here[k], back, spent[r])
        ahead, back = back, ahead
    return spent, brought, start * ahead, quiet, float(np.log(kept).sum())


@jit
def uniformise(rates: FloatArray, P: FloatArray) -> float:
    """Write the chain's changes of phase to `P` as probabilities, none included; returns how many come in a
    unit of time."""
    fastest = 0.0
    for i in range(len(rates)):
        fastest = max(fastest, -rates[i, i])
    for i in range(len(rates)):
        for m in range(len(rates)):
            P[i, m] = max(rates[i, m] / fastest + (i == m), 0.0)
    return fastest


@jit
def propagate_forwards(P: FloatArray, passed: float, here: FloatArray, there: FloatArray) -> None:
    """Write to `there` the phases after a stretch with `passed` changes on average that begins with `here`."""
    n = len(here)
    term, next_term = here.copy(), np.zeros(n)
    weight = np.exp(-passed)
    for i in range(n):
        there[i] = weight * term[i]
    j = 0
    while j < passed or weight > _NEGLIGIBLE:
        j += 1
        weight *= passed / j
        for i in range(n):
            next_term[i] = 0.0
            for m in range(n):
                next_term[i] += term[m] * P[m, i]
            there[i] += weight * next_term[i]
        term, next_term = next_term, term


@jit
def propagate_backwards(
    P: FloatArray, fastest: float, length: float, here: FloatArray, ahead: FloatArray, spent: FloatArray
) -> None:
    """Take `ahead`, what lies ahead of each phase, from the end of a stretch that begins with `here` to its start.

    To `spent` is added the time with i ahead while in j. Terms with j - 1 changes of phase in all, before and
    behind any moment of the stretch, weigh as much as a Poisson count of j.
    """
    n = len(here)
    after, back, term = ahead.copy(), ahead.copy(), here.copy()
    next_back, next_term, product, next_product = np.zeros(n), np.zeros(n), np.zeros((n, n)), np.zeros((n, n))
    passed = fastest * length
    weight = np.exp(-passed)
    for i in range(n):
        ahead[i] = weight * after[i]
        for m in range(n):
            product[i, m] = after[i] * here[m]
    j = 0
    while j < passed or weight > _NEGLIGIBLE:
        j += 1
        weight *= passed / j
        for i in range(n):
            next_term[i], next_back[i] = 0.0, 0.0
            for m in range(n):
                next_term[i] += term[m] * P[m, i]
                next_back[i] += P[i, m] * back[m]
            ahead[i] += weight * next_back[i]
        for i in range(n):
            for m in range(n):
                spent[i, m] += weight / fastest * product[i, m]
                next_product[i, m] = after[i] * next_term[m]
                for h in range(n):
                    next_product[i, m] += P[i, h] * product[h, m]
        term, next_term, back, next_back = next_term, term, next_back, back
        product, next_product = next_product, product


#: Two phases cannot vary less than Erlang's.
LEAST_SCV = 0.5

#: A phase that lasts longer than a thousand arrivals cannot be told from a trend.
LONGEST_DECAY = 0.999

_ROOM = 0.01  # kept to the bound of the third moment beyond which a phase would take no time
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class OrderTwoMap:
    """The process, what of the wishes it meets, and a sentence for each that it does not."""

    D0: FloatArray
    D1: FloatArray
    mean: float
    scv: float
    third: float
    decay: float
    misses: tuple[str, ...] = ()

    @property
    def first_correlation(self) -> float:
        return self.decay * (self.scv - 1) / (2 * self.scv)


def match_order_two_map(mean: float, scv: float, third: float | None = None, decay: float = 0.0) -> OrderTwoMap:
    """The process with this mean, squared coefficient of variation, third moment and decay, or the nearest.

    Earlier arguments have priority over later ones. Without a third
    moment the two phases begin equally many intervals, or the slow one 1 / scv
    of them, if that is less.

    >>> poisson = match_order_two_map(mean=2.0, scv=1.0)
    >>> poisson.D1.sum(axis=1)
    array([0.5, 0.5])
    """
    assert mean > 0, "intervals have a mean"
    misses: list[str] = []
    if scv < LEAST_SCV:
        misses.append(f"intervals vary less (scv {scv:.3g}) than two phases can; {LEAST_SCV} is the least")
        scv = LEAST_SCV
    if abs(scv - 1) < 1e-6:
        if decay:
            misses.append("intervals that vary like exponential ones cannot hang together in two phases")
        return OrderTwoMap(np.eye(2) / -mean, np.full((2, 2), 0.5 / mean), mean, 1.0, 6 * mean**3, 0.0, tuple(misses))
    least, most = third_moment_range(mean, scv)
    if third is None:
        third = (least + most) / 2 if scv < 1 else _even_third_moment(mean, scv)
    elif not least <= third <= most:
        nearest = min(max(third, least), most)
        if abs(third - nearest) > 1e-3 * nearest:  # less is not worth a word
            misses.append(
                f"a third moment of {third:.4g} cannot go with this mean and variance; {nearest:.4g} is nearest"
            )
        third = nearest
    slow, fast = means_of_phases(mean, scv, third)
    wanted, decay = decay, min(max(decay, -LONGEST_DECAY), LONGEST_DECAY)
    found = _map_matrices(mean, slow, fast, decay)
    if found is None:
        decay = _nearest_decay(mean, slow, fast, decay)
        found = _map_matrices(mean, slow, fast, decay)
        assert found is not None, "a process without correlations exists for every law of order two"
    if abs(decay - wanted) > 1e-6:
        misses.append(f"correlations that decay by {wanted:.3g} are out of reach; {decay:.3g} is nearest")
    D0, D1 = found
    return OrderTwoMap(D0, D1, mean, scv, third, decay, tuple(misses))


def third_moment_range(mean: float, scv: float) -> tuple[float, float]:
    """The third moments that two phases can have with this mean and scv (Telek and Heindl 2002)."""
    if scv > 1:
        return 1.5 * mean**3 * (1 + scv) ** 2 * (1 + _ROOM), np.inf
    return 3 * mean**3 * (3 * scv - 1 + np.sqrt(2) * (1 - scv) ** 1.5), 6 * mean**3 * scv


def _even_third_moment(mean: float, scv: float) -> float:
    """The third moment when the slow phase takes as even a share of the intervals as it can with ease."""
    odds = min(1.0, 1 / (scv - 1))
    share, reach = odds / (1 + odds), np.sqrt((scv - 1) / 2)
    slow, fast = 1 + reach / np.sqrt(odds), 1 - reach * np.sqrt(odds)
    return float(6 * mean**3 * (share * slow**3 + (1 - share) * fast**3))


def means_of_phases(mean: float, scv: float, third: float) -> tuple[float, float]:
    """The mean times of the slow and the fast phase.

    Reduced moments r_k = m_k / k! of two phases follow r_{k+2} = c1 r_{k+1} - c0 r_k,
    and the times are the roots of x^2 = c1 x - c0.
    """
    r1, r2, r3 = mean, mean**2 * (1 + scv) / 2, third / 6
    c1 = (r3 - r1 * r2) / (r2 - r1**2)
    c0 = (r1 * r3 - r2**2) / (r2 - r1**2)
    root = np.sqrt(max(c1**2 / 4 - c0, 0.0))
    slow = c1 / 2 + root
    return float(slow), float(c0 / slow)  # not c1/2 - root, which cancels


def fit_decay(correlations: Sequence[float], scv: float) -> float:
    """The decay whose correlations come nearest, in the sum of squares, to those of lags 1, 2, ...

    >>> round(fit_decay([0.1, 0.05, 0.025], scv=5 / 3), 3)
    0.5
    """
    start = (scv - 1) / (2 * scv)
    if abs(start) < 1e-9 or len(correlations) == 0:
        return 0.0
    wanted = np.asarray(correlations, dtype=np.float64)
    lags = np.arange(1, len(wanted) + 1)

    def nearest(decays: FloatArray) -> int:
        return int(np.argmin(((start * decays[:, None] ** lags - wanted) ** 2).sum(axis=1)))

    coarse = np.linspace(-LONGEST_DECAY, LONGEST_DECAY, 401)
    best = coarse[nearest(coarse)]
    width = coarse[1] - coarse[0]
    fine = np.clip(np.linspace(best - width, best + width, 401), -LONGEST_DECAY, LONGEST_DECAY)
    return float(fine[nearest(fine)])


def _nearest_decay(mean: float, slow: float, fast: float, wanted: float) -> float:
    """The decay nearest to the wanted one on the way to none at all."""
    reached, missed = 0.0, wanted
    for _ in range(60):
        middle = (reached + missed) / 2
        if _map_matrices(mean, slow, fast, middle) is None:
            missed = middle
        else:
            reached = middle
    return reached


def _map_matrices(mean: float, slow: float, fast: float, decay: float) -> tuple[FloatArray, FloatArray] | None:
    """D0 and D1, or None where no process of order two has this decay."""
    return _diagonal_matrices(mean, slow, fast, decay) or _canonical_matrices(mean, slow, fast, decay)


def _diagonal_matrices(mean: float, slow: float, fast: float, decay: float) -> tuple[FloatArray, FloatArray] | None:
    if not fast < mean < slow:
        return None
    share = (mean - fast) / (slow - fast)
    start = np.array([share, 1 - share])
    P = decay * np.eye(2) + (1 - decay) * start[None, :]
    if P.min() < 0:
        return None
    rates = np.array([1 / slow, 1 / fast])
    return np.diag(-rates), rates[:, None] * P


def _canonical_matrices(mean: float, slow: float, fast: float, decay: float) -> tuple[FloatArray, FloatArray] | None:
    """The canonical forms: from the slow phase an interval may continue in the fast one, never back."""
    if decay >= 0:
        total = slow + fast - (1 - decay) * mean
        spread = total**2 - 4 * decay * slow * fast
        if spread < -_SLACK * total**2:
            return None
        a = (total - np.sqrt(max(spread, 0.0))) / 2 / fast  # the other root does as well
        b = (total - a * fast) / slow
    else:
        b = ((1 - decay) * mean - fast) / slow
        a = -decay / b if b > _SLACK else np.inf
    if min(a, b) < -_SLACK or max(a, b) > 1 + _SLACK or a * b > 1 - _SLACK:
        return None
    a, b = min(max(a, 0.0), 1.0), min(max(b, 0.0), 1.0)
    D0 = np.array([[-1 / slow, (1 - a) / slow], [0.0, -1 / fast]])
    if decay >= 0:
        return D0, np.array([[a / slow, 0.0], [(1 - b) / fast, b / fast]])
    return D0, np.array([[0.0, a / slow], [b / fast, (1 - b) / fast]])
