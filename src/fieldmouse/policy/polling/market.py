"""One budget, many pages, hosts that bear only so much: the price at which the polls are sold out.

Every plan here is the answer to "maximise a sum of concave functions of each page's polls, the polls
summing to a budget". Then there is a price of a poll (the Lagrange multiplier), and a page
buys polls until one more is not worth the price. The lower the price, the more is bought, so the price
is found by halving. A host that would be asked for more than it bears has a price of its own, higher than the
common one (Kolobov, Bubeck and Zimmert 2020): its pages buy fewer polls and the other hosts' pages buy those.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.polling.interface import Hosts, Reals

Demand = Callable[[Reals], Reals]
"""The polls that each page buys: at one price, or at a price a page. Never rises with a price."""

_WIDE = 115.0
"""Prices are sought between exp(-this) and exp(this): seconds, slots and years alike."""

_STEPS = 46
"""Halvings: prices are right to some 1e-12."""


def sell(
    demand: Demand, budget: float, *, host: Hosts | None = None, host_limit: npt.ArrayLike | None = None
) -> Reals:
    """The polls of each page at the prices that spend the budget and keep every host's limit.

    >>> sell(lambda price: np.ones(3) / price, 6.0).round(6).tolist()
    [2.0, 2.0, 2.0]
    >>> two = np.array([0, 0, 1])
    >>> sell(lambda price: np.ones(3) / price, 6.0, host=two, host_limit=[1.0, 9.0]).round(6).tolist()
    [0.5, 0.5, 5.0]
    """
    if host is None or host_limit is None:
        return _sold(lambda log_price: demand(np.exp(log_price)), budget)
    where = np.asarray(host)
    hosts = int(where.max(initial=-1)) + 1
    limits = np.asarray(host_limit, np.float64)
    limits = np.full(hosts, limits) if limits.ndim == 0 else limits[:hosts]
    own = _host_prices(demand, where, limits)[where]
    polls = _sold(lambda log_price: demand(np.exp(np.maximum(log_price, own))), budget)
    asked = np.bincount(where, polls, hosts)
    return np.asarray(polls * np.minimum(1.0, limits / np.maximum(asked, limits).clip(1e-300))[where])


def _sold(demand: Demand, budget: float) -> Reals:
    """Polls at the one logarithm of a price that spends the budget; at the lowest one if nothing does."""
    low, high = np.full(1, -_WIDE), np.full(1, _WIDE)
    most = demand(low)
    if not float(most.sum()) > budget:
        return most
    least = demand(high)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        polls = demand(middle)
        if float(polls.sum()) > budget:
            low, most = middle, polls
        else:
            high, least = middle, polls
    # Pages that all jump at one price leave a rest, which they share.
    between = float(most.sum() - least.sum())
    share = min(1.0, (budget - float(least.sum())) / between) if between > 0 else 0.0
    polls = least + (most - least) * share
    return np.asarray(polls * min(1.0, budget / max(float(polls.sum()), 1e-300)))


def _host_prices(demand: Demand, where: Hosts, limits: Reals) -> Reals:
    """The logarithm of the price at which a host's pages ask for what it bears; -inf where any will do."""
    low, high = np.full(len(limits), -_WIDE), np.full(len(limits), _WIDE)
    enough = np.bincount(where, demand(np.exp(low[where])), len(limits)) <= limits
    for _ in range(_STEPS):
        middle = (low + high) / 2
        asked = np.bincount(where, demand(np.exp(middle[where])), len(limits))
        low = np.where(asked > limits, middle, low)
        high = np.where(asked > limits, high, middle)
    return np.where(enough, -np.inf, high)
