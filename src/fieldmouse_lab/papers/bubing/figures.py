"""Figures 5.1 to 5.21, 7.1 to 7.9 and 8.1 to 8.4 of the BUbiNG thesis.

Chapter 5 plays without an offline structure under five laws of host size: lines are one simulation,
dashes are Lemma 3.2.1, which holds for every t up to K. Its clock starts when the online structure is
empty. Figures 7.1 to 7.6 show that the natural strategies fail, 7.7 to 7.9 and chapter 8 the effect of
mice and elephants. The captions are available, the legends are lost: values that captions, text and
tables do not give are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from typing import Literal

from fieldmouse_lab.catalogue import Experiment, Figure, Panel, Progress, Result, Series, experiment, with_progress
from fieldmouse_lab.papers.bubing import games as thesis
from fieldmouse_lab.papers.bubing.games import GameCourse, curve, play_course, power_law
from fieldmouse_lab.papers.bubing.printed import GAMMAS, PLACES, printed_tables
from fieldmouse_lab.urn.sources import Source, exponential, normal, poisson, power, uniform
from fieldmouse_lab.urn.strategies import Strategy, strategy

DISTINCT = "colours in the online structure"
P_NEW = "P_new"
TIME = "time t"

CAPTION = "lines: one simulation; dashes: expected values while the online structure fills (Lemma 3.2.1)"


@dataclass(frozen=True, slots=True)
class FigureCase:
    label: str
    source: Callable[[], Source]
    places: int = PLACES


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """One figure of chapter 5: its cases, and the number of steps of each."""

    number: str
    title: str
    steps: int
    cases: tuple[FigureCase, ...]


LAWS: dict[str, Callable[..., Source]] = {law.__name__: law for law in (uniform, exponential, normal, poisson, power)}

#: Number, steps, law with its parameters, the parameter that varies (K: the places), its values, title.
_FIGURES = """
5.3  |  19000 | uniform C               | C | 1000 2000 5000 10000 100000       | Uniform: more colours
5.4  |   9000 | uniform 1000            | K | 100 500 1000 2000                 | Uniform: more places
5.5  |  19000 | exponential C 1000      | C | 1000 2000 5000 10000 100000       | Exponential: more colours
5.6  | 400000 | exponential 100000 1000 | K | 100 1000 10000 50000 100000       | Exponential: more places
5.7  |  19000 | exponential 100000 λ    | λ | 10 100 1000 10000 100000          | Exponential: a larger mean
5.8  |  19000 | normal C 1000 100       | C | 1000 2000 5000 10000 100000       | Normal: more colours
5.9  | 400000 | normal 100000 10000 1000| K | 1000 3000 6000 10000 50000 100000 | Normal: more places
5.10 |  99000 | normal 100000 μ 100     | μ | 100 200 300 1000 10000            | Normal: a larger mean
5.11 |  99000 | normal 100000 1000 σ    | σ | 10 100 300 500 800 1000           | Normal: a larger deviation
5.12 |  19000 | poisson C 1000          | C | 1000 1200 2000 10000 100000       | Poisson: more colours
5.13 |  19000 | normal C 1000 31.622776601683793 | C | 1000 1200 2000 10000 100000 \
 | Normal with the variance of Poisson: more colours
5.14 | 400000 | poisson 100000 1000     | K | 100 1000 10000 100000             | Poisson: more places
5.15 |  19000 | poisson 100000 λ        | λ | 0 100 1000 10000 55000 100000     | Poisson: a larger mean
5.16 |  99000 | power C 1.1             | C | 1000 2000 5000 10000 100000       | Power law: more colours
5.17 | 400000 | power 100000 1.1        | K | 100 1000 10000 50000              | Power law, gamma 1.1: more places
5.18 | 400000 | power 100000 0.1        | K | 100 1000 10000 50000              | Power law, gamma 0.1: more places
5.19 |  19000 | power 1000 γ       | γ | 0 0.1 0.3 0.5 0.7 0.9 1 | Power law: a larger gamma, as many colours as places
5.20 |  99000 | power 100000 γ          | γ | 0 0.1 0.3 0.5 0.7 0.9 1           | Power law: a larger gamma
5.21 |   9000 | power 100000 γ          | γ | 1 1.5 2 3 4 5                     | Power law: gamma larger still
"""


def _read_figure(line: str) -> FigureSpec:
    number, steps, law, symbol, values, title = (part.strip() for part in line.split("|"))
    cases = tuple(_read_case(law.split(), symbol, float(value)) for value in values.split())
    return FigureSpec(number, title, int(steps), cases)


def _read_case(law: Sequence[str], symbol: str, value: float) -> FigureCase:
    colours, *parameters = (value if word == symbol else float(word) for word in law[1:])
    source = partial(LAWS[law[0]], int(colours), *parameters)
    return FigureCase(f"{symbol} = {value:g}", source, int(value) if symbol == "K" else PLACES)


AS_MANY_COLOURS_AS_PLACES = FigureSpec(
    "5.1", "Uniform: as many colours as places", 90_000, (FigureCase("C = K", partial(uniform, 10_000), 10_000),)
)
FIGURE_SPECS = (AS_MANY_COLOURS_AS_PLACES, *map(_read_figure, _FIGURES.strip().splitlines()))


def draw_figure(sheet: FigureSpec, progress: Progress) -> Result:
    """Draw both panels of a figure: each case's filling by formula, its game by simulation."""
    curves = []
    for case in with_progress(sheet.cases, progress, lambda case: case.label):
        source = case.source()
        game = play_course(source, case.places, sheet.steps)
        played = (curve(case.label, game.t + case.places, y) for y in (game.distinct, game.new))
        t, *filling = thesis.expected_filling(source, case.places)
        curves.append((*played, *(curve("", t, y, "dashes") for y in filling)))
    distinct, new, expected, expected_new = zip(*curves, strict=True)
    panels = (Panel(TIME, DISTINCT, (*distinct, *expected)), Panel(TIME, P_NEW, (*new, *expected_new)))
    return Result(figures=(Figure(f"thesis-{sheet.number}", sheet.title, panels, CAPTION),))


