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
from functools import cache, partial

from fieldmouse_lab.catalogue import Experiment, Figure, Panel, Progress, Result, Series
from fieldmouse_lab.papers.bubing.games import (
    GameCourse,
    Queues,
    curve,
    expected_filling,
    play_course,
    play_elephants,
    play_neutral,
    power_law,
)
from fieldmouse_lab.papers.bubing.printed import COLOURS, GAMMAS, PLACES, printed_tables
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


def _cases_by_colours(law: Callable[[int], Source], colours: Sequence[int]) -> tuple[FigureCase, ...]:
    return tuple(FigureCase(f"C = {c}", partial(law, c)) for c in colours)


def _cases_by_places(source: Callable[[], Source], places: Sequence[int]) -> tuple[FigureCase, ...]:
    return tuple(FigureCase(f"K = {k}", source, k) for k in places)


def _cases_by_value(name: str, law: Callable[[float], Source], values: Sequence[float]) -> tuple[FigureCase, ...]:
    return tuple(FigureCase(f"{name} = {value:g}", partial(law, value)) for value in values)


@cache
def _as_many_colours_as_places() -> Source:
    return uniform(10_000)


MANY_COLOURS = (1000, 2000, 5000, 10_000, COLOURS)

FIGURE_SPECS = (
    FigureSpec(
        "5.1", "Uniform: as many colours as places", 90_000, (FigureCase("C = K", _as_many_colours_as_places, 10_000),)
    ),
    FigureSpec("5.3", "Uniform: more colours", 19_000, _cases_by_colours(uniform, MANY_COLOURS)),
    FigureSpec("5.4", "Uniform: more places", 9_000, _cases_by_places(lambda: uniform(1000), (100, 500, 1000, 2000))),
    FigureSpec(
        "5.5", "Exponential: more colours", 19_000, _cases_by_colours(lambda c: exponential(c, 1000), MANY_COLOURS)
    ),
    FigureSpec(
        "5.6",
        "Exponential: more places",
        400_000,
        _cases_by_places(lambda: exponential(COLOURS, 1000), (100, 1000, 10_000, 50_000, 100_000)),
    ),
    FigureSpec(
        "5.7",
        "Exponential: a larger mean",
        19_000,
        _cases_by_value("λ", lambda mean: exponential(COLOURS, mean), (10, 100, 1000, 10_000, 100_000)),
    ),
    FigureSpec("5.8", "Normal: more colours", 19_000, _cases_by_colours(lambda c: normal(c, 1000, 100), MANY_COLOURS)),
    FigureSpec(
        "5.9",
        "Normal: more places",
        400_000,
        _cases_by_places(lambda: normal(COLOURS, 10_000, 1000), (1000, 3000, 6000, 10_000, 50_000, 100_000)),
    ),
    FigureSpec(
        "5.10",
        "Normal: a larger mean",
        99_000,
        _cases_by_value("μ", lambda mean: normal(COLOURS, mean, 100), (100, 200, 300, 1000, 10_000)),
    ),
    FigureSpec(
        "5.11",
        "Normal: a larger deviation",
        99_000,
        _cases_by_value("σ", lambda deviation: normal(COLOURS, 1000, deviation), (10, 100, 300, 500, 800, 1000)),
    ),
    FigureSpec(
        "5.12",
        "Poisson: more colours",
        19_000,
        _cases_by_colours(lambda c: poisson(c, 1000), (1000, 1200, 2000, 10_000, COLOURS)),
    ),
    FigureSpec(
        "5.13",
        "Normal with the variance of Poisson: more colours",
        19_000,
        _cases_by_colours(lambda c: normal(c, 1000, 1000**0.5), (1000, 1200, 2000, 10_000, COLOURS)),
    ),
    FigureSpec(
        "5.14",
        "Poisson: more places",
        400_000,
        _cases_by_places(lambda: poisson(COLOURS, 1000), (100, 1000, 10_000, 100_000)),
    ),
    FigureSpec(
        "5.15",
        "Poisson: a larger mean",
        19_000,
        _cases_by_value("λ", lambda mean: poisson(COLOURS, mean), (0, 100, 1000, 10_000, 55_000, 100_000)),
    ),
    FigureSpec("5.16", "Power law: more colours", 99_000, _cases_by_colours(lambda c: power(c, 1.1), MANY_COLOURS)),
    FigureSpec(
        "5.17",
        "Power law, gamma 1.1: more places",
        400_000,
        _cases_by_places(lambda: power(COLOURS, 1.1), (100, 1000, 10_000, 50_000)),
    ),
    FigureSpec(
        "5.18",
        "Power law, gamma 0.1: more places",
        400_000,
        _cases_by_places(lambda: power(COLOURS, 0.1), (100, 1000, 10_000, 50_000)),
    ),
    FigureSpec(
        "5.19",
        "Power law: a larger gamma, as many colours as places",
        19_000,
        _cases_by_value("γ", lambda gamma: power(1000, gamma), (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1)),
    ),
    FigureSpec(
        "5.20",
        "Power law: a larger gamma",
        99_000,
        _cases_by_value("γ", lambda gamma: power(COLOURS, gamma), (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1)),
    ),
    FigureSpec(
        "5.21",
        "Power law: gamma larger still",
        9_000,
        _cases_by_value("γ", lambda gamma: power(COLOURS, gamma), (1, 1.5, 2, 3, 4, 5)),
    ),
)


