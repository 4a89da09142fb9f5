"""Allocation of a poll budget to pages, with limits per host, by a price per poll.

Every plan maximises a sum of concave functions of each page's polls under a budget. Then there is a price
of a poll (the Lagrange multiplier), and a page buys polls until one more is not worth the price. The
lower the price, the more is bought, so the price is found by bracketing. A host above its limit gets its
own, higher price (Kolobov, Bubeck and Zimmert 2020): its pages buy fewer polls, and pages of other hosts
buy those.

A page that changes at the rate `lam` and is polled evenly, `f` times per time unit, is fresh for the
share f/lam * (1 - exp(-lam/f)) of the time (Cho and Garcia-Molina 2000). One more poll is worth
slope(lam/f) / lam, at most 1/lam: at a higher price the page is not polled. With slots, where copies are
judged after the slot's polls, both are larger by lam / (1 - exp(-lam)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.polling.interface import Hosts, Reals

_MOST = 45.0
_CHANGES = np.geomspace(1e-7, _MOST, 20_000)


def marginal_freshness(changes: Reals) -> Reals:
    """1 - (1 + x) exp(-x), exact for small x.

    >>> marginal_freshness(np.array([0.0, 1e-4, 1.0])).round(12).tolist()
    [0.0, 5e-09, 0.264241117657]
    """
    x = np.asarray(changes, np.float64)
    small = x * x * (0.5 - x / 3)
    return np.asarray(np.where(x < 1e-3, small, -np.expm1(-x) - x * np.exp(-x)))


_SLOPES = marginal_freshness(_CHANGES)
_LOG_CHANGES, _LOG_SLOPES = np.log(_CHANGES), np.log(_SLOPES)


def inverse_marginal_freshness(value: Reals) -> Reals:
    """Inverse of `marginal_freshness`; infinite from 1 on.

    >>> inverse_marginal_freshness(marginal_freshness(np.array([1e-9, 0.01, 1.0, 30.0]))).round(4).tolist()
    [0.0, 0.01, 1.0, 30.0]
    >>> float(inverse_marginal_freshness(np.array([1.0]))[0])
    inf
    """
    value = np.asarray(value, np.float64)
    with np.errstate(divide="ignore"):
        log = np.log(value)
    inside = np.exp(np.interp(log, _LOG_SLOPES, _LOG_CHANGES))
    below = value < _SLOPES[0]
    return np.asarray(np.where(value >= _SLOPES[-1], np.inf, np.where(below, np.sqrt(2 * value), inside)))


def slot_factor(rates: Reals, grain: float) -> Reals:
    """Factor by which polls are worth more with slots of this length; 1 without slots."""
    if not grain:
        return np.ones_like(rates)
    x = np.maximum(rates * grain, 1e-12)
    return np.asarray(x / -np.expm1(-x))


#: Polls that each page buys, at one price or at a price per page. Never rises with a price.
Demand = Callable[[Reals], Reals]

#: Prices are sought between exp(-this) and exp(this): enough for seconds, slots and years.
_WIDE = 115.0

_STEPS = 60
_NEAR = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class PollBudget:
    """Polls per time unit to divide among pages, with the other arguments of `PollingPolicy.plan`.

    >>> PollBudget(6.0).allocate(lambda price: np.ones(3) / price).round(6).tolist()
    [2.0, 2.0, 2.0]
    >>> limited = PollBudget(6.0, host=np.array([0, 0, 1]), host_limit=[1.0, 9.0])
    >>> limited.allocate(lambda price: np.ones(3) / price).round(6).tolist()
    [0.5, 0.5, 5.0]
    """

    polls: float
    weight: npt.ArrayLike | None = None
    host: Hosts | None = None
    host_limit: npt.ArrayLike | None = None

    def scaled(self, share: float) -> PollBudget:
        """This share of the polls, also of each host's."""
        limit = None if self.host_limit is None else share * np.asarray(self.host_limit, np.float64)
        return replace(self, polls=share * self.polls, host_limit=limit)

    def weights(self, pages: int) -> Reals:
        return np.ones(pages) if self.weight is None else np.asarray(self.weight, np.float64)

    def allocate(self, demand: Demand) -> Reals:
        """Polls of each page at the prices that spend the budget within every host's limit."""
        if self.host is None or self.host_limit is None or not len(self.host):
            return _polls_within_limits(demand, np.zeros(1, np.intp), np.full(1, self.polls))
        limits = np.asarray(self.host_limit, np.float64)
        limits = np.full(int(self.host.max()) + 1, limits) if limits.ndim == 0 else limits
        alone = _polls_within_limits(demand, self.host, limits)
        if float(alone.sum()) <= self.polls:
            return alone
        # At the higher of two prices a page buys the smaller of two numbers.
        return PollBudget(self.polls).allocate(lambda price: np.minimum(demand(price), alone))

    def allocate_proportionally(self, shares: Reals, grain: float = 0.0) -> Reals:
        """Divide the budget in these proportions, times the pages' weights, within the host limits.

        grain: no page is polled twice in a slot of this length.
        """
        shares = shares * self.weights(len(shares))
        whole = float(shares.sum())
        if not whole > 0 or not self.polls > 0:
            return np.zeros(len(shares))
        if (self.host is None or self.host_limit is None) and not grain:
            return np.asarray(shares * (self.polls / whole))
        most = 1 / grain if grain else np.inf
        return self.allocate(lambda price: np.minimum(shares / price, most))


