"""All polling policies at the budget of the report's automata, compared with the known-rate optimum.

The populations are those of the report and one with a heavy tail. Rates are static, switching or bursty.
All policies see the same changes. R and updates are shown beside freshness and age because they mislead: a
policy that polls late finds a change more often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from fieldmouse_lab.catalogue import Figure, Panel, Progress, Result, Row, Series, experiment, new_row, with_progress
from fieldmouse_lab.refresh.contest import CONDITIONS, CONTEST_POLICIES, POPULATIONS, natural_budget, play_policy
from fieldmouse_lab.refresh.slots import SlotCourse

SEEDS = (1, 2, 3)
SLOTS = 3000

#: Games per policy and kind of change.
Scores = Mapping[tuple[str, str], list[SlotCourse]]

MEASURES: Mapping[str, Callable[[SlotCourse], float]] = {
    "freshness": lambda course: course.freshness,
    "age": lambda course: course.age,
    "R": lambda course: course.useful_ratio,
    "updates by page": lambda course: course.updates,
}

_EVEN = ("optimal", "learned", "uniform", "multiplicative", "proportional", "automaton")
#: Policies with a label in a figure; the others are grey.
SHOWN = (*(f"{policy} (even)" for policy in _EVEN), "automaton (random)")

TITLES = {
    "test1": "the pages of Tests 1 and 2",
    "zipf": "the pages of the Zipf test",
    "heavy": "5000 pages with log-normal rates",
}


def compare_policies(population: str, progress: Progress, seeds: tuple[int, ...] = SEEDS, slots: int = SLOTS) -> Result:
    scores: dict[tuple[str, str], list[SlotCourse]] = {}
    rounds = [(weather, *entry, seed) for weather in CONDITIONS for entry in CONTEST_POLICIES for seed in seeds]
    for weather, policy, spacing, seed in with_progress(rounds, progress, lambda one: "{}: {}, {}".format(*one)):
        every, bursts = CONDITIONS[weather]
        play = partial(play_policy, POPULATIONS[population](seed), policy, seed=seed, slots=slots, spacing=spacing)
        course = play(switch_every=every, bursts=bursts)
        scores.setdefault((f"{policy} ({spacing})", weather), []).append(course)
    rows: list[Row] = []
    for (policy, weather), courses in scores.items():
        best = scores["optimal (even)", weather]
        short = [one.freshness - mine.freshness for one, mine in zip(best, courses, strict=True)]
        rows.append(new_row(f"{policy}, {weather}, below optimal", short))
        rows.extend(
            new_row(f"{policy}, {weather}, {measure}", [of(course) for course in courses])
            for measure, of in MEASURES.items()
        )
    budget = natural_budget(POPULATIONS[population](seeds[0]))
    return Result(
        tuple(rows), (_figure(population, scores),), (*_default_summary(scores), *_conditions(budget, seeds, slots))
    )


def _mean(scores: Scores, policy: str, weather: str) -> float:
    return float(np.mean([course.freshness for course in scores[policy, weather]]))


def _default_summary(scores: Scores) -> list[str]:
    """Summarise the results of the default policy for each kind of change."""
    said = []
    for weather in CONDITIONS:
        learned, optimal, uniform, automaton = (
            _mean(scores, name, weather)
            for name in ("learned (even)", "optimal (even)", "uniform (even)", "automaton (random)")
        )
        said.append(
            f"{weather}: learned is {optimal - learned:.3f} short of the optimum that knows the rates, "
            f"{learned - uniform:.3f} above uniform with even spacing, {learned - automaton:.3f} "
            "above the automata as printed"
        )
    return said


def _conditions(budget: float, seeds: tuple[int, ...], slots: int) -> list[str]:
    return [
        f"{slots} slots, the last half measured, {len(seeds)} games; {budget:.0f} polls a slot, what "
        "free automata of 16 states use",
        f"static: rates stay; switching: they are dealt anew every {CONDITIONS['switching'][0]} slots; "
        "bursty: pages have busy spells",
        "age is in slots, over all pages: where a policy gives up pages that change too fast, as the "
        "optimum may, it grows",
        "multiplicative: the interval times a factor up and down, as Nutch and StormCrawler do; halving: 1.5 and 0.5",
    ]


def _figure(population: str, scores: Scores) -> Figure:
    panels = []
    for weather in CONDITIONS:
        points = []
        names = dict.fromkeys(policy for policy, _ in scores)
        for name in sorted(names, key=lambda name: SHOWN.index(name) if name in SHOWN else len(SHOWN)):
            courses = scores[name, weather]
            x = float(np.mean([course.useful_ratio for course in courses]))
            label = name if name in SHOWN else ""
            points.append(Series(label, [x], [_mean(scores, name, weather)], "points"))
        panels.append(Panel("R, useful share of polls", "freshness", tuple(points), weather))
    return Figure(
        f"refresh-policies-{population}",
        f"Freshness and R of all policies, on {TITLES[population]}",
        tuple(panels),
        "At the same number of polls. Grey: harmonic, uniform at random, halving and a half more.",
    )


_ABOUT = "Freshness, age, R and updates at one budget, beside the known-rate optimum; static, switching and bursty."
EXPERIMENTS = tuple(
    experiment(f"refresh-policies-{name}", f"All polling policies on {title}", partial(compare_policies, name), _ABOUT)
    for name, title in TITLES.items()
)