def draw_figure(sheet: FigureSpec, progress: Progress) -> Result:
    """Draw both panels of a figure: each case's filling by formula, its game by simulation."""
    distinct: list[Series] = []
    new: list[Series] = []
    expected: list[Series] = []
    expected_new: list[Series] = []
    for done, case in enumerate(sheet.cases):
        progress(done / len(sheet.cases), case.label)
        source = case.source()
        game = play_course(source, case.places, sheet.steps)
        distinct.append(curve(case.label, game.t + case.places, game.distinct))
        new.append(curve(case.label, game.t + case.places, game.new))
        t, colours, chance = expected_filling(source, case.places)
        expected.append(curve("", t, colours, "dashes"))
        expected_new.append(curve("", t, chance, "dashes"))
    panels = (Panel(TIME, DISTINCT, (*distinct, *expected)), Panel(TIME, P_NEW, (*new, *expected_new)))
    return Result(figures=(Figure(f"thesis-{sheet.number}", sheet.title, panels, CAPTION),))


def draw_queue_lengths(progress: Progress) -> Result:
    """Draw Figure 5.2: the number of queues with i balls, beside K / 2^(i+1) of Corollary 4.2.4."""
    places, steps = 10_000, 190_000
    game = play_neutral(_as_many_colours_as_places(), places, steps)
    series = [curve(f"N({i}, t)", game.course.t + places, game.lengths_course[:, i]) for i in range(6)]
    expected = [Series("", [places, places + steps], [places / 2 ** (i + 1)] * 2, "dashes") for i in range(6)]
    panel = Panel(TIME, "number of queues of length i", (*series, *expected))
    title = "Uniform: how many colours have i balls online"
    return Result(
        figures=(Figure("thesis-5.2", title, (panel,), "C = K = 10000; dashes: K / 2^(i+1), Corollary 4.2.4"),)
    )


def _order(number: str) -> int:
    return int(number.partition(".")[2])


NEUTRAL_EXPERIMENTS = tuple(
    sorted(
        (
            *(
                Experiment(
                    f"thesis-figure-{sheet.number}",
                    "urn",
                    f"Figure {sheet.number}. {sheet.title}",
                    "The game without an offline structure: colours online and P_new over time.",
                    partial(draw_figure, sheet),
                )
                for sheet in FIGURE_SPECS
            ),
            Experiment(
                "thesis-figure-5.2",
                "urn",
                "Figure 5.2. Uniform: how many colours have i balls online",
                "The distribution of queue lengths over time, against Corollary 4.2.4.",
                draw_queue_lengths,
            ),
        ),
        key=lambda experiment: _order(experiment.id),
    )
)
P_OFFLINE = "P_offline"
DELTAS = tuple(range(1, 11))
BETAS = tuple(range(1, 11))
#: P_offline at which the thesis stops a greedy game: nearly every draw would have to go offline.
FULL = 0.99

STOPPED = "a curve ends where P_offline exceeds 0.99, as there, or where no draw can go online"


