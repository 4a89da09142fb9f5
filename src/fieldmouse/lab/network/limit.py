"""Upper bound of the throughput when every host is visited equally often.

A linear programme divides the visits of each host among agents so that the load of the busiest agent is
minimal. Equal hosts are merged into one with a multiplicity, and so are equal agents: the thesis's web has
at most 400 different hosts and few different agents at any size.

The bound holds for policies that visit all hosts equally often. A policy that visits slow hosts a little
less often than fast ones may have a harmonic throughput some per cent above it.
"""

from __future__ import annotations

import numpy as np

from fieldmouse.policy.balance.kalman import Reals


def least_load(service: Reals) -> float:
    """Minimal seconds of the busiest agent while each host is visited once."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack

    some, hosts_alike = np.unique(service, axis=0, return_counts=True)
    kinds, agents_alike = np.unique(some, axis=1, return_counts=True)
    hosts, agents = kinds.shape
    number = hosts * agents
    columns = np.arange(number)
    # Work of one kind of agent for the visits of one kind of host; the load is that of one of these agents.
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
    """Visits per second of the whole network when all hosts are visited equally often."""
    return len(service) / least_load(service)
