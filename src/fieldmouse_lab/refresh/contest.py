"""Contest of polling policies with the same budget on the same pages and changes.

Each policy gets its best conditions: automata are replanned after every slot and polled at random, as
printed (and also evenly, which the paper does not ask for), the multiplicative rule has the factors of
Nutch and those of StormCrawler, and the oracle knows the true rates, also after a switch.

Two are those of Yazidi (2006): one probability for each top-level domain, and a Zipf law within each site.
The latter is k^-theta for the page of rank k and is *not* normalised, so a site's first page changes in
every slot: only then do the printed optimal weights follow from the law. The third has a heavy tail, like
the web.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldmouse.errors import UsageError
from fieldmouse.policy.polling import policies
from fieldmouse.policy.polling.learned import LearnedPolicy
from fieldmouse_lab.refresh.automaton_law import FreeAutomatonLaw
from fieldmouse_lab.refresh.slots import Bursts, PolicyFactory, Reals, SlotCourse, Spacing, play_slots

DOMAINS = ("com", "net", "edu", "org")

SIZES: Mapping[str, Sequence[int]] = {
    "com": (131, 201, 341, 567, 531, 36, 451, 121),
    "net": (124, 174, 402, 322, 49, 615),
    "edu": (235, 135, 95, 343),
    "org": (32, 123),
}
CHANGES = {"com": 0.3, "net": 0.25, "edu": 0.1, "org": 0.05}

ZIPF_SIZES: Mapping[str, Sequence[int]] = {
    "com": (131, 91, 91, 87, 91, 46, 61, 71),
    "net": (74, 84, 62, 92, 89, 105),
    "edu": (75, 95, 105, 113),
    "org": (82, 93),
}
SKEWS = {"com": 0.75, "net": 1.0, "edu": 1.5, "org": 2.0}


@dataclass(frozen=True, slots=True, eq=False)
class PageSet:
    """`p` is each page's probability of change in a slot, `sites` the page's site; the pages of a site are
    contiguous. `capacity` is the number of polls per slot of a node."""

    name: str
    p: npt.NDArray[np.float64]
    sites: npt.NDArray[np.intp]
    capacity: int

    @property
    def pages(self) -> int:
        return len(self.p)

    @property
    def sizes(self) -> list[int]:
        return [int(size) for size in np.bincount(self.sites)]

    def by_site(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sums over the pages of each site."""
        return np.bincount(self.sites, weights=values).astype(np.float64)


def domain_pages() -> PageSet:
    """Tests 1 and 2: 5028 pages of 20 sites.

    >>> domain_pages().pages
    5028
    """
    sizes = [size for domain in DOMAINS for size in SIZES[domain]]
    p = [CHANGES[domain] for domain in DOMAINS for _ in SIZES[domain]]
    return PageSet("test1", np.repeat(p, sizes), _sites(sizes), 400)


def zipf_pages() -> PageSet:
    """The Zipf and the dynamic test: 1738 pages of 20 sites.

    >>> zipf_pages().pages, float(zipf_pages().p.max())
    (1738, 1.0)
    """
    laws = [(size, SKEWS[domain]) for domain in DOMAINS for size in ZIPF_SIZES[domain]]
    p = np.concatenate([np.arange(1, size + 1) ** -skew for size, skew in laws])
    return PageSet("zipf", p, _sites([size for size, _ in laws]), 80)


def heavy_tailed_pages(
    rng: np.random.Generator, pages: int = 5000, median: float = 1 / 50, sigma: float = 2.0
) -> PageSet:
    """Log-normal change rates; p = 1 - exp(-rate). Twenty sites of the same size."""
    rates = median * np.exp(sigma * rng.standard_normal(pages))
    return PageSet("heavy", -np.expm1(-rates), np.arange(pages) * 20 // pages, 400)


def _sites(sizes: Sequence[int]) -> npt.NDArray[np.intp]:
    return np.repeat(np.arange(len(sizes)), sizes)


SLOT = 1.0
NATURAL_STATES = 16

#: Page sets by name, as functions of a seed.
POPULATIONS: Mapping[str, Callable[[int], PageSet]] = {
    "test1": lambda seed: domain_pages(),
    "zipf": lambda seed: zipf_pages(),
    "heavy": lambda seed: heavy_tailed_pages(np.random.default_rng([seed, 0])),
}


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
        "optimal": Contestant(lambda p: policies.OptimalPolicy(rates_of(p), grain=SLOT)),
        "harmonic": Contestant(lambda p: policies.HarmonicPolicy(grain=SLOT)),
        "uniform": Contestant(lambda p: policies.UniformPolicy()),
        "proportional": Contestant(lambda p: policies.ProportionalPolicy(grain=SLOT)),
        "multiplicative": Contestant(lambda p: policies.MultiplicativePolicy(grain=SLOT)),
        "multiplicative-halving": Contestant(
            lambda p: policies.MultiplicativePolicy(changed=0.5, unchanged=1.5, grain=SLOT)
        ),
        "automaton": Contestant(lambda p: policies.AutomatonPolicy(states, SLOT), Spacing.RANDOM, always, is_free=True),
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


#: Slots between two switches of the probabilities, and bursts of the pages.
CONDITIONS: Mapping[str, tuple[int, Bursts | None]] = {
    "static": (0, None),
    "switching": (1000, None),
    "bursty": (0, Bursts()),
}

_EVEN = "optimal learned harmonic uniform multiplicative multiplicative-halving proportional automaton"
CONTEST_POLICIES: tuple[tuple[str, Spacing], ...] = (
    *((name, Spacing.EVEN) for name in _EVEN.split()),
    ("uniform", Spacing.RANDOM),
    ("automaton", Spacing.RANDOM),
)
