"""Fate of one page in the queue when every page ahead of it has a separate lifetime phase.

A page that starts to wait finds n pages ahead: the first of them in service,
the others and the page itself each in some phase of life. From there on pages ahead
only leave, one by one, until the page is served or its lifetime ends; nothing that
comes later matters. So newcomers are pushed down from the largest n to 0, and at each
n the time spent is one exact solution of a level (the paper's section 5, read
forwards: no vectors per starting state, and no inverse of a sum of matrices).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fieldmouse.queueing.model.measures import Stay
from fieldmouse.queueing.solve.coordinates import (
    Array,
    LevelSolver,
    appended,
    faded,
    kinds,
    powers,
    summed_out,
)
from fieldmouse.queueing.solve.ordered import Ordered


def newcomers(ordered: Ordered, x: Sequence[Array]) -> list[Array]:
    """Pages let in, in a unit of time: for each number ahead, by phases (its own last) and service phase."""
    chain, at = ordered.chain, ordered.at
    service, W = chain.model.service, chain.model.phases
    # place[i, l]: how often, at level i, a batch brings an l-th page that is let in.
    place = chain.arrivals.up.sum(axis=3)[:, ::-1].cumsum(axis=1)[:, ::-1]
    found: list[Array] = []
    for ahead in range(chain.top):
        total: Array | None = None
        for level in range(max(0, ahead + 1 - ordered.reach), ahead + 1):
            nth = ahead - level + 1
            if level:
                coming = np.einsum("rwm,w->rm", x[level].reshape(-1, W, service.order), place[level, nth])
            else:
                coming = (x[0] @ place[0, nth]) * service.alpha[None]
            if total is not None:
                coming = coming + (total if level == 1 else appended(total, at.start))
            total = coming
        assert total is not None
        found.append(appended(total, at.start) if ahead else total)
    return found


def pushed(
    ordered: Ordered, newcomers: Sequence[Array], u: complex = 0.0, powers_of_time: int = 1
) -> tuple[Array, Array]:
    """E[T^k exp(-u T); served] and E[T^k exp(-u T); obsolete], in a unit of time, for k = 0, 1, ...

    u is real or complex, its real part not negative.
    """
    at, service = ordered.at, ordered.chain.model.service
    complex_numbers = np.iscomplexobj(at.rates) or isinstance(u, complex)
    dtype = np.complex128 if complex_numbers else np.float64
    block = (service.S - u * np.eye(service.order)).astype(dtype)
    where = at.astype(dtype)
    next_served = np.outer(service.exit, service.alpha).astype(dtype)
    served, obsolete = np.zeros((2, powers_of_time), dtype=dtype)
    falling: list[Array] = []
    for ahead in range(len(newcomers) - 1, -1, -1):
        solve = LevelSolver(block, where, *kinds(at.order, ahead))
        own_end = np.multiply.outer(powers(where.one, ahead - 1), where.leave).ravel() if ahead else None
        previous: Array | None = None
        fallen: list[Array] = []
        for k in range(powers_of_time):
            entering = newcomers[ahead].astype(dtype) if k == 0 else 0.0
            if falling:
                entering = entering + falling[k]
            if previous is not None:
                entering = entering + k * previous
            time = solve(np.ascontiguousarray(entering))
            previous = time
            if own_end is None:
                served[k] = (time @ service.exit).sum()
                continue
            obsolete[k] += (own_end @ time).sum()
            after = summed_out(time, 0, where.one) @ next_served
            if ahead > 1:
                after = after + faded(time, ahead - 1, where.leave)
            fallen.append(after)
        falling = fallen
    return served, obsolete


def stays(ordered: Ordered, x: Sequence[Array]) -> tuple[Stay, Stay]:
    """Of pages served and of pages grown obsolete."""
    served, obsolete = pushed(ordered, newcomers(ordered, x), powers_of_time=3)
    return Stay(*(float(s) for s in served.real)), Stay(*(float(s) for s in obsolete.real))
