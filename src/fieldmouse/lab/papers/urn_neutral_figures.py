"""Figures 5.1 to 5.21 of the thesis: the game without an offline structure, under five laws of host size.

Each figure shows the number of colours online and the probability that the next draw is a new colour, over
time. As in the thesis, the clock starts when the online structure is empty. Lines are one simulation, as
in the thesis; dashes are Lemma 3.2.1, which holds for every t up to K. The captions are available, the
legends are lost: values that captions and text do not give are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from fieldmouse.lab.catalogue import Experiment, Figure, Panel, Progress, Result, Series
from fieldmouse.lab.papers.urn_games import course, curve, filling, unaided
from fieldmouse.lab.papers.urn_printed import COLOURS, PLACES
from fieldmouse.lab.urn.sources import Source, exponential, normal, poisson, power, uniform

DISTINCT = "colours in the online structure"
P_NEW = "P_new"
TIME = "time t"

CAPTION = "lines: one simulation; dashes: expected values while the online structure fills (Lemma 3.2.1)"


@dataclass(frozen=True, slots=True)
class Case:
    label: str
    source: Callable[[], Source]
    places: int = PLACES


@dataclass(frozen=True, slots=True)
class Sheet:
    """One figure of chapter 5: its cases, and the number of steps of each."""

    number: str
    title: str
    steps: int
    cases: tuple[Case, ...]


def _cases_by_colours(law: Callable[[int], Source], colours: Sequence[int]) -> tuple[Case, ...]:
    return tuple(Case(f"C = {c}", partial(law, c)) for c in colours)


def _cases_by_places(source: Callable[[], Source], places: Sequence[int]) -> tuple[Case, ...]:
    return tuple(Case(f"K = {k}", source, k) for k in places)


def _cases_by_value(name: str, law: Callable[[float], Source], values: Sequence[float]) -> tuple[Case, ...]:
    return tuple(Case(f"{name} = {value:g}", partial(law, value)) for value in values)


@cache
def _as_many_colours_as_places() -> Source:
    return uniform(10_000)


MANY_COLOURS = (1000, 2000, 5000, 10_000, COLOURS)

SHEETS = (
    Sheet(
        "5.1",
        "Uniform: as many colours as places",
        90_000,
        (Case("C = K", _as_many_colours_as_places, 10_000),),
    ),
    Sheet("5.3", "Uniform: more colours", 19_000, _cases_by_colours(uniform, MANY_COLOURS)),
    Sheet(
        "5.4", "Uniform: more places", 9_000, _cases_by_places(lambda: uniform(1000), (100, 500, 1000, 2000))
    ),
    Sheet(
        "5.5",
        "Exponential: more colours",
        19_000,
        _cases_by_colours(lambda c: exponential(c, 1000), MANY_COLOURS),
    ),
    Sheet(
        "5.6",
        "Exponential: more places",
        400_000,
        _cases_by_places(lambda: exponential(COLOURS, 1000), (100, 1000, 10_000, 50_000, 100_000)),
    ),
    Sheet(
        "5.7",
        "Exponential: a larger mean",
        19_000,
        _cases_by_value("λ", lambda mean: exponential(COLOURS, mean), (10, 100, 1000, 10_000, 100_000)),
    ),
    Sheet(
        "5.8", "Normal: more colours", 19_000, _cases_by_colours(lambda c: normal(c, 1000, 100), MANY_COLOURS)
    ),
    Sheet(
        "5.9",
        "Normal: more places",
        400_000,
        _cases_by_places(lambda: normal(COLOURS, 10_000, 1000), (1000, 3000, 6000, 10_000, 50_000, 100_000)),
    ),
    Sheet(
        "5.10",
        "Normal: a larger mean",
        99_000,
        _cases_by_value("μ", lambda mean: normal(COLOURS, mean, 100), (100, 200, 300, 1000, 10_000)),
    ),
    Sheet(
        "5.11",
        "Normal: a larger deviation",
        99_000,
        _cases_by_value(
            "σ", lambda deviation: normal(COLOURS, 1000, deviation), (10, 100, 300, 500, 800, 1000)
        ),
    ),
    Sheet(
        "5.12",
        "Poisson: more colours",
        19_000,
        _cases_by_colours(lambda c: poisson(c, 1000), (1000, 1200, 2000, 10_000, COLOURS)),
    ),
    Sheet(
        "5.13",
        "Normal with the variance of Poisson: more colours",
        19_000,
        _cases_by_colours(lambda c: normal(c, 1000, 1000**0.5), (1000, 1200, 2000, 10_000, COLOURS)),
    ),
    Sheet(
        "5.14",
        "Poisson: more places",
        400_000,
        _cases_by_places(lambda: poisson(COLOURS, 1000), (100, 1000, 10_000, 100_000)),
    ),
    Sheet(
        "5.15",
        "Poisson: a larger mean",
        19_000,
        _cases_by_value("λ", lambda mean: poisson(COLOURS, mean), (0, 100, 1000, 10_000, 55_000, 100_000)),
    ),
    Sheet(
        "5.16", "Power law: more colours", 99_000, _cases_by_colours(lambda c: power(c, 1.1), MANY_COLOURS)
    ),
    Sheet(
        "5.17",
        "Power law, gamma 1.1: more places",
        400_000,
        _cases_by_places(lambda: power(COLOURS, 1.1), (100, 1000, 10_000, 50_000)),
    ),
    Sheet(
        "5.18",
        "Power law, gamma 0.1: more places",
        400_000,
        _cases_by_places(lambda: power(COLOURS, 0.1), (100, 1000, 10_000, 50_000)),
    ),
    Sheet(
        "5.19",
        "Power law: a larger gamma, as many colours as places",
        19_000,
        _cases_by_value("γ", lambda gamma: power(1000, gamma), (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1)),
    ),
    Sheet(
        "5.20",
        "Power law: a larger gamma",
        99_000,
        _cases_by_value("γ", lambda gamma: power(COLOURS, gamma), (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1)),
    ),
    Sheet(
        "5.21",
        "Power law: gamma larger still",
        9_000,
        _cases_by_value("γ", lambda gamma: power(COLOURS, gamma), (1, 1.5, 2, 3, 4, 5)),
    ),
)


def drawn(sheet: Sheet, progress: Progress) -> Result:
    """Draw both panels of a figure: each case's filling by formula, its game by simulation."""
    distinct: list[Series] = []
    new: list[Series] = []
    expected: list[Series] = []
    expected_new: list[Series] = []
    for done, case in enumerate(sheet.cases):
        progress(done / len(sheet.cases), case.label)
        source = case.source()
        game = course(source, case.places, sheet.steps)
        distinct.append(curve(case.label, game.t + case.places, game.distinct))
        new.append(curve(case.label, game.t + case.places, game.new))
        t, colours, chance = filling(source, case.places)
        expected.append(curve("", t, colours, "dashes"))
        expected_new.append(curve("", t, chance, "dashes"))
    panels = (
        Panel(TIME, DISTINCT, (*distinct, *expected)),
        Panel(TIME, P_NEW, (*new, *expected_new)),
    )
    return Result(figures=(Figure(f"thesis-{sheet.number}", sheet.title, panels, CAPTION),))