def _two_panels(number: str, title: str, curves: Iterable[tuple[str, GameCourse]], caption: str) -> Result:
    named = list(curves)
    distinct = tuple(curve(label, game.t + PLACES, game.distinct) for label, game in named)
    offline = tuple(curve(label, game.t + PLACES, game.offline) for label, game in named)
    panels = (Panel(TIME, DISTINCT, distinct), Panel(TIME, P_OFFLINE, offline))
    return Result(figures=(Figure(f"thesis-{number}", title, panels, caption),))


def draw_by_colours(
    number: str, title: str, chosen: Strategy, steps: int, stored: int, ceiling: float, progress: Progress
) -> Result:
    """Figures 7.1 to 7.4: K = 1000, gamma = 1, an increasing number of colours."""
    curves = []
    for done, colours in enumerate((1000, 2000, 5000)):
        progress(done / 3, f"C = {colours}")
        game = play_course(
            power_law(1.0, colours), PLACES, steps, chosen, stored=stored, ceiling=ceiling, draw_cap=100_000
        )
        curves.append((f"C = {colours}", game))
    return _two_panels(number, title, curves, STOPPED if ceiling < 1 else f"gamma = 1, K = {PLACES}")


def draw_by_coin(number: str, title: str, name: str, colours: int, steps: int, progress: Progress) -> Result:
    """Figures 7.5 and 7.6: different probabilities that the coin chooses the source."""
    curves = []
    for done, r in enumerate((0.0, 0.25, 0.5, 0.75, 1.0)):
        progress(done / 5, f"r = {r}")
        game = play_course(power_law(1.0, colours), PLACES, steps, strategy(name, r=r), draw_cap=100_000)
        curves.append((f"r = {r:g}", game))
    return _two_panels(number, title, curves, f"gamma = 1, K = {PLACES}, C = {colours}; r: chance of the source")


def draw_baseline(progress: Progress) -> Result:
    """Figure 7.7: the baseline, without an offline structure."""
    curves = []
    for done, gamma in enumerate(GAMMAS):
        progress(done / len(GAMMAS), f"gamma {gamma}")
        game = play_course(power_law(gamma), PLACES, 200_000)
        curves.append(curve(f"γ = {gamma:g}", game.t + PLACES, game.distinct))
    panel = Panel(TIME, DISTINCT, tuple(curves))
    return Result(figures=(Figure("thesis-7.7", "No offline structure", (panel,)),))


def draw_known_elephants(number: str, title: str, neutral: bool, progress: Progress) -> Result:
    """Figures 7.8 and 7.9: elephants known from the start; one panel per gamma."""
    panels = []
    for done, gamma in enumerate(GAMMAS):
        curves = []
        for beta in BETAS:
            progress((done + beta / len(BETAS)) / len(GAMMAS), f"gamma {gamma}, beta {beta}")
            game = play_course(
                power_law(gamma),
                PLACES,
                200_000,
                strategy("alg11", beta=float(beta)),
                initial="neutral" if neutral else "strategy",
            )
            curves.append(curve(f"β = {beta}", game.t + PLACES, game.distinct))
        panels.append(Panel(TIME, DISTINCT, tuple(curves), f"γ = {gamma:g}"))
    return Result(figures=(Figure(f"thesis-{number}", title, tuple(panels)),))


def _detection_panel(gamma: float, queues: Queues, deltas: Iterable[int], title: str, costs: bool = False) -> Panel:
    """Draw a panel of games that detect elephants while playing, one curve per delta."""
    games = [(delta, play_elephants(gamma, delta, queues).course) for delta in deltas]
    curves = (curve(f"δ = {delta}", game.t, game.cost if costs else game.distinct) for delta, game in games)
    return Panel(TIME, "moves of the head per step" if costs else DISTINCT, tuple(curves), title)


def draw_detected_elephants(number: str, title: str, costs: bool, progress: Progress) -> Result:
    """Figures 8.1 and 8.2: one panel per gamma."""
    panels = []
    for done, gamma in enumerate(GAMMAS):
        progress(done / len(GAMMAS), f"gamma {gamma}")
        panels.append(_detection_panel(gamma, "per-host", DELTAS, f"γ = {gamma:g}", costs))
    return Result(figures=(Figure(f"thesis-{number}", title, tuple(panels)),))


