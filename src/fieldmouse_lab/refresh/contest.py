"""Contest of polling policies with the same budget on the same pages and changes.

Each policy gets its best conditions: automata are replanned after every slot and polled at random, as
printed (and also evenly, which the paper does not ask for), the multiplicative rule has the factors of
Nutch and those of StormCrawler, and the oracle knows the true rates, also after a switch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fieldmouse.errors import UsageError
from fieldmouse.policy.polling.learned import LearnedPolicy
from fieldmouse.policy.polling.policies import (
    AutomatonPolicy,
    HarmonicPolicy,
    MultiplicativePolicy,
    OptimalPolicy,
    ProportionalPolicy,
    UniformPolicy,
)
from fieldmouse_lab.refresh.automaton_law import FreeAutomatonLaw
from fieldmouse_lab.refresh.populations import PageSet, domain_pages, heavy_tailed_pages, zipf_pages
from fieldmouse_lab.refresh.slots import Bursts, PolicyFactory, Reals, SlotCourse, Spacing, play_slots

SLOT = 1.0
NATURAL_STATES = 16

POPULATIONS: Mapping[str, Callable[[int], PageSet]] = {
    "test1": lambda seed: domain_pages(),
    "zipf": lambda seed: zipf_pages(),
    "heavy": lambda seed: heavy_tailed_pages(np.random.default_rng([seed, 0])),
}
"""Page sets by name, as functions of a seed."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """Settings with which a policy is played.

    is_free: with its default spacing the policy has no limit at the natural budget, because that budget is
    its consumption.
    """

    chosen: PolicyFactory
    spacing: Spacing = Spacing.EVEN
    rounds: tuple[float, float] = (0.25, 20.0)
    is_free: bool = False


def rates_of(p: Reals) -> Reals:
    """Changes per slot of a process whose probability of a slot without change is 1 - p."""
    return -np.log1p(-np.minimum(p, 1 - 1e-15))


def contestants(states: int = NATURAL_STATES) -> dict[str, Contestant]:
    always = (0.0, 0.0)
    return {
        "learned": Contestant(lambda p: LearnedPolicy(grain=SLOT)),
        "optimal": Contestant(lambda p: OptimalPolicy(rates_of(p), grain=SLOT)),
        "harmonic": Contestant(lambda p: HarmonicPolicy(grain=SLOT)),
        "uniform": Contestant(lambda p: UniformPolicy()),
        "proportional": Contestant(lambda p: ProportionalPolicy(grain=SLOT)),
        "multiplicative": Contestant(lambda p: MultiplicativePolicy(grain=SLOT)),
        "multiplicative-halving": Contestant(
            lambda p: MultiplicativePolicy(changed=0.5, unchanged=1.5, grain=SLOT)
        ),
        "automaton": Contestant(
            lambda p: AutomatonPolicy(states, SLOT), Spacing.RANDOM, always, is_free=True
        ),
    }


def natural_budget(pages: PageSet) -> float:
    """Exact number of polls per slot that 16-state automata use if no node is ever full."""
    law = FreeAutomatonLaw.of(pages.p, NATURAL_STATES)
    return law.slot_law(law.steady()).polls


def tight_budget(pages: PageSet, states: int = NATURAL_STATES) -> float:
    """A tenth more than the minimum of automata, which is all of them in state 1."""
    return 1.1 * pages.pages / states


def play_policy(
    pages: PageSet,
    name: str,
    *,
    seed: int,
    slots: int = 10_000,
    budget: float | None = None,
    states: int = NATURAL_STATES,
    spacing: Spacing | None = None,
    switch_every: int = 0,
    bursts: Bursts | None = None,
) -> SlotCourse:
    """Play one policy on some pages. Default budget: the natural one; default spacing: the policy's."""
    known = contestants(states)
    if name not in known:
        raise UsageError(f"no polling policy `{name}` is played here", f"it is one of {', '.join(known)}")
    contestant = known[name]
    spacing = spacing or contestant.spacing
    is_free = budget is None and contestant.is_free and spacing is contestant.spacing
    polls = natural_budget(pages) if budget is None else budget
    return play_slots(
        pages.p,
        contestant.chosen,
        budget=np.inf if is_free else polls,
        slots=slots,
        seed=seed,
        spacing=spacing,
        switch_every=switch_every,
        bursts=bursts,
        rounds=contestant.rounds,
    )


@dataclass(frozen=True, slots=True)
class ContestResult:
    """Result of one policy on one population, with one seed."""

    population: str
    weather: str
    policy: str
    spacing: Spacing
    seed: int
    course: SlotCourse


CONDITIONS: Mapping[str, tuple[int, Bursts | None]] = {
    "static": (0, None),
    "switching": (1000, None),
    "bursty": (0, Bursts()),
}
"""Slots between two switches of the probabilities, and bursts of the pages."""

CONTEST_POLICIES: tuple[tuple[str, Spacing], ...] = (
    ("optimal", Spacing.EVEN),
    ("learned", Spacing.EVEN),
    ("harmonic", Spacing.EVEN),
    ("uniform", Spacing.EVEN),
    ("multiplicative", Spacing.EVEN),
    ("multiplicative-halving", Spacing.EVEN),
    ("proportional", Spacing.EVEN),
    ("automaton", Spacing.EVEN),
    ("uniform", Spacing.RANDOM),
    ("automaton", Spacing.RANDOM),
)


def play_contest(
    seeds: tuple[int, ...] = (1, 2, 3),
    *,
    slots: int = 3000,
    populations: tuple[str, ...] = tuple(POPULATIONS),
    weathers: tuple[str, ...] = tuple(CONDITIONS),
    field: tuple[tuple[str, Spacing], ...] = CONTEST_POLICIES,
    is_tight: bool = False,
) -> Iterator[ContestResult]:
    """Play all policies on all populations under all conditions, at the natural budget or the tight one."""
    for population in populations:
        for seed in seeds:
            pages = POPULATIONS[population](seed)
            for weather in weathers:
                switch_every, bursts = CONDITIONS[weather]
                for policy, spacing in field:
                    course = play_policy(
                        pages,
                        policy,
                        seed=seed,
                        slots=slots,
                        budget=tight_budget(pages) if is_tight else None,
                        spacing=spacing,
                        switch_every=switch_every,
                        bursts=bursts,
                    )
                    yield ContestResult(population, weather, policy, spacing, seed, course)