def draw_queue_lengths(number: str, title: str, progress: Progress) -> Result:
    """Draw Figure 5.2: the number of queues with i balls, beside K / 2^(i+1) of Corollary 4.2.4."""
    places, steps = 10_000, 190_000
    game = thesis.play_neutral(uniform(places), places, steps)
    series = [curve(f"N({i}, t)", game.course.t + places, game.lengths_course[:, i]) for i in range(6)]
    expected = [Series("", [places, places + steps], [places / 2 ** (i + 1)] * 2, "dashes") for i in range(6)]
    panel = Panel(TIME, "number of queues of length i", (*series, *expected))
    return _figure(number, title, [panel], "C = K = 10000; dashes: K / 2^(i+1), Corollary 4.2.4")


P_OFFLINE = "P_offline"
DELTAS = tuple(range(1, 11))
BETAS = tuple(range(1, 11))
#: P_offline at which the thesis stops a greedy game: nearly every draw would have to go offline.
FULL = 0.99

STOPPED = "a curve ends where P_offline exceeds 0.99, as there, or where no draw can go online"


def _figure(number: str, title: str, panels: Iterable[Panel], caption: str = "") -> Result:
    return Result(figures=(Figure(f"thesis-{number}", title, tuple(panels), caption),))


def _distinct_panel(games: Iterable[tuple[str, GameCourse]], title: str = "", start: int = PLACES) -> Panel:
    return Panel(TIME, DISTINCT, tuple(curve(label, game.t + start, game.distinct) for label, game in games), title)


def _two_panels(number: str, title: str, games: Sequence[tuple[str, GameCourse]], caption: str) -> Result:
    offline = tuple(curve(label, game.t + PLACES, game.offline) for label, game in games)
    return _figure(number, title, (_distinct_panel(games), Panel(TIME, P_OFFLINE, offline)), caption)


def draw_by_colours(
    number: str, title: str, chosen: Strategy, steps: int, stored: int, ceiling: float, progress: Progress
) -> Result:
    """Figures 7.1 to 7.4: K = 1000, gamma = 1, an increasing number of colours."""
    play = partial(play_course, stored=stored, ceiling=ceiling, draw_cap=100_000)
    games = [
        (f"C = {colours}", play(power_law(1.0, colours), PLACES, steps, chosen))
        for colours in with_progress((1000, 2000, 5000), progress, "C = {}".format)
    ]
    return _two_panels(number, title, games, STOPPED if ceiling < 1 else f"gamma = 1, K = {PLACES}")


def draw_by_coin(number: str, title: str, name: str, colours: int, steps: int, progress: Progress) -> Result:
    """Figures 7.5 and 7.6: different probabilities that the coin chooses the source."""
    games = [
        (f"r = {r:g}", play_course(power_law(1.0, colours), PLACES, steps, strategy(name, r=r), draw_cap=100_000))
        for r in with_progress((0.0, 0.25, 0.5, 0.75, 1.0), progress, "r = {}".format)
    ]
    return _two_panels(number, title, games, f"gamma = 1, K = {PLACES}, C = {colours}; r: chance of the source")


def draw_baseline(number: str, title: str, progress: Progress) -> Result:
    """Figure 7.7: the baseline, without an offline structure."""
    gammas = with_progress(GAMMAS, progress, "gamma {}".format)
    games = [(f"γ = {gamma:g}", play_course(power_law(gamma), PLACES, 200_000)) for gamma in gammas]
    return _figure(number, title, [_distinct_panel(games)])


def draw_known_elephants(
    number: str, title: str, initial: Literal["strategy", "neutral"], progress: Progress
) -> Result:
    """Figures 7.8 and 7.9: elephants known from the start; one panel per gamma."""
    panels = []
    for gamma in with_progress(GAMMAS, progress, "gamma {}".format):
        play = partial(play_course, power_law(gamma), PLACES, 200_000, initial=initial)
        games = [(f"β = {beta}", play(strategy("alg11", beta=float(beta)))) for beta in BETAS]
        panels.append(_distinct_panel(games, f"γ = {gamma:g}"))
    return _figure(number, title, panels)


