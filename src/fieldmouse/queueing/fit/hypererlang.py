"""Mixtures of Erlang distributions and their maximum-likelihood fit.

A branch is drawn by weight and then passed in a number of equal steps. Exponential,
Erlang and hyperexponential times are such mixtures, and they approximate any positive
time. The likelihood is maximised by expectation-maximisation
(Thuemmler, Buchholz and Telek 2006), here also with times of which only a lower
bound is known: all in closed form, so that a crawl can afford it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fieldmouse.queueing.model.entries import FloatArray, IntArray
from fieldmouse.queueing.model.ph import PhaseType

_NONE: FloatArray = np.empty(0)


@dataclass(frozen=True, eq=False)
class HyperErlang:
    """
    >>> law = HyperErlang.of(weights=[0.5, 0.5], steps=[1, 2], rates=[1.0, 4.0])
    >>> round(law.mean, 3), law.order
    (0.75, 3)
    """

    weights: FloatArray
    steps: IntArray
    rates: FloatArray

    @classmethod
    def of(cls, weights: Sequence[float], steps: Sequence[int], rates: Sequence[float]) -> HyperErlang:
        return cls(np.array(weights, np.float64), np.array(steps, np.int64), np.array(rates, np.float64))

    @property
    def order(self) -> int:
        """Phases needed; branches of one rate share theirs."""
        return sum(int(self.steps[self.rates == rate].max()) for rate in np.unique(self.rates))

    @property
    def parameters(self) -> int:
        """Numbers that were free to choose, the numbers of steps beyond one among them."""
        return 2 * len(self.weights) - 1 + int((self.steps > 1).sum())

    @property
    def mean(self) -> float:
        return self.moment(1)

    def moment(self, k: int) -> float:
        grown = np.ones(len(self.steps))
        for j in range(k):
            grown = grown * (self.steps + j)
        return float(self.weights @ (grown / self.rates**k))

    @property
    def scv(self) -> float:
        return self.moment(2) / self.mean**2 - 1

    def survival(self, t: ArrayLike) -> FloatArray:
        times = np.asarray(t, dtype=np.float64)
        return _survivals(times, self.steps, self.rates) @ self.weights

    def cdf(self, t: ArrayLike) -> FloatArray:
        return 1 - self.survival(t)

    def log_likelihood(self, times: FloatArray, counts: FloatArray) -> float:
        with np.errstate(divide="ignore"):
            return float(counts @ np.log(_densities(times, self.steps, self.rates) @ self.weights))

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        branch = rng.choice(len(self.weights), size=size, p=self.weights / self.weights.sum())
        return np.asarray(rng.gamma(self.steps[branch]) / self.rates[branch])

    def phase_type(self) -> PhaseType:
        alpha = np.zeros(self.order)
        S = np.zeros((self.order, self.order))
        start = 0
        for rate in np.unique(self.rates):
            mine = self.rates == rate
            longest = int(self.steps[mine].max())
            stop = start + longest
            S[start:stop, start:stop] = rate * (np.eye(longest, k=1) - np.eye(longest))
            np.add.at(alpha, stop - self.steps[mine], self.weights[mine])
            start = stop
        return PhaseType(alpha / alpha.sum(), S)

    @property
    def name(self) -> str:
        if len(self.weights) == 1:
            return "exponential" if self.steps[0] == 1 else f"Erlang of {self.steps[0]} steps"
        if self.steps.max() == 1:
            return f"hyperexponential of {len(self.weights)} branches"
        return f"mixture of Erlang times of {', '.join(map(str, self.steps))} steps"


def condensed(times: FloatArray, most: int = 160) -> tuple[FloatArray, FloatArray]:
    """Replace a sample by at most `most` points with counts: the longest times unchanged,
    the rest averaged over neighbours."""
    ordered = np.sort(times)
    if len(ordered) <= most:
        return ordered, np.ones(len(ordered))
    tail = most // 4
    parts = np.array_split(ordered[:-tail], most - tail)
    points = np.array([part.mean() for part in parts])
    return (
        np.concatenate((points, ordered[-tail:])),
        np.concatenate((np.array([float(len(part)) for part in parts]), np.ones(tail))),
    )


def climb(
    steps: Sequence[int],
    times: FloatArray,
    counts: FloatArray,
    outlived: FloatArray = _NONE,
    outlived_counts: FloatArray = _NONE,
    rounds: int = 200,
    start: HyperErlang | None = None,
) -> tuple[HyperErlang, float]:
    """The mixture with these steps that a climb of the likelihood ends at, and its log-likelihood.

    Of `outlived` only a lower bound is known: these times were longer.
    """
    law = start or _spread(np.asarray(steps, dtype=np.int64), times, counts, outlived, outlived_counts)
    r = law.steps
    weights, rates = law.weights, law.rates
    total = counts.sum() + outlived_counts.sum()
    best = -np.inf
    for _ in range(rounds):
        density = _densities(times, r, rates) * weights
        whole = np.maximum(density.sum(axis=1), 1e-300)
        share = density * (counts / whole)[:, None]
        mass, length = share.sum(axis=0), times @ share
        found = float(counts @ np.log(whole))
        if len(outlived):
            alive = _survivals(outlived, r, rates)
            left = np.maximum(alive @ weights, 1e-300)
            later = (alive * weights) * (outlived_counts / left)[:, None]
            ratio = _survivals(outlived, r + 1, rates) / np.maximum(alive, 1e-300)
            mass = mass + later.sum(axis=0)
            length = length + (later * ratio).sum(axis=0) * (r / rates)
            found += float(outlived_counts @ np.log(left))
        mass = np.maximum(mass, 1e-12 * total)
        weights, rates = mass / total, r * mass / np.maximum(length, 1e-300)
        if found - best < 1e-7 * total:
            best = found
            break
        best = found
    return HyperErlang(weights / weights.sum(), r, rates), best


def _spread(
    steps: IntArray, times: FloatArray, counts: FloatArray, outlived: FloatArray, outlived_counts: FloatArray
) -> HyperErlang:
    """Where a climb begins: the fewer steps the longer the times, each branch half as often as the last."""
    branches = len(steps)
    seconds = float(times @ counts + outlived @ outlived_counts)
    if branches == 1:
        return HyperErlang(np.ones(1), steps, steps * counts.sum() / max(seconds, 1e-300))
    order = np.argsort(times)
    cumulative = np.cumsum(counts[order]) / counts.sum()
    edges = np.concatenate(([0.0], 1 - 0.5 ** np.arange(1, branches), [1.0]))
    means, shares = np.empty(branches), np.diff(edges)
    for place in range(branches):
        mine = order[(cumulative > edges[place] - 1e-12) & (cumulative <= edges[place + 1] + 1e-12)]
        if len(mine) == 0:
            mine = order
        means[place] = max(float(times[mine] @ counts[mine] / counts[mine].sum()), 1e-12)
    stretch = seconds / float(times @ counts)
    by_steps = np.argsort(-steps, kind="stable")
    weights, rates = np.empty(branches), np.empty(branches)
    weights[by_steps] = shares
    rates[by_steps] = steps[by_steps] / (means * stretch)
    return HyperErlang(weights, steps, rates)


def _densities(times: FloatArray, steps: IntArray, rates: FloatArray) -> FloatArray:
    """Density of each branch at each time; for few steps, so that plain powers do."""
    passed = times[:, None] * rates
    density = rates * np.exp(-passed)
    for j in range(1, int(steps.max())):
        density = density * np.where(j < steps, passed / j, 1.0)
    return np.asarray(density)


def _survivals(times: FloatArray, steps: IntArray, rates: FloatArray) -> FloatArray:
    passed = times[..., None] * rates
    term = np.exp(-passed)
    total = term.copy()
    for j in range(1, int(steps.max())):
        term = term * passed / j
        total += np.where(j < steps, term, 0.0)
    return np.asarray(total)
