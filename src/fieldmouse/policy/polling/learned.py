"""The most freshness that a budget can buy, when rates are not known but believed.

`Optimal` with estimates put in for the rates would trust a page that changed at one look out of one. Here
the value of a poll is the mean of its values over all rates that the page may have, so a
page that is hardly known is polled much as its population is, and one that is well known as it should be.
A share of the budget goes to all pages alike: what is given up is looked at again now and then, and
a page that changes its habits is found.

The value of a poll at each of some poll rates is a table of a row a page. It is made in blocks, once a plan;
a price then is a place in each row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.change.belief import Beliefs
from fieldmouse.policy.change.population import Population, blocks, population, posterior
from fieldmouse.policy.polling.curve import slope, slotted
from fieldmouse.policy.polling.interface import Hosts, Reals, State, Stateless
from fieldmouse.policy.polling.market import sell
from fieldmouse.policy.polling.uniform import in_shares

LEVELS = 24
REACH = 300.0
"""Poll rates are tabled from the mean divided by this to the mean times this; less is none."""


@dataclass(frozen=True, slots=True)
class Learned(Stateless):
    """explore: the share of the budget that all pages get alike. grain: as in `Optimal`."""

    explore: float = 0.03
    grain: float = 0.0

    def plan(
        self,
        state: State,
        belief: Beliefs,
        budget: float,
        *,
        weight: npt.ArrayLike | None = None,
        host: Hosts | None = None,
        host_limit: npt.ArrayLike | None = None,
    ) -> Reals:
        pages = len(belief)
        if not pages or not budget > 0:
            return np.zeros(pages)
        limits = None if host_limit is None else np.asarray(host_limit, np.float64)
        if not np.isfinite(budget) and limits is not None and host is not None:
            budget = float(np.broadcast_to(limits, int(host.max()) + 1).sum())
        table = _Values.of(belief, budget / pages, self.grain)
        log_weight = np.zeros(pages)
        if weight is not None:
            with np.errstate(divide="ignore"):
                log_weight = np.log(np.asarray(weight, np.float64))
        known, unknown = 1 - self.explore, self.explore
        polls = sell(
            lambda price: table.bought(np.log(price) - log_weight),
            known * budget,
            host=host,
            host_limit=None if limits is None else known * limits,
        )
        polls += in_shares(
            np.ones(pages), unknown * budget, weight, host, None if limits is None else unknown * limits
        )
        return np.minimum(polls, 1 / self.grain) if self.grain else polls


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """The logarithm of a poll's value (a row a page) at each of some logarithms of poll rates (columns)."""

    log_values: npt.NDArray[np.float32]
    log_rates: Reals
    most: float

    @staticmethod
    def of(belief: Beliefs, mean: float, grain: float) -> _Values:
        law = population(belief)
        rates = np.geomspace(mean / REACH, mean * REACH, LEVELS)
        worth = slotted(law.rates, grain) / law.rates
        value = slope(law.rates[:, None] / rates) * worth[:, None]
        table = np.empty((len(belief), LEVELS), np.float32)
        for block in blocks(len(belief)):
            table[block] = _logs(belief[block], law, value)
        return _Values(table, np.log(rates), 1 / grain if grain else np.inf)

    def bought(self, log_price: Reals) -> Reals:
        """Poll rates at which a poll is worth this much: in between two columns on a straight line."""
        log_price = np.broadcast_to(log_price, len(self.log_values))
        polls = np.empty(len(self.log_values))
        step = float(self.log_rates[1] - self.log_rates[0])
        for block in blocks(len(polls)):
            price, rows = log_price[block], self.log_values[block]
            above = np.count_nonzero(rows > price[:, None].astype(np.float32), axis=1)
            left = np.clip(above, 1, LEVELS - 1) - 1
            at = np.arange(len(rows))
            here, there = rows[at, left].astype(np.float64), rows[at, left + 1].astype(np.float64)
            part = np.clip((here - price) / np.maximum(here - there, 1e-9), 0.0, 1.0)
            polls[block] = np.where(above > 0, np.exp(self.log_rates[left] + step * part), 0.0)
        return np.minimum(polls, self.most)


def _logs(belief: Beliefs, law: Population, value: Reals) -> Reals:
    return np.asarray(np.log(np.maximum(posterior(belief, law) @ value, 1e-300)))