def _polls_within_limits(demand: Demand, purse: Hosts, limits: Reals) -> Reals:
    """Polls bought if all pages of a purse pay the one price that just spends it."""
    low, high = _bracket_log_prices(demand, purse, limits)
    least = demand(np.exp(high)[purse])
    # Pages that all jump at one price leave a remainder, which they share.
    most = np.maximum(demand(np.exp(low)[purse]), least)
    spent, more = _sums_by_purse(least, purse, limits), _sums_by_purse(most - least, purse, limits)
    share = np.clip((limits - spent) / np.maximum(more, 1e-300), 0.0, 1.0)
    polls = least + (most - least) * share[purse]
    whole = _sums_by_purse(polls, purse, limits)
    return np.asarray(polls * (limits / np.maximum(whole, np.maximum(limits, 1e-300)))[purse])


def _sums_by_purse(polls: Reals, purse: Hosts, limits: Reals) -> Reals:
    if len(limits) == 1:
        return np.full(1, polls.sum())
    return np.asarray(np.bincount(purse, polls, len(limits)), np.float64)


def _bracket_log_prices(demand: Demand, purse: Hosts, limits: Reals) -> tuple[Reals, Reals]:
    """Log prices, close together, for each purse: at the lower one more is bought than the purse holds.

    If even the lowest price does not spend the purse, both are the lowest. Found by alternating bisection
    and linear interpolation in logarithms.
    """
    low, high = np.full(len(limits), -_WIDE), np.full(len(limits), _WIDE)
    target = np.log(np.maximum(limits, 1e-300))
    at_low, at_high = (
        np.log(np.maximum(_sums_by_purse(demand(np.exp(end)[purse]), purse, limits), 1e-300)) - target
        for end in (low, high)
    )
    high = np.where(at_low <= 0, low, high)
    for step in range(_STEPS):
        part = np.full(len(limits), 0.5)
        if step % 3:
            part = np.clip(at_low / np.maximum(at_low - at_high, 1e-300), 0.02, 0.98)
        middle = low + part * (high - low)
        bought = np.log(np.maximum(_sums_by_purse(demand(np.exp(middle)[purse]), purse, limits), 1e-300)) - target
        over = (bought > 0) & (high > low)
        low, at_low = np.where(over, middle, low), np.where(over, bought, at_low)
        high, at_high = np.where(over, high, np.minimum(middle, high)), np.where(over, at_high, bought)
        near = (np.abs(bought) < _NEAR) & (high > low)
        low, high = np.where(near, middle, low), np.where(near, middle, high)
        if (high - low < _NEAR).all():
            break
    return low, high
