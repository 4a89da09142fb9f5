"""Exact solution of the chain that keeps the lifetime phase of every waiting page, in ordered coordinates.

A chain that keeps the lifetime phase of every waiting page is a large one, but if
phases follow each other in one direction its levels can be solved page by page, from
the first phase to the last. Erlang, Coxian and hyperexponential lifetimes are so
already. Any other is turned so by a unitary matrix (Schur): the coordinates are then
no probabilities, but all that is asked of them, sums, comes out right. An
eigendecomposition would not do: Erlang lifetimes have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldmouse.errors import FieldmouseError
from fieldmouse.jit import jit
from fieldmouse.queueing.model.arrivals import stationary_distribution
from fieldmouse.queueing.model.model import Chain, count_states
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray, IntArray
from fieldmouse.queueing.solve import exponential_lifetimes

#: Floats, or complex numbers where a lifetime's rates have complex eigenvalues.
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class TriangularPhaseType:
    """Start, upper triangular rates, rates of leaving, and the weights that sum over all phases.

    `turn` leads here: a row vector over the lifetime's phases times `turn`.
    """

    start: Array
    rates: Array
    leave: Array
    one: Array
    turn: Array

    @property
    def order(self) -> int:
        return len(self.start)

    def astype(self, dtype: type[np.float64] | type[np.complex128]) -> TriangularPhaseType:
        parts = (self.start, self.rates, self.leave, self.one, self.turn)
        return TriangularPhaseType(*(part.astype(dtype) for part in parts))


def triangular_phase_type(lifetime: PhaseType) -> TriangularPhaseType:
    reached = np.flatnonzero(lifetime.reachable_phases)
    start, rates = lifetime.alpha[reached], lifetime.S[np.ix_(reached, reached)]
    leave, one = lifetime.exit_rates[reached], np.ones(len(reached))
    order = _one_way_order(rates)
    here = np.eye(lifetime.order)[:, reached]
    if order is not None:
        return TriangularPhaseType(start[order], rates[np.ix_(order, order)], leave[order], one, here[:, order])
    turn, triangle = _schur(rates)
    back = turn.conj().T
    return TriangularPhaseType(start @ turn, triangle, back @ leave, back @ one, here @ turn)


def _one_way_order(rates: Array) -> IntArray | None:
    """An order of phases in which none leads back, if there is one."""
    left = list(range(len(rates)))
    order: list[int] = []
    while left:
        sources = [i for i in left if not any(rates[j, i] for j in left if j != i)]
        if not sources:
            return None
        order.append(sources[0])
        left.remove(sources[0])
    return np.array(order)


def _schur(matrix: Array) -> tuple[Array, Array]:
    """A unitary Q and an upper triangular T with matrix = Q T Q*, eigenvalue by eigenvalue."""
    size = len(matrix)
    turn: Array = np.eye(size)
    triangle: Array = matrix
    for k in range(size - 1):
        _, vectors = np.linalg.eig(triangle[k:, k:])
        # The first column of Q is an eigenvector; Householder's method completes it.
        step, _ = np.linalg.qr(np.column_stack([vectors[:, 0], np.eye(size - k)[:, 1:]]))
        whole = np.eye(size, dtype=step.dtype)
        whole[k:, k:] = step
        turn = turn @ whole
        triangle = whole.conj().T @ triangle @ whole
    return turn, np.triu(triangle)


def kronecker_power(vector: Array, digits: int) -> Array:
    """Kronecker power of a vector; 1 for no digits."""
    product: Array = np.ones(1, dtype=vector.dtype)
    for _ in range(digits):
        product = np.multiply.outer(product, vector).ravel()
    return product


def append_page_phase(x: Array, vector: Array) -> Array:
    """`x[digits, state]` with one more digit at the end."""
    longer: Array = x[:, None, :] * vector[None, :, None]
    return longer.reshape(-1, x.shape[1])


def sum_out_page_phase(x: Array, digit: int, weights: Array) -> Array:
    """`x[digits, state]` without one of the digits, which is summed out with weights."""
    cube = x.reshape(len(weights) ** digit, len(weights), -1)
    left: Array = np.einsum("asb,s->ab", cube, weights)
    return left.reshape(-1, x.shape[1])


def change_basis(x: Array, digits: int, turn: Array) -> Array:
    """`x[digits, state]` with every digit turned."""
    before, after = turn.shape
    for digit in range(digits):
        x = np.einsum("asb,st->atb", x.reshape(after**digit, before, -1), turn)
    return x.reshape(after**digits, -1)


def obsolescence_flow(x: Array, waiting: int, leave: Array) -> Array:
    """`x[digits, state]` after any one of the first `waiting` pages has left."""
    R = len(leave)
    fewer = np.zeros(x.size // R, dtype=x.dtype)
    _add_obsolescence_flow(x.ravel(), x.size // R, waiting, leave, fewer)
    return fewer.reshape(-1, x.shape[1])


@lru_cache(maxsize=64)
def phase_multisets(order: int, digits: int) -> tuple[IntArray, IntArray]:
    """Which combinations hold the same phases in another order: (kind of each, phase counts of each kind)."""
    keys = np.zeros(1, dtype=np.int64)
    worth = (digits + 1) ** np.arange(order - 1, dtype=np.int64) if order > 1 else np.zeros(0, dtype=np.int64)
    worth = np.append(worth, 0)
    for _ in range(digits):
        keys = np.add.outer(keys, worth).ravel()
    distinct, kind = np.unique(keys, return_inverse=True)
    counts = np.zeros((len(distinct), order), dtype=np.int64)
    for s in range(order - 1):
        counts[:, s] = distinct // worth[s] % (digits + 1)
    counts[:, -1] = digits - counts.sum(axis=1)
    return kind.astype(np.int64), counts


class LevelSolver:
    """Solver of x (block (+) rates (+) ... (+) rates) = -b for a small block and a number of pages."""

    def __init__(self, block: Array, where: TriangularPhaseType, kind: IntArray, counts: IntArray):
        shifts = counts @ where.rates.diagonal()
        self._kind, self._rates, self._digits = kind, where.rates, int(counts[0].sum())
        eye = np.eye(len(block))
        self._inverse = np.linalg.inv(-(block[None] + shifts[:, None, None] * eye))

    def __call__(self, b: Array) -> Array:
        x = np.empty_like(b)
        sums, digits = np.empty(b.shape[1], dtype=b.dtype), np.zeros(self._digits, dtype=np.int64)
        _solve_level(b, self._kind, self._inverse, self._rates, x, sums, digits)
        return x


@jit
def _solve_level(
    b: Array, kind: IntArray, inverse: Array, rates: Array, x: Array, sums: Array, digits: IntArray
) -> None:
    """Combination by combination: the flow from earlier phases of any one page is already known."""
    combinations, n = b.shape
    R = len(rates)
    for r in range(combinations):
        for a in range(n):
            sums[a] = b[r, a]
        stride = 1
        for k in range(len(digits)):
            digit = digits[k]
            for s in range(digit):
                rate = rates[s, digit]
                if rate != 0.0:
                    before = r - (digit - s) * stride
                    for a in range(n):
                        sums[a] += x[before, a] * rate
            stride *= R
        here = kind[r]
        for c in range(n):
            total = sums[0] * inverse[here, 0, c]
            for a in range(1, n):
                total += sums[a] * inverse[here, a, c]
            x[r, c] = total
        for k in range(len(digits)):
            digits[k] += 1
            if digits[k] < R:
                break
            digits[k] = 0


@jit
def _add_obsolescence_flow(x: Array, stride: int, waiting: int, leave: Array, fewer: Array) -> None:
    """Both arrays flat; `stride` is that of the first digit, in numbers."""
    R = len(leave)
    for _ in range(waiting):
        for high in range(len(fewer) // stride):
            for s in range(R):
                rate = leave[s]
                source, target = (high * R + s) * stride, high * stride
                for low in range(stride):
                    fewer[target + low] += x[source + low] * rate
        stride //= R


def dense_distribution(chain: Chain) -> list[FloatArray]:
    """For each level, a row for each combination of waiting phases (the head's first), as in `ordered`."""
    rates, starts = dense_generator(chain, chain.model.lifetime)
    n = chain.model.arrival_phases * chain.model.service.order
    levels = np.split(stationary_distribution(rates), starts[1:])
    return [levels[0], *(np.ascontiguousarray(level.reshape(n, -1).T) for level in levels[1:])]


def dense_generator(chain: Chain, lifetime: PhaseType) -> tuple[FloatArray, list[int]]:
    """All rates (the diagonal is not filled in), and where the states of each level start."""
    service, up, top = chain.model.service, chain.arrivals.up, chain.highest_level
    W, M, R = chain.model.arrival_phases, service.order, lifetime.order
    sizes = [W, *(W * M * R**waiting for waiting in range(top))]
    starts = [sum(sizes[:level]) for level in range(top + 1)]
    rates = np.zeros((sum(sizes), sum(sizes)))

    def block(level: int, to: int) -> FloatArray:
        return rates[starts[level] : starts[level] + sizes[level], starts[to] : starts[to] + sizes[to]]

    start, next_served = lifetime.alpha[None], np.outer(service.exit_rates, service.alpha)
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
            block(1, 0)[:] = _kron(np.eye(W), service.exit_rates[:, None])
            continue
        head, rest = np.ones((R, 1)), np.eye(R ** (level - 2))
        block(level, level - 1)[:] = _kron(np.eye(W), reduce(_kron, [next_served, head, rest]))
        for page in range(level - 1):
            ahead, behind = np.eye(W * M * R**page), np.eye(R ** (level - 2 - page))
            block(level, level)[:] += reduce(_kron, [ahead, lifetime.S, behind])
            block(level, level - 1)[:] += reduce(_kron, [ahead, lifetime.exit_rates[:, None], behind])
    return rates, starts


def _kron(a: FloatArray, b: FloatArray) -> FloatArray:
    # numpy's own is thirty times as slow for small matrices.
    product: FloatArray = a[:, None, :, None] * b[None, :, None, :]
    return product.reshape(len(a) * len(b), -1)


#: States of the largest chain that is tried: about a minute, and a few hundred megabytes.
MOST_STATES = 2**21

#: States up to which the generator is written down.
DENSE = 300

ROUNDS = 2000
#: Relative change of every level, from round to round, at which nothing is left to gain.
SAME = 1e-14

#: Rounds that are mixed.
MIXED = 5


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


class LifetimePhaseChain:
    """A chain with the lifetime's phases. `solve` returns its solution, with a tensor for each level.

    Tensor i has a row for each combination of phases of the i - 1 waiting pages,
    the head's first, and a column for each arrival and service phase; level 0 has
    arrival phases only. Rows are in the lifetime's `coordinates`.
    """

    def __init__(self, chain: Chain):
        model = chain.model
        self.chain, self.at = chain, triangular_phase_type(model.lifetime)
        count = count_states(model, self.at.order)
        if count > MOST_STATES:
            raise ModelTooLarge(count)
        up, service, W = chain.arrivals.up, model.service, model.arrival_phases
        self.n, self.reach = W * service.order, up.shape[1] - 1
        spread = np.einsum("ijab,mk->ijambk", up, np.eye(service.order))
        self._climb = spread.reshape(*up.shape[:2], self.n, self.n)
        self._first = np.einsum("jab,k->jabk", up[0], service.alpha).reshape(-1, W, self.n)
        self._served = np.kron(np.eye(W), np.outer(service.exit_rates, service.alpha))
        self._ones, self._leaves, self._solvers = [], [], []
        leaves: Array = np.zeros(1, dtype=self.at.rates.dtype)
        for waiting in range(chain.highest_level):
            ones = kronecker_power(self.at.one, waiting)
            self._ones.append(ones)
            self._leaves.append(leaves)
            leaves = (np.multiply.outer(leaves, self.at.one) + np.multiply.outer(ones, self.at.leave)).ravel()
            block = self._climb[waiting + 1, 0] + np.kron(np.eye(W), service.S)
            self._solvers.append(LevelSolver(block, self.at, *phase_multisets(self.at.order, waiting)))

    def solve(self) -> tuple[FloatArray, FloatArray, list[Array]]:
        """Shares and rates of fading by level, arrival and service phase; and the solution in full."""
        if count_states(self.chain.model, self.chain.model.lifetime.order) > DENSE:
            return self.solve_by_iteration()
        empty, *levels = dense_distribution(self.chain)
        x: list[Array] = [empty.astype(self.at.rates.dtype)]
        x += [change_basis(level, waiting, self.at.turn) for waiting, level in enumerate(levels)]
        x, share, fades = self._rescale_levels(x)
        return share, fades, x

    def solve_by_iteration(self) -> tuple[FloatArray, FloatArray, list[Array]]:
        """By rounds, whatever the size."""
        share = exponential_lifetimes.banded_distribution(
            self.chain, exponential_lifetimes.obsolescence_rates(self.chain, self.chain.model.lifetime.rate)
        )
        x: list[Array] = [share[0, :, 0].astype(self.at.rates.dtype)]
        for waiting, level in enumerate(share[1:]):
            x.append(np.multiply.outer(kronecker_power(self.at.start, waiting), level.ravel()))
        mixture = _AndersonMixing()
        best, since = np.inf, 0
        for _ in range(ROUNDS):
            before = [level.copy() for level in x[:-1]]
            for level in range(self.chain.highest_level, 0, -1):
                x[level] = self._solvers[level - 1](self._inflow(x, level))
            x, share, fades = self._rescale_levels(x)
            change = max(_relative_change(new, old) for new, old in zip(x, before, strict=False))
            best, since = (change, 0) if change < best else (best, since + 1)
            if change <= SAME or (best < 1e-11 and since > 3):
                return share, fades, x
            mixed = mixture.mix_iterates(before, x[:-1])
            if self._is_plausible(mixed):
                x[:-1] = mixed
            else:
                mixture = _AndersonMixing()
        raise NotConverged(change)

    def _inflow(self, x: list[Array], level: int) -> Array:
        """What enters a level from others, in a unit of time."""
        total: Array | None = None
        for below in range(max(0, level - self.reach), level):
            jump = level - below
            rising = x[below] @ self._climb[below, jump] if below else (x[0] @ self._first[jump])[None]
            if total is not None:
                rising = rising + (total if below == 1 else append_page_phase(total, self.at.start))
            total = rising
        assert total is not None
        if level > 1:
            total = append_page_phase(total, self.at.start)
        if level < self.chain.highest_level:
            above = x[level + 1]
            total = total + sum_out_page_phase(above, 0, self.at.one) @ self._served
            total += obsolescence_flow(above, level, self.at.leave)
        return total

    def _rescale_levels(self, x: list[Array]) -> tuple[list[Array], FloatArray, FloatArray]:
        """The levels weighed against each other, given how pages are distributed within each."""
        shape = (self.chain.model.arrival_phases, self.chain.model.service.order)
        sums, fades = np.zeros((2, self.chain.highest_level + 1, *shape))
        for level in range(1, self.chain.highest_level + 1):
            sums[level] = (self._ones[level - 1] @ x[level]).real.reshape(shape)
            fading = (self._leaves[level - 1] @ x[level]).real.reshape(shape)
            np.divide(fading, sums[level], out=fades[level], where=sums[level] > 0)
        share = exponential_lifetimes.banded_distribution(self.chain, fades)
        weighed: list[Array] = [share[0, :, 0].astype(x[0].dtype)]
        for level in range(1, self.chain.highest_level + 1):
            factor = np.divide(share[level], sums[level], out=np.zeros(shape), where=sums[level] > 0)
            weighed.append(x[level] * factor.ravel())
        return weighed, share, fades

    def _is_plausible(self, x: list[Array]) -> bool:
        """Whether a mixture is still something like a distribution."""
        return bool((x[0].real >= 0).all()) and all(
            ((self._ones[waiting] @ level).real >= 0).all() and ((self._leaves[waiting] @ level).real >= 0).all()
            for waiting, level in enumerate(x[1:])
        )


class _AndersonMixing:
    """The mixture of past rounds that would have changed least."""

    def __init__(self) -> None:
        self._results: list[Array] = []
        self._changes: list[Array] = []

    def mix_iterates(self, before: list[Array], after: list[Array]) -> list[Array]:
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
        ends = np.cumsum([level.size for level in after])
        return [part.reshape(level.shape) for part, level in zip(np.split(result, ends[:-1]), after, strict=True)]


def _relative_change(new: Array, old: Array) -> float:
    """Relative to the size of a level, be it ever so rare."""
    size = float(np.abs(new).sum())
    return float(np.abs(new - old).sum()) / size if size else 0.0


def _dot(a: Array, b: Array) -> float:
    # Not `vdot`: for vectors of this length it starts threads, which cost more than they help.
    return float(np.einsum("i,i->", a.conj(), b).real)