def _detection_panel(
    gamma: float, queues: thesis.Queues, deltas: Iterable[int], title: str, costs: bool = False
) -> Panel:
    """Draw a panel of games that detect elephants while playing, one curve per delta."""
    games = [(f"δ = {delta}", thesis.play_elephants(gamma, delta, queues).course) for delta in deltas]
    if not costs:
        return _distinct_panel(games, title, start=0)
    return Panel(
        TIME, "moves of the head per step", tuple(curve(label, game.t, game.cost) for label, game in games), title
    )


def draw_detected_elephants(number: str, title: str, costs: bool, progress: Progress) -> Result:
    """Figures 8.1 and 8.2: one panel per gamma."""
    gammas = with_progress(GAMMAS, progress, "gamma {}".format)
    panels = [_detection_panel(gamma, "per-host", DELTAS, f"γ = {gamma:g}", costs) for gamma in gammas]
    return _figure(number, title, panels)


def draw_queue_comparison(number: str, title: str, progress: Progress) -> Result:
    """Figure 8.3: a queue per elephant on the left, a single queue on the right."""
    figures = []
    for gamma in with_progress(printed_tables()["8.5"].columns, progress, "gamma {}".format):
        panels = (
            _detection_panel(gamma, "per-host", DELTAS[1:], "a queue per elephant"),
            _detection_panel(gamma, "one", DELTAS[1:], "one queue"),
        )
        figures.append(Figure(f"thesis-{number}-{gamma}", f"{title}, γ = {gamma}", panels))
    return Result(figures=tuple(figures))


def draw_stopped_search(number: str, title: str, progress: Progress) -> Result:
    """Figure 8.4: no elephant is named after T*; one panel per delta."""
    table = printed_tables()["8.10"]
    panels = []
    for delta in with_progress(sorted({cell.row for cell in table.cells}), progress, "delta {}".format):
        play = partial(play_course, power_law(0.9), PLACES, 500_000)
        stops = map(int, table.columns)
        games = [(f"T* = {stop}", play(strategy("alg12", delta=delta, stop_search=stop))) for stop in stops]
        panels.append(_distinct_panel(games, f"δ = {delta}", start=0))
    return _figure(number, title, panels)


def _neutral_experiment(sheet: FigureSpec) -> Experiment:
    about = "The game without an offline structure: colours online and P_new over time."
    title = f"Figure {sheet.number}. {sheet.title}"
    return experiment(f"thesis-figure-{sheet.number}", title, partial(draw_figure, sheet), about, group="urn")


def _experiment(
    number: str,
    title: str,
    draw: Callable[..., Result],
    *parameters: object,
    about: str = "The game with an offline structure, over time.",
    shares: str = "",
) -> Experiment:
    run = partial(draw, number, title, *parameters)
    return experiment(f"thesis-figure-{number}", f"Figure {number}. {title}", run, about, group="urn", shares=shares)


_OFFLINE_EXPERIMENTS = (
    ("7.1", "Algorithm 1, K balls offline before the start", draw_by_colours, strategy("alg1"), 20_000, PLACES, 1.0),
    ("7.2", "Algorithm 4: greedy on both sides", draw_by_colours, strategy("alg4"), 20_000, 0, FULL),
    ("7.3", "Algorithm 5: greedy until most are offline", draw_by_colours, strategy("alg5"), 20_000, 0, 1.0),
    ("7.4", "Algorithm 6: greedy, looking at two balls offline", draw_by_colours, strategy("alg6"), 20_000, 0, FULL),
    ("7.5", "Algorithm 9: a coin between the greedy source and any ball offline", draw_by_coin, "alg9", 10_000, 20_000),
    ("7.6", "Algorithm 10: the greedy source until most are offline, then a coin", draw_by_coin, "alg10", 5000, 20_000),
    ("7.7", "No offline structure", draw_baseline),
    ("7.8", "Elephants known from the start, a neutral filling", draw_known_elephants, "neutral"),
    ("7.9", "Elephants known from the start, kept offline while filling too", draw_known_elephants, "strategy"),
)
_QUEUE_LENGTHS = "The distribution of queue lengths over time, against Corollary 4.2.4."
_HEAD_MOVES = "Moves of the disk's head, a queue per elephant"
TOGETHER = "thesis games"

EXPERIMENTS = (
    _neutral_experiment(AS_MANY_COLOURS_AS_PLACES),
    _experiment("5.2", "Uniform: how many colours have i balls online", draw_queue_lengths, about=_QUEUE_LENGTHS),
    *map(_neutral_experiment, FIGURE_SPECS[1:]),
    *starmap(_experiment, _OFFLINE_EXPERIMENTS),
    _experiment("8.1", "Elephants found while playing", draw_detected_elephants, False, shares=TOGETHER),
    _experiment("8.2", _HEAD_MOVES, draw_detected_elephants, True, shares=TOGETHER),
    _experiment("8.3", "One queue instead of many", draw_queue_comparison, shares=TOGETHER),
    _experiment("8.4", "The search for elephants ends at T*", draw_stopped_search),
)
