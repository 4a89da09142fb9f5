"""Lifetimes in coordinates in which a phase only ever leads to later ones.

A chain that keeps the lifetime phase of every waiting page is a large one, but if
phases follow each other in one direction its levels can be solved page by page, from
the first phase to the last. Erlang, Coxian and hyperexponential lifetimes are so
already. Any other is turned so by a unitary matrix (Schur): the coordinates are then
no probabilities, but all that is asked of them, sums, comes out right. An
eigendecomposition would not do: Erlang lifetimes have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldmouse.jit import jit
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import IntArray

Array = NDArray[Any]
"""Floats, or complex numbers where a lifetime's rates have complex eigenvalues."""


@dataclass(frozen=True, eq=False)
class Coordinates:
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

    def astype(self, dtype: type[np.float64] | type[np.complex128]) -> Coordinates:
        parts = (self.start, self.rates, self.leave, self.one, self.turn)
        return Coordinates(*(part.astype(dtype) for part in parts))


def triangular_coordinates(lifetime: PhaseType) -> Coordinates:
    reached = np.flatnonzero(lifetime.reached)
    start, rates = lifetime.alpha[reached], lifetime.S[np.ix_(reached, reached)]
    leave, one = lifetime.exit[reached], np.ones(len(reached))
    order = _one_way(rates)
    here = np.eye(lifetime.order)[:, reached]
    if order is not None:
        return Coordinates(start[order], rates[np.ix_(order, order)], leave[order], one, here[:, order])
    turn, triangle = _schur(rates)
    back = turn.conj().T
    return Coordinates(start @ turn, triangle, back @ leave, back @ one, here @ turn)


def _one_way(rates: Array) -> IntArray | None:
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


def append_digit(x: Array, vector: Array) -> Array:
    """`x[digits, state]` with one more digit at the end."""
    longer: Array = x[:, None, :] * vector[None, :, None]
    return longer.reshape(-1, x.shape[1])


def sum_out_digit(x: Array, digit: int, weights: Array) -> Array:
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
    _faded(x.ravel(), x.size // R, waiting, leave, fewer)
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

    def __init__(self, block: Array, where: Coordinates, kind: IntArray, counts: IntArray):
        shifts = counts @ where.rates.diagonal()
        self._kind, self._rates, self._digits = kind, where.rates, int(counts[0].sum())
        eye = np.eye(len(block))
        self._inverse = np.linalg.inv(-(block[None] + shifts[:, None, None] * eye))

    def __call__(self, b: Array) -> Array:
        x = np.empty_like(b)
        sums, digits = np.empty(b.shape[1], dtype=b.dtype), np.zeros(self._digits, dtype=np.int64)
        _level(b, self._kind, self._inverse, self._rates, x, sums, digits)
        return x


@jit
def _level(
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
def _faded(x: Array, stride: int, waiting: int, leave: Array, fewer: Array) -> None:
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
