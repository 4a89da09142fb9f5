"""Simulation of randomly changing pages, polled slot by slot by a policy, to measure the freshness of copies.

In a slot pages change, some are polled, the policy learns the results, and freshness is measured. A copy
stays stale until it is polled, and a poll finds a change if there was any since the last one. Polls are
spaced at random (in each slot a page is polled with its planned probability) or evenly (when its planned
polls have added up to one more). All measures are means over the last half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from fieldmouse.policy import change_rate
from fieldmouse.policy.polling.interface import PollingPolicy

Reals = npt.NDArray[np.float64]
#: Factory of a policy from the pages' true probabilities of change, which only an oracle uses.
PolicyFactory = Callable[[Reals], PollingPolicy]


class Spacing(StrEnum):
    RANDOM = "random"
    EVEN = "even"


@dataclass(frozen=True, slots=True)
class Bursts:
    """Busy periods of pages, in which they change up to `factor` times as often as on average.

    `share` of the time is busy, and a period lasts `spell` slots on average.
    """

    factor: float = 4.0
    share: float = 0.2
    spell: float = 50.0

    def chances(self, p: Reals) -> tuple[Reals, Reals]:
        """Probabilities of a change in a slot, when quiet and when busy; the mean is p."""
        busy = np.minimum(1.0, self.factor * p)
        return np.maximum(0.0, (p - self.share * busy) / (1 - self.share)), busy


@dataclass(frozen=True, slots=True)
class SlotCourse:
    """Results of the last half: shares, and numbers per slot.

    age: slots since the copy became stale, 0 if it is fresh; a mean over all pages. updates: polls that
    found a change, as a share of all pages. plan: final polls per slot of each page.
    """

    freshness: float
    age: float
    useful_ratio: float
    updates: float
    polls: float
    plan: Reals


def play_slots(
    p: Reals,
    chosen: PolicyFactory,
    *,
    budget: float,
    slots: int,
    seed: int,
    spacing: Spacing = Spacing.EVEN,
    switch_every: int = 0,
    bursts: Bursts | None = None,
    rounds: tuple[float, float] = (0.25, 20.0),
) -> SlotCourse:
    """Play `slots` slots.

    switch_every: slots after which the probabilities are reassigned to the pages at random. rounds: polls
    per page between two plans, at first and later; (0, 0) means a new plan after every slot.
    """
    pages = len(p)
    # The changes must not depend on the policy.
    fate, dice = (np.random.default_rng([seed, stream]) for stream in (1, 2))
    quiet, busy = bursts.chances(p) if bursts else (p, p)
    is_busy = fate.random(pages) < (bursts.share if bursts else 0.0)
    policy = chosen(p)
    belief, state = change_rate.empty_beliefs(pages), policy.initial_state(pages)
    plan = policy.plan(state, belief, budget)
    credit = dice.permutation((np.arange(pages) + 0.5) / pages)
    last, stale, since = np.full(pages, -1), np.zeros(pages, bool), np.zeros(pages, int)
    sums, polls, unplanned = np.zeros(4), 0, 0
    for slot in range(slots):
        if switch_every and slot and slot % switch_every == 0:
            order = fate.permutation(pages)
            p, quiet, busy = p[order], quiet[order], busy[order]
            policy = chosen(p)
            unplanned = pages * slots
        if bursts:
            leaves = np.where(is_busy, 1.0, bursts.share / (1 - bursts.share)) / bursts.spell
            is_busy = is_busy ^ (fate.random(pages) < leaves)
        changes = fate.random(pages) < np.where(is_busy, busy, quiet)
        since[changes & ~stale] = slot
        stale |= changes
        if spacing is Spacing.EVEN:
            credit += plan
            polled = np.flatnonzero(credit >= 1 - 1e-9)
            credit[polled] -= 1
        else:
            polled = np.flatnonzero(dice.random(pages) < plan)
        found, gap = stale[polled], slot - last[polled]
        seen = belief[polled]
        state[polled] = policy.observe(state[polled], seen, gap, found)
        belief[polled] = change_rate.update_beliefs(seen, gap, found)
        last[polled], stale[polled] = slot, False
        polls, unplanned = polls + len(polled), unplanned + len(polled)
        if slot >= slots // 2:
            ages = np.where(stale, slot + 1 - since, 0)
            sums += np.array([1 - stale.mean(), ages.mean(), np.count_nonzero(found), len(polled)])
        if unplanned >= pages * min(max(rounds[0], polls / pages / 8), rounds[1]):
            plan, unplanned = policy.plan(state, belief, budget), 0
    fresh, age, useful, asked = sums / max(1, slots - slots // 2)
    return SlotCourse(
        float(fresh), float(age), float(useful / max(asked, 1e-300)), float(useful / pages), float(asked), plan
    )
