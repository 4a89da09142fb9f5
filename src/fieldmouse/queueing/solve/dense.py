"""The ordered chain of a small system, written down state by state.

The generator of the paper's lemma (section 3), block by block from Kronecker
products, reduced without a subtraction. It takes the square of the number of states
in memory and the cube in time, which for a few hundred is less than what rounds of
`ordered` take to settle, and it is a second way to the same numbers.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from fieldmouse.queueing.model.bmap import stationary
from fieldmouse.queueing.model.chain import Chain
from fieldmouse.queueing.model.entries import FloatArray
from fieldmouse.queueing.model.ph import PhaseType


def distribution(chain: Chain) -> list[FloatArray]:
    """For each level, a row for each combination of waiting phases (the head's first), as in `ordered`."""
    rates, starts = generator(chain, chain.model.lifetime)
    n = chain.model.phases * chain.model.service.order
    levels = np.split(stationary(rates), starts[1:])
    return [levels[0], *(np.ascontiguousarray(level.reshape(n, -1).T) for level in levels[1:])]


def generator(chain: Chain, lifetime: PhaseType) -> tuple[FloatArray, list[int]]:
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
