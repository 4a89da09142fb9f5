"""Cached games behind the automata-and-packing report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from fieldmouse_lab.catalogue import Sample
from fieldmouse_lab.papers.polling.printed import DYNAMIC_RUNS, SWITCHED_EVERY, TEST_1, ZIPF_RUNS, ExactLaw
from fieldmouse_lab.refresh.automaton_law import FreeAutomatonLaw, Reals
from fieldmouse_lab.refresh.contest import PageSet, domain_pages, zipf_pages
from fieldmouse_lab.refresh.two_phase import PollReading, Scheme, SchemeCourse, SchemeSnapshot, play_scheme

#: Games per mean.
SEEDS = 10

#: Slots between two points of the first game, which is drawn.
DRAWN_EVERY = 20

Test = Literal["first", "second", "zipf", "dynamic"]

#: Slots after which at the latest all nodes are open and the weights are stationary.
SETTLED_SLOTS = 200


@cache
def population(test: Test) -> PageSet:
    return domain_pages() if test in ("first", "second") else zipf_pages()


@cache
def free_law(test: Test) -> FreeAutomatonLaw:
    return FreeAutomatonLaw.of(population(test).p, 8 if test == "first" else 16)


PRINTED_SLOTS: dict[Test, Sequence[int]] = {
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

    def at(self, slots: int, of: Callable[[SchemeSnapshot], float]) -> Sample:
        return Sample.of([of(course.moments[slots]) for course in self.courses])

    def bin(self, slots: int, number: int) -> Sample:
        return self.at(slots, lambda moment: moment.bin(number))

    def site(self, slots: int, number: int) -> Sample:
        return self.at(slots, lambda moment: float(moment.sites[number]))

    def total(self, slots: int) -> Sample:
        return self.at(slots, lambda moment: moment.total)

    def sample(self, of: Callable[[SchemeCourse], float]) -> Sample:
        return Sample.of([of(course) for course in self.courses])

    def total_law(self, slots: int) -> ExactLaw:
        """Return the exact law of the free automata's total at this slot."""
        spell = free_law(self.test).slot_law(free_law(self.test).after(slots))
        taken = 0.0 if slots >= SETTLED_SLOTS else self.at(slots, lambda moment: moment.taken).mean
        return ExactLaw(spell.weight, spell.spread, taken=taken)

    def site_laws(self, slots: int) -> list[ExactLaw]:
        """Return the exact law of each site."""
        chosen = free_law(self.test)
        mean, variance = chosen.weights(chosen.after(slots))
        of_page = np.searchsorted(chosen.p, population(self.test).p)
        means = population(self.test).by_site(mean[of_page])
        spreads = np.sqrt(population(self.test).by_site(variance[of_page]))
        return [ExactLaw(float(m), float(s), 1.5) for m, s in zip(means, spreads, strict=True)]


def play_test(
    test: Test, reading: PollReading = PollReading.SINCE_POLL, seeds: int = SEEDS, slots: int = 0
) -> PlayedTest:
    """Play all games of a test, with the printed number of slots unless another is given."""
    return _games(test, reading, seeds, slots or max(PRINTED_SLOTS[test]))


@cache
def _games(test: Test, reading: PollReading, seeds: int, slots: int) -> PlayedTest:
    chosen = population(test)
    scheme = Scheme(
        chosen,
        free_law(test).resolution,
        slots,
        chosen.capacity,
        switch_every=SWITCHED_EVERY if test == "dynamic" else 0,
        reading=reading,
    )
    moments = [slot for slot in PRINTED_SLOTS[test] if slot <= slots]
    drawn = sorted({*moments, *range(0, slots + 1, DRAWN_EVERY)})
    return PlayedTest(test, [play_scheme(scheme, seed, moments if seed > 1 else drawn) for seed in range(1, seeds + 1)])


def last_half(course: Reals) -> Reals:
    return course[len(course) // 2 :]


def useful_ratio(course: SchemeCourse) -> float:
    """R (share of polls that find a change) over the last half."""
    return float(last_half(course.updates).sum() / last_half(course.polls).sum())


def update_rate(course: SchemeCourse, pages: int) -> float:
    """Updates found per page and slot, over the last half."""
    return float(last_half(course.updates).mean() / pages)
