"""The best that anybody could do: every host visited equally often, by whoever does it cheapest over all.

A linear programme: visits of each host are divided among agents so that the busiest agent has as little to
do as possible. Its dual is a price a second for each agent: the sum over hosts of the cheapest
priced visit is never more than that least load, and equals it for the best prices.
"""

from __future__ import annotations

import numpy as np

from fieldmouse.policy.balance.kalman import Reals

_SMALL = 50_000


def least_load(service: Reals) -> float:
    """Seconds of the busiest agent while each host is visited once, divided as well as can be."""
    if service.size <= _SMALL:
        return _programme(service)
    return _by_prices(service)


def limit(service: Reals) -> float:
    """Visits a second of the whole network when all hosts are visited equally often."""
    return len(service) / least_load(service)


def _programme(service: Reals) -> float:
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack, vstack

    hosts, agents = service.shape
    number = hosts * agents
    columns = np.arange(number)
    loads = csr_array((service.ravel(), (columns % agents, columns)), shape=(agents, number))
    whole = csr_array((np.ones(number), (columns // agents, columns)), shape=(hosts, number))
    busiest = csr_array(-np.ones((agents, 1)))
    nothing = csr_array((hosts, 1))
    found = linprog(
        np.append(np.zeros(number), 1.0),
        A_ub=hstack([loads, busiest]),
        b_ub=np.zeros(agents),
        A_eq=vstack([hstack([whole, nothing])]),
        b_eq=np.ones(hosts),
        method="highs",
    )
    return float(found.fun)


def _by_prices(service: Reals, rounds: int = 2000) -> float:
    """From below, by the dual: mirror ascent on the prices. At most a thousandth too small."""
    agents = service.shape[1]
    price = np.full(agents, 1.0 / agents)
    best = 0.0
    every = np.arange(len(service))
    for turn in range(1, rounds + 1):
        priced = service * price
        chosen = priced.argmin(axis=1)
        best = max(best, float(priced[every, chosen].sum()))
        load = np.bincount(chosen, service[every, chosen], agents)
        price *= np.exp((load / load.sum() * agents - 1.0) * 0.5 / np.sqrt(turn))
        price /= price.sum()
    return best