def lengths(progress: Progress) -> Result:
    """Draw Figure 5.2: the number of queues with i balls, beside K / 2^(i+1) of Corollary 4.2.4."""
    places, steps = 10_000, 190_000
    game = unaided(_as_many_colours_as_places(), places, steps)
    series = [curve(f"N({i}, t)", game.course.t + places, game.lengths_course[:, i]) for i in range(6)]
    expected = [Series("", [places, places + steps], [places / 2 ** (i + 1)] * 2, "dashes") for i in range(6)]
    panel = Panel(TIME, "number of queues of length i", (*series, *expected))
    title = "Uniform: how many colours have i balls online"
    return Result(
        figures=(
            Figure("thesis-5.2", title, (panel,), "C = K = 10000; dashes: K / 2^(i+1), Corollary 4.2.4"),
        )
    )


def _order(number: str) -> int:
    return int(number.partition(".")[2])


EXPERIMENTS = tuple(
    sorted(
        (
            *(
                Experiment(
                    f"thesis-figure-{sheet.number}",
                    "urn",
                    f"Figure {sheet.number}. {sheet.title}",
                    "The game without an offline structure: colours online and P_new over time.",
                    partial(drawn, sheet),
                )
                for sheet in SHEETS
            ),
            Experiment(
                "thesis-figure-5.2",
                "urn",
                "Figure 5.2. Uniform: how many colours have i balls online",
                "The distribution of queue lengths over time, against Corollary 4.2.4.",
                lengths,
            ),
        ),
        key=lambda experiment: _order(experiment.id),
    )
)
