"""Cached games behind the automata-and-packing report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from fieldmouse_lab.papers.bubing.printed import Throws
from fieldmouse_lab.papers.polling.printed import DYNAMIC_RUNS, SWITCHED_EVERY, TEST_1, ZIPF_RUNS, Twin
from fieldmouse_lab.refresh.automaton_law import FreeLaw, Reals
from fieldmouse_lab.refresh.populations import PageSet, domains, zipf
from fieldmouse_lab.refresh.two_phase import PollReading, Scheme, SchemeCourse, SchemeMoment, play

SEEDS = 10
"""Games per mean."""

DRAWN_EVERY = 20
"""Slots between two points of the first game, which is drawn."""

Test = Literal["first", "second", "zipf", "dynamic"]

SETTLED = 200
"""Slots after which at the latest all nodes are open and the weights are stationary."""


@cache
def population(test: Test) -> PageSet:
    return domains() if test in ("first", "second") else zipf()


@cache
def law(test: Test) -> FreeLaw:
    return FreeLaw.of(population(test).p, 8 if test == "first" else 16)


MOMENTS: dict[Test, Sequence[int]] = {
    "first": tuple(TEST_1),
    "second": (10_000,),
    "zipf": (0, ZIPF_RUNS),
    "dynamic": (0, *DYNAMIC_RUNS),
}


@dataclass(frozen=True, slots=True)
class PlayedTest:
    """All games of a test; each measure is taken from every game and gives a mean and a spread."""

    test: Test
    courses: Sequence[SchemeCourse]

    def at(self, slots: int, of: Callable[[SchemeMoment], float]) -> Throws:
        return Throws.of([of(course.moments[slots]) for course in self.courses])

    def bin(self, slots: int, number: int) -> Throws:
        return self.at(slots, lambda moment: moment.bin(number))

    def site(self, slots: int, number: int) -> Throws:
        return self.at(slots, lambda moment: float(moment.sites[number]))

    def total(self, slots: int) -> Throws:
        return self.at(slots, lambda moment: moment.total)

    def over(self, of: Callable[[SchemeCourse], float]) -> Throws:
        return Throws.of([of(course) for course in self.courses])

    def twin(self, slots: int) -> Twin:
        """Return the exact law of the free automata's total at this slot."""
        spell = law(self.test).spell(law(self.test).at(slots))
        taken = 0.0 if slots >= SETTLED else self.at(slots, lambda moment: moment.taken).mean
        return Twin(spell.weight, spell.spread, taken=taken)

    def site_twins(self, slots: int) -> list[Twin]:
        """Return the exact law of each site."""
        chosen = law(self.test)
        mean, variance = chosen.weights(chosen.at(slots))
        of_page = np.searchsorted(chosen.p, population(self.test).p)
        means = population(self.test).by_site(mean[of_page])
        spreads = np.sqrt(population(self.test).by_site(variance[of_page]))
        return [Twin(float(m), float(s), 1.5) for m, s in zip(means, spreads, strict=True)]


def games(
    test: Test, reading: PollReading = PollReading.SINCE_POLL, seeds: int = SEEDS, slots: int = 0
) -> PlayedTest:
    """Play all games of a test, with the printed number of slots unless another is given."""
    return _games(test, reading, seeds, slots or max(MOMENTS[test]))


@cache
def _games(test: Test, reading: PollReading, seeds: int, slots: int) -> PlayedTest:
    chosen = population(test)
    scheme = Scheme(
        chosen,
        law(test).resolution,
        slots,
        chosen.capacity,
        switch_every=SWITCHED_EVERY if test == "dynamic" else 0,
        reading=reading,
    )
    moments = [slot for slot in MOMENTS[test] if slot <= slots]
    drawn = sorted({*moments, *range(0, slots + 1, DRAWN_EVERY)})
    return PlayedTest(
        test, [play(scheme, seed, moments if seed > 1 else drawn) for seed in range(1, seeds + 1)]
    )


def last_half(course: Reals) -> Reals:
    return course[len(course) // 2 :]


def useful(course: SchemeCourse) -> float:
    """R (share of polls that find a change) over the last half."""
    return float(last_half(course.updates).sum() / last_half(course.polls).sum())


def rate(course: SchemeCourse, pages: int) -> float:
    """Updates found per page and slot, over the last half."""
    return float(last_half(course.updates).mean() / pages)
