"""The best that anybody could do: every host visited equally often, by whoever does it cheapest over all.

A linear programme: visits of each host are divided among agents so that the busiest agent has as little to
do as possible. Hosts that are alike are one host, so many times, and so are agents: of the thesis's
web there are at most 400 different hosts and few different agents, however large it is.

It is a limit for who visits all hosts equally often. Who visits slow hosts a little less often than fast
ones may have a harmonic throughput some per cent above it.
"""

from __future__ import annotations

import numpy as np

from fieldmouse.policy.balance.kalman import Reals


def least_load(service: Reals) -> float:
    """Seconds of the busiest agent while each host is visited once, divided as well as can be."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack

    some, hosts_alike = np.unique(service, axis=0, return_counts=True)
    kinds, agents_alike = np.unique(some, axis=1, return_counts=True)
    hosts, agents = kinds.shape
    number = hosts * agents
    columns = np.arange(number)
    # What a kind of agent does of the visits of a kind of host; the load is that of one of these agents.
    work = (kinds * hosts_alike[:, None] / agents_alike).ravel()
    loads = csr_array((work, (columns % agents, columns)), shape=(agents, number))
    whole = csr_array((np.ones(number), (columns // agents, columns)), shape=(hosts, number))
    busiest = csr_array(-np.ones((agents, 1)))
    found = linprog(
        np.append(np.zeros(number), 1.0),
        A_ub=hstack([loads, busiest]),
        b_ub=np.zeros(agents),
        A_eq=hstack([whole, csr_array((hosts, 1))]),
        b_eq=np.ones(hosts),
        method="highs",
    )
    return float(found.fun)


def limit(service: Reals) -> float:
    """Visits a second of the whole network when all hosts are visited equally often."""
    return len(service) / least_load(service)