def draw_queue_comparison(progress: Progress) -> Result:
    """Figure 8.3: a queue per elephant on the left, a single queue on the right."""
    figures = []
    gammas = printed_tables()["8.5"].columns
    for done, gamma in enumerate(gammas):
        progress(done / len(gammas), f"gamma {gamma}")
        panels = (
            _detection_panel(gamma, "per-host", DELTAS[1:], "a queue per elephant"),
            _detection_panel(gamma, "one", DELTAS[1:], "one queue"),
        )
        figures.append(Figure(f"thesis-8.3-{gamma}", f"One queue instead of many, γ = {gamma}", panels))
    return Result(figures=tuple(figures))


def draw_stopped_search(progress: Progress) -> Result:
    """Figure 8.4: no elephant is named after T*; one panel per delta."""
    table = printed_tables()["8.10"]
    panels = []
    for done, delta in enumerate(sorted({cell.row for cell in table.cells})):
        curves = []
        for stop in map(int, table.columns):
            progress((done + stop / 500_000) / 8, f"delta {delta}, T* {stop}")
            game = play_course(power_law(0.9), PLACES, 500_000, strategy("alg12", delta=delta, stop_search=stop))
            curves.append(curve(f"T* = {stop}", game.t, game.distinct))
        panels.append(Panel(TIME, DISTINCT, tuple(curves), f"δ = {delta}"))
    return Result(figures=(Figure("thesis-8.4", "The search for elephants ends at T*", tuple(panels)),))


def _offline_over_colours(number: str, about: str, name: str, *, stored: int = 0, ceiling: float = 1.0) -> Experiment:
    run = partial(draw_by_colours, number, about, strategy(name), 20_000, stored, ceiling)
    return _experiment(number, about, run)


def _experiment(number: str, title: str, run: Callable[[Progress], Result], shares: str = "") -> Experiment:
    about = "The game with an offline structure, over time."
    return Experiment(f"thesis-figure-{number}", "urn", f"Figure {number}. {title}", about, run, shares=shares)


FILLED_OFFLINE = "Algorithm 1, K balls offline before the start"
COIN = "Algorithm 9: a coin between the greedy source and any ball offline"
COMBINED = "Algorithm 10: the greedy source until most are offline, then a coin"
KNOWN = "Elephants known from the start, a neutral filling"
KNOWN_FILLED = "Elephants known from the start, kept offline while filling too"
FOUND = "Elephants found while playing"
COSTS = "Moves of the disk's head, a queue per elephant"
TOGETHER = "thesis games"

OFFLINE_EXPERIMENTS = (
    _offline_over_colours("7.1", FILLED_OFFLINE, "alg1", stored=PLACES),
    _offline_over_colours("7.2", "Algorithm 4: greedy on both sides", "alg4", ceiling=FULL),
    _offline_over_colours("7.3", "Algorithm 5: greedy until most are offline", "alg5"),
    _offline_over_colours("7.4", "Algorithm 6: greedy, looking at two balls offline", "alg6", ceiling=FULL),
    _experiment("7.5", COIN, partial(draw_by_coin, "7.5", COIN, "alg9", 10_000, 20_000)),
    _experiment("7.6", COMBINED, partial(draw_by_coin, "7.6", COMBINED, "alg10", 5000, 20_000)),
    _experiment("7.7", "No offline structure", draw_baseline),
    _experiment("7.8", KNOWN, partial(draw_known_elephants, "7.8", KNOWN, True)),
    _experiment("7.9", KNOWN_FILLED, partial(draw_known_elephants, "7.9", KNOWN_FILLED, False)),
    _experiment("8.1", FOUND, partial(draw_detected_elephants, "8.1", FOUND, False), TOGETHER),
    _experiment("8.2", COSTS, partial(draw_detected_elephants, "8.2", COSTS, True), TOGETHER),
    _experiment("8.3", "One queue instead of many", draw_queue_comparison, TOGETHER),
    _experiment("8.4", "The search for elephants ends at T*", draw_stopped_search),
)

EXPERIMENTS = (*NEUTRAL_EXPERIMENTS, *OFFLINE_EXPERIMENTS)
