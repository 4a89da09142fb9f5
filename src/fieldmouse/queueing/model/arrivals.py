"""Four ways to define arrivals for each number of fetch workers (section 2 of Avrachenkov et al. 2011).

Each gives arrivals by number of fetch workers, all over the same phases, so that the
phase is kept when fetch workers are started or stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import zip_longest

import numpy as np
from numpy.typing import ArrayLike

from fieldmouse.queueing.model import bmap, entries
from fieldmouse.queueing.model.bmap import BatchArrivals
from fieldmouse.queueing.model.entries import FloatArray, ModelError


def independent(robots: Sequence[BatchArrivals]) -> dict[int, BatchArrivals]:
    """Model 1: every fetch worker is an independent stream; in mode l the first l of them bring pages.

    A stopped worker keeps changing phase without arrivals. (The paper prints
    a Kronecker product where that needs a sum: D_0 (+) D(1), not D_0 (x) D(1).)

    >>> two = independent([BatchArrivals.poisson(1.0), BatchArrivals.poisson(3.0)])
    >>> {l: stream.rate for l, stream in two.items()}
    {1: 1.0, 2: 4.0}
    """
    modes = {}
    for active in range(1, len(robots) + 1):
        working, resting = robots[:active], robots[active:]
        silent = [_sum([one.D[0] for one in working] + [one.generator for one in resting])]
        nothing = [np.zeros_like(one.D[0]) for one in robots]
        batches = zip_longest(*(one.D[1:] for one in working))
        bringing = [
            _sum(
                [still if D is None else D for D, still in zip(both, nothing, strict=False)]
                + nothing[active:]
            )
            for both in batches
        ]
        modes[active] = BatchArrivals((*silent, *bringing))
    return modes


def thinned(common: BatchArrivals, q: Sequence[float]) -> dict[int, BatchArrivals]:
    """Model 2: one stream; with l robots at work a batch of it is brought with probability q[l - 1].

    >>> {l: stream.rate for l, stream in thinned(BatchArrivals.poisson(2.0), [0.25, 1.0]).items()}
    {1: 0.5, 2: 2.0}
    """
    before = 0.0
    for i, share in enumerate(q):
        if not before < share <= 1:
            raise ModelError(f"q[{i}] is {share:.12g}: shares must rise, from above 0 to at most 1")
        before = share
    return {
        robots: BatchArrivals(
            (share * common.D[0] + (1 - share) * common.generator, *(share * D for D in common.D[1:]))
        )
        for robots, share in enumerate(q, 1)
    }


def marked(D0: ArrayLike, per_robot: Sequence[Sequence[ArrayLike]]) -> dict[int, BatchArrivals]:
    """Model 3: one phase for all robots, and per_robot[l - 1] = (D_1, D_2, ...) of what robot l brings.

    What a robot called back would have brought is only a change of phase. The paper
    holds this one to be the most realistic: robots may depend on each other.
    """
    first = entries.matrix(np.asarray(D0), "D0")
    brought = [
        [entries.matrix(np.asarray(D), f"robot {robot}, D{k}", len(first)) for k, D in enumerate(batches, 1)]
        for robot, batches in enumerate(per_robot, 1)
    ]
    nothing = np.zeros_like(first)
    modes = {}
    for active in range(1, len(brought) + 1):
        unheard = sum((sum(batches, nothing) for batches in brought[active:]), nothing)
        together = [sum(batches, nothing) for batches in zip_longest(*brought[:active], fillvalue=nothing)]
        modes[active] = BatchArrivals((first + unheard, *together))
    return modes


def given(modes: Mapping[int, BatchArrivals | Sequence[ArrayLike]]) -> dict[int, BatchArrivals]:
    """Model 4: D[0], D[1], ... for each number of robots, as they were measured or made up."""
    return {
        robots: D if isinstance(D, BatchArrivals) else BatchArrivals(bmap.sound(D, f"mode {robots}"))
        for robots, D in modes.items()
    }


def _sum(matrices: Sequence[FloatArray]) -> FloatArray:
    """The Kronecker sum: chains side by side, each changing on its own."""
    return reduce(lambda one, two: np.kron(one, np.eye(len(two))) + np.kron(np.eye(len(one)), two), matrices)
