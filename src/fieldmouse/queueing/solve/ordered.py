"""Exact solution of the chain that keeps the lifetime phase of every waiting page, iterative or dense."""

from __future__ import annotations

from functools import reduce

import numpy as np

from fieldmouse.errors import FieldmouseError
from fieldmouse.queueing.model.arrivals import stationary
from fieldmouse.queueing.model.model import Chain, count_states
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray
from fieldmouse.queueing.solve import banded
from fieldmouse.queueing.solve.coordinates import (
    Array,
    LevelSolver,
    append_digit,
    change_basis,
    kronecker_power,
    obsolescence_flow,
    phase_multisets,
    sum_out_digit,
    triangular_coordinates,
)


def dense_distribution(chain: Chain) -> list[FloatArray]:
    """For each level, a row for each combination of waiting phases (the head's first), as in `ordered`."""
    rates, starts = dense_generator(chain, chain.model.lifetime)
    n = chain.model.phases * chain.model.service.order
    levels = np.split(stationary(rates), starts[1:])
    return [levels[0], *(np.ascontiguousarray(level.reshape(n, -1).T) for level in levels[1:])]


def dense_generator(chain: Chain, lifetime: PhaseType) -> tuple[FloatArray, list[int]]:
    """All rates (the diagonal is not filled in), and where the states of each level start."""
    service, up, top = chain.model.service, chain.arrivals.up, chain.top
    W, M, R = chain.model.phases, service.order, lifetime.order
    sizes = [W, *(W * M * R**waiting for waiting in range(top))]
    starts = [sum(sizes[:level]) for level in range(top + 1)]
    rates = np.zeros((sum(sizes), sum(sizes)))

    def block(level: int, to: int) -> FloatArray:
        return rates[starts[level] : starts[level] + sizes[level], starts[to] : starts[to] + sizes[to]]

    start, next_served = lifetime.alpha[None], np.outer(service.exit, service.alpha)
    for level in range(top + 1):
        block(level, level)[:] += _kron(up[level, 0], np.eye(sizes[level] // W))
        for jump in range(1, min(up.shape[1], top + 1 - level)):
            waiting = [start] * (jump if level else jump - 1)
            served = np.eye(sizes[level] // W) if level else service.alpha[None]
            block(level, level + jump)[:] = reduce(_kron, [up[level, jump], served, *waiting])
        if level == 0:
            continue
        block(level, level)[:] += _kron(np.eye(W), _kron(service.S, np.eye(R ** (level - 1))))
        if level == 1:
            block(1, 0)[:] = _kron(np.eye(W), service.exit[:, None])
            continue
        head, rest = np.ones((R, 1)), np.eye(R ** (level - 2))
        block(level, level - 1)[:] = _kron(np.eye(W), reduce(_kron, [next_served, head, rest]))
        for page in range(level - 1):
            ahead, behind = np.eye(W * M * R**page), np.eye(R ** (level - 2 - page))
            block(level, level)[:] += reduce(_kron, [ahead, lifetime.S, behind])
            block(level, level - 1)[:] += reduce(_kron, [ahead, lifetime.exit[:, None], behind])
    return rates, starts


def _kron(a: FloatArray, b: FloatArray) -> FloatArray:
    # numpy's own is thirty times as slow for small matrices.
    product: FloatArray = a[:, None, :, None] * b[None, :, None, :]
    return product.reshape(len(a) * len(b), -1)


MOST_STATES = 2**21
"""States of the largest chain that is tried: about a minute, and a few hundred megabytes."""

DENSE = 300
"""States up to which the generator is written down."""

ROUNDS = 2000
SAME = 1e-14
"""Relative change of every level, from round to round, at which nothing is left to gain."""

MIXED = 5
"""Rounds that are mixed."""


class ModelTooLarge(FieldmouseError):
    """The ordered chain of this model has more states than can be solved."""

    def __init__(self, states: int):
        size = f"{states:,}" if states < 10**15 else f"some 10^{len(str(states)) - 1}"
        super().__init__(f"the ordered chain of this model has {size} states; {MOST_STATES:,} can be solved")
        self.states = states
        self.hint = 'use `"method": "simulate"`, a smaller K, or a lifetime with fewer phases'


class NotConverged(FieldmouseError):
    """The iteration of the ordered chain did not converge."""

    def __init__(self, change: float):
        super().__init__(f"after {ROUNDS:,} rounds the ordered chain still changes by {change:.1e}")
        self.hint = 'use `"method": "simulate"`'


class OrderedChain:
    """A chain with the lifetime's phases. `solve` returns its solution, with a tensor for each level.

    Tensor i has a row for each combination of phases of the i - 1 waiting pages,
    the head's first, and a column for each arrival and service phase; level 0 has
    arrival phases only. Rows are in the lifetime's `coordinates`.
    """

    def __init__(self, chain: Chain):
        model = chain.model
        self.chain, self.at = chain, triangular_coordinates(model.lifetime)
        count = count_states(model, self.at.order)
        if count > MOST_STATES:
            raise ModelTooLarge(count)
        up, service, W = chain.arrivals.up, model.service, model.phases
        self.n, self.reach = W * service.order, up.shape[1] - 1
        spread = np.einsum("ijab,mk->ijambk", up, np.eye(service.order))
        self._climb = spread.reshape(*up.shape[:2], self.n, self.n)
        self._first = np.einsum("jab,k->jabk", up[0], service.alpha).reshape(-1, W, self.n)
        self._served = np.kron(np.eye(W), np.outer(service.exit, service.alpha))
        self._ones, self._leaves, self._solvers = [], [], []
        leaves: Array = np.zeros(1, dtype=self.at.rates.dtype)
        for waiting in range(chain.top):
            ones = kronecker_power(self.at.one, waiting)
            self._ones.append(ones)
            self._leaves.append(leaves)
            leaves = (np.multiply.outer(leaves, self.at.one) + np.multiply.outer(ones, self.at.leave)).ravel()
            block = self._climb[waiting + 1, 0] + np.kron(np.eye(W), service.S)
            self._solvers.append(LevelSolver(block, self.at, *phase_multisets(self.at.order, waiting)))

    def solve(self) -> tuple[FloatArray, FloatArray, list[Array]]:
        """Shares and rates of fading by level, arrival and service phase; and the solution in full."""
        if count_states(self.chain.model, self.chain.model.lifetime.order) > DENSE:
            return self.iterate()
        x: list[Array] = [
            change_basis(level, max(0, i - 1), self.at.turn) if i else level.astype(self.at.rates.dtype)
            for i, level in enumerate(dense_distribution(self.chain))
        ]
        x, share, fades = self._weighed(x)
        return share, fades, x

    def iterate(self) -> tuple[FloatArray, FloatArray, list[Array]]:
        """By rounds, whatever the size."""
        share = banded.banded_distribution(
            self.chain, banded.obsolescence_rates(self.chain, self.chain.model.lifetime.rate)
        )
        x: list[Array] = [share[0, :, 0].astype(self.at.rates.dtype)]
        for waiting, level in enumerate(share[1:]):
            x.append(np.multiply.outer(kronecker_power(self.at.start, waiting), level.ravel()))
        mixture = _Mixture()
        best, since = np.inf, 0
        for _ in range(ROUNDS):
            before = [level.copy() for level in x[:-1]]
            for level in range(self.chain.top, 0, -1):
                x[level] = self._solvers[level - 1](self._inflow(x, level))
            x, share, fades = self._weighed(x)
            change = max(_distance(new, old) for new, old in zip(x, before, strict=False))
            best, since = (change, 0) if change < best else (best, since + 1)
            if change <= SAME or (best < 1e-11 and since > 3):
                return share, fades, x
            mixed = mixture.next(before, x[:-1])
            if self._sound(mixed):
                x[:-1] = mixed
            else:
                mixture = _Mixture()
        raise NotConverged(change)

    def _inflow(self, x: list[Array], level: int) -> Array:
        """What enters a level from others, in a unit of time."""
        total: Array | None = None
        for below in range(max(0, level - self.reach), level):
            jump = level - below
            rising = x[below] @ self._climb[below, jump] if below else (x[0] @ self._first[jump])[None]
            if total is None:
                total = rising
            else:
                total = (total if below == 1 else append_digit(total, self.at.start)) + rising
        assert total is not None
        if level > 1:
            total = append_digit(total, self.at.start)
        if level < self.chain.top:
            above = x[level + 1]
            total = total + sum_out_digit(above, 0, self.at.one) @ self._served
            total += obsolescence_flow(above, level, self.at.leave)
        return total

    def _weighed(self, x: list[Array]) -> tuple[list[Array], FloatArray, FloatArray]:
        """The levels weighed against each other, given how pages are distributed within each."""
        shape = (self.chain.model.phases, self.chain.model.service.order)
        sums, fades = np.zeros((2, self.chain.top + 1, *shape))
        for level in range(1, self.chain.top + 1):
            sums[level] = (self._ones[level - 1] @ x[level]).real.reshape(shape)
            fading = (self._leaves[level - 1] @ x[level]).real.reshape(shape)
            np.divide(fading, sums[level], out=fades[level], where=sums[level] > 0)
        share = banded.banded_distribution(self.chain, fades)
        weighed: list[Array] = [share[0, :, 0].astype(x[0].dtype)]
        for level in range(1, self.chain.top + 1):
            factor = np.divide(share[level], sums[level], out=np.zeros(shape), where=sums[level] > 0)
            weighed.append(x[level] * factor.ravel())
        return weighed, share, fades

    def _sound(self, x: list[Array]) -> bool:
        """Whether a mixture is still something like a distribution."""
        return bool((x[0].real >= 0).all()) and all(
            ((self._ones[waiting] @ level).real >= 0).all()
            and ((self._leaves[waiting] @ level).real >= 0).all()
            for waiting, level in enumerate(x[1:])
        )


class _Mixture:
    """The mixture of past rounds that would have changed least."""

    def __init__(self) -> None:
        self._results: list[Array] = []
        self._changes: list[Array] = []

    def next(self, before: list[Array], after: list[Array]) -> list[Array]:
        result = np.concatenate([level.ravel() for level in after])
        self._results.append(result)
        self._changes.append(result - np.concatenate([level.ravel() for level in before]))
        del self._results[:-MIXED], self._changes[:-MIXED]
        steps = [change - self._changes[-1] for change in self._changes[:-1]]
        if steps:
            gram = np.array([[_dot(a, b) for b in steps] for a in steps])
            aim = np.array([_dot(a, self._changes[-1]) for a in steps])
            weights = np.linalg.lstsq(gram, -aim, rcond=1e-14)[0]
            for weight, past in zip(weights, self._results[:-1], strict=True):
                result = result + weight * (past - self._results[-1])
        mixed: list[Array] = []
        start = 0
        for level in after:
            mixed.append(result[start : start + level.size].reshape(level.shape))
            start += level.size
        return mixed


def _distance(new: Array, old: Array) -> float:
    """Relative to the size of a level, be it ever so rare."""
    size = float(np.abs(new).sum())
    return float(np.abs(new - old).sum()) / size if size else 0.0


def _dot(a: Array, b: Array) -> float:
    # Not `vdot`: for vectors of this length it starts threads, which cost more than they help.
    return float(np.einsum("i,i->", a.conj(), b).real)
