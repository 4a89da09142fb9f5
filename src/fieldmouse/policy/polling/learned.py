"""Learned policy: the most expected freshness for a budget when rates are uncertain.

`OptimalPolicy` with estimates for the rates would trust a page that changed at one poll out of one. Here the
value of a poll is its mean over all rates the page may have, so a page that is hardly known is polled
like its population, and a well-known page at its own rate. A share of the budget goes to all pages alike:
pages that were given up are polled again now and then, and a page that changes its behaviour is found.

The value of a poll is tabulated for some poll rates, one column per page. The table is built in blocks,
once per plan; a price then is a position in each column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.change_rate import Beliefs, fit_population, page_blocks, posterior
from fieldmouse.policy.polling.allocation import PollBudget, marginal_freshness, slot_factor
from fieldmouse.policy.polling.interface import Reals, State
from fieldmouse.policy.polling.policies import BudgetPolicy

LEVELS = 24
#: Poll rates are tabulated from the mean divided by this to the mean times this; lower rates count as none.
REACH = 300.0


@dataclass(frozen=True, slots=True)
class LearnedPolicy(BudgetPolicy):
    """explore: share of the budget that all pages get alike. grain: as in `OptimalPolicy`."""

    explore: float = 0.02
    grain: float = 0.0

    def allocate_polls(self, state: State, belief: Beliefs, budget: PollBudget) -> Reals:
        pages = len(belief)
        if not pages or not budget.polls > 0:
            return np.zeros(pages)
        if not np.isfinite(budget.polls) and budget.host_limit is not None and budget.host is not None:
            limits = np.asarray(budget.host_limit, np.float64)
            budget = replace(budget, polls=float(np.broadcast_to(limits, int(budget.host.max()) + 1).sum()))
        table = _MarginalPollValues.from_beliefs(belief, budget.polls / pages, self.grain)
        with np.errstate(divide="ignore"):
            log_weight = np.log(budget.weights(pages))
        polls = budget.scaled(1 - self.explore).allocate(lambda price: table.polls_at_price(np.log(price) - log_weight))
        polls += budget.scaled(self.explore).allocate_proportionally(np.ones(pages))
        return np.minimum(polls, 1 / self.grain) if self.grain else polls


@dataclass(frozen=True, slots=True, eq=False)
class _MarginalPollValues:
    """Logarithms of a poll's value (a column per page) at some logarithms of poll rates (rows)."""

    log_values: npt.NDArray[np.float32]
    log_rates: Reals
    most: float

    @staticmethod
    def from_beliefs(belief: Beliefs, mean: float, grain: float) -> _MarginalPollValues:
        law = fit_population(belief)
        rates = np.geomspace(mean / REACH, mean * REACH, LEVELS)
        worth = slot_factor(law.rates, grain) / law.rates
        value = marginal_freshness(law.rates[:, None] / rates) * worth[:, None]
        # Values range from seconds to years: single precision holds them only near their own size.
        size = float(value.max())
        scaled = (value / size).T.astype(np.float32)
        table = np.empty((LEVELS, len(belief)), np.float32)
        for block in page_blocks(len(belief)):
            of_block = np.maximum(scaled @ posterior(belief[block], law).T, np.float32(1e-37))
            table[:, block] = np.log(of_block) + np.float32(np.log(size))
        return _MarginalPollValues(table, np.log(rates), 1 / grain if grain else np.inf)

    def polls_at_price(self, log_price: Reals) -> Reals:
        """Poll rates at which a poll has this price; linear interpolation between two rows."""
        pages = self.log_values.shape[1]
        log_price = np.broadcast_to(log_price, pages)
        polls = np.empty(pages)
        step = float(self.log_rates[1] - self.log_rates[0])
        for block in page_blocks(pages):
            price, table = log_price[block].astype(np.float32), self.log_values[:, block]
            above = np.zeros(len(price), np.intp)
            for row in table:
                above += row > price
            left = np.clip(above, 1, LEVELS - 1) - 1
            at = np.arange(len(price))
            here, there = table[left, at], table[left + 1, at]
            part = np.clip((here - log_price[block]) / np.maximum(here - there, 1e-6), 0.0, 1.0)
            polls[block] = np.where(above > 0, np.exp(self.log_rates[left] + step * part), 0.0)
        return np.minimum(polls, self.most)
