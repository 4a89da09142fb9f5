"""Figures 7.1 to 7.9 and 8.1 to 8.4 of the thesis: the game with an offline structure.

Figures 7.1 to 7.6 show that the natural strategies fail, 7.7 to 7.9 and chapter 8 the effect of mice and
elephants. Most curves of chapter 8 are first seeds of the games that the tables use. From 7.7 on C =
100000 and K = 1000. The legends are lost: values that captions and tables do not give are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from fieldmouse.lab.catalogue import Experiment, Figure, Panel, Progress, Result
from fieldmouse.lab.papers.urn_games import GameCourse, Queues, course, curve, elephants, law
from fieldmouse.lab.papers.urn_printed import GAMMAS, PLACES, tables
from fieldmouse.lab.urn import Strategy, strategy

DISTINCT = "colours in the online structure"
P_OFFLINE = "P_offline"
TIME = "time t"
DELTAS = tuple(range(1, 11))
BETAS = tuple(range(1, 11))
FULL = 0.99
"""P_offline at which the thesis stops a greedy game: nearly every draw would have to go offline."""

STOPPED = "a curve ends where P_offline exceeds 0.99, as there, or where no draw can go online"


def _two_panels(number: str, title: str, curves: Iterable[tuple[str, GameCourse]], caption: str) -> Result:
    named = list(curves)
    distinct = tuple(curve(label, game.t + PLACES, game.distinct) for label, game in named)
    offline = tuple(curve(label, game.t + PLACES, game.offline) for label, game in named)
    panels = (Panel(TIME, DISTINCT, distinct), Panel(TIME, P_OFFLINE, offline))
    return Result(figures=(Figure(f"thesis-{number}", title, panels, caption),))


def over_colours(
    number: str,
    title: str,
    chosen: Strategy,
    steps: int,
    stored: int,
    ceiling: float,
    progress: Progress,
) -> Result:
    """Figures 7.1 to 7.4: K = 1000, gamma = 1, an increasing number of colours."""
    curves = []
    for done, colours in enumerate((1000, 2000, 5000)):
        progress(done / 3, f"C = {colours}")
        game = course(
            law(1.0, colours), PLACES, steps, chosen, stored=stored, ceiling=ceiling, draw_cap=100_000
        )
        curves.append((f"C = {colours}", game))
    return _two_panels(number, title, curves, STOPPED if ceiling < 1 else f"gamma = 1, K = {PLACES}")


def over_chances(number: str, title: str, name: str, colours: int, steps: int, progress: Progress) -> Result:
    """Figures 7.5 and 7.6: different probabilities that the coin chooses the source."""
    curves = []
    for done, r in enumerate((0.0, 0.25, 0.5, 0.75, 1.0)):
        progress(done / 5, f"r = {r}")
        game = course(law(1.0, colours), PLACES, steps, strategy(name, r=r), draw_cap=100_000)
        curves.append((f"r = {r:g}", game))
    return _two_panels(
        number, title, curves, f"gamma = 1, K = {PLACES}, C = {colours}; r: chance of the source"
    )


def without(progress: Progress) -> Result:
    """Figure 7.7: the baseline, without an offline structure."""
    curves = []
    for done, gamma in enumerate(GAMMAS):
        progress(done / len(GAMMAS), f"gamma {gamma}")
        game = course(law(gamma), PLACES, 200_000)
        curves.append(curve(f"γ = {gamma:g}", game.t + PLACES, game.distinct))
    panel = Panel(TIME, DISTINCT, tuple(curves))
    return Result(figures=(Figure("thesis-7.7", "No offline structure", (panel,)),))


def known(number: str, title: str, neutral: bool, progress: Progress) -> Result:
    """Figures 7.8 and 7.9: elephants known from the start; one panel per gamma."""
    panels = []
    for done, gamma in enumerate(GAMMAS):
        curves = []
        for beta in BETAS:
            progress((done + beta / len(BETAS)) / len(GAMMAS), f"gamma {gamma}, beta {beta}")
            game = course(
                law(gamma),
                PLACES,
                200_000,
                strategy("alg11", beta=float(beta)),
                initial="neutral" if neutral else "strategy",
            )
            curves.append(curve(f"β = {beta}", game.t + PLACES, game.distinct))
        panels.append(Panel(TIME, DISTINCT, tuple(curves), f"γ = {gamma:g}"))
    return Result(figures=(Figure(f"thesis-{number}", title, tuple(panels)),))


def _detection_panel(
    gamma: float, queues: Queues, deltas: Iterable[int], title: str, costs: bool = False
) -> Panel:
    """Draw a panel of games that detect elephants while playing, one curve per delta."""
    games = [(delta, elephants(gamma, delta, queues).course) for delta in deltas]
    curves = (curve(f"δ = {delta}", game.t, game.cost if costs else game.distinct) for delta, game in games)
    return Panel(TIME, "moves of the head per step" if costs else DISTINCT, tuple(curves), title)


def found(number: str, title: str, costs: bool, progress: Progress) -> Result:
    """Figures 8.1 and 8.2: one panel per gamma."""
    panels = []
    for done, gamma in enumerate(GAMMAS):
        progress(done / len(GAMMAS), f"gamma {gamma}")
        panels.append(_detection_panel(gamma, "per-host", DELTAS, f"γ = {gamma:g}", costs))
    return Result(figures=(Figure(f"thesis-{number}", title, tuple(panels)),))


def compared(progress: Progress) -> Result:
    """Figure 8.3: a queue per elephant on the left, a single queue on the right."""
    figures = []
    gammas = tables()["8.5"].columns
    for done, gamma in enumerate(gammas):
        progress(done / len(gammas), f"gamma {gamma}")
        panels = (
            _detection_panel(gamma, "per-host", DELTAS[1:], "a queue per elephant"),
            _detection_panel(gamma, "one", DELTAS[1:], "one queue"),
        )
        figures.append(Figure(f"thesis-8.3-{gamma}", f"One queue instead of many, γ = {gamma}", panels))
    return Result(figures=tuple(figures))


def stopped(progress: Progress) -> Result:
    """Figure 8.4: no elephant is named after T*; one panel per delta."""
    table = tables()["8.10"]
    panels = []
    for done, delta in enumerate(sorted({cell.row for cell in table.cells})):
        curves = []
        for stop in map(int, table.columns):
            progress((done + stop / 500_000) / 8, f"delta {delta}, T* {stop}")
            game = course(law(0.9), PLACES, 500_000, strategy("alg12", delta=delta, stop_search=stop))
            curves.append(curve(f"T* = {stop}", game.t, game.distinct))
        panels.append(Panel(TIME, DISTINCT, tuple(curves), f"δ = {delta}"))
    return Result(figures=(Figure("thesis-8.4", "The search for elephants ends at T*", tuple(panels)),))


def _over_colours(number: str, about: str, name: str, *, stored: int = 0, ceiling: float = 1.0) -> Experiment:
    run = partial(over_colours, number, about, strategy(name), 20_000, stored, ceiling)
    return _experiment(number, about, run)


def _experiment(number: str, title: str, run: Callable[[Progress], Result], shares: str = "") -> Experiment:
    about = "The game with an offline structure, over time."
    return Experiment(
        f"thesis-figure-{number}", "urn", f"Figure {number}. {title}", about, run, shares=shares
    )


FILLED_OFFLINE = "Algorithm 1, K balls offline before the start"
COIN = "Algorithm 9: a coin between the greedy source and any ball offline"
COMBINED = "Algorithm 10: the greedy source until most are offline, then a coin"
KNOWN = "Elephants known from the start, a neutral filling"
KNOWN_FILLED = "Elephants known from the start, kept offline while filling too"
FOUND = "Elephants found while playing"
COSTS = "Moves of the disk's head, a queue per elephant"
TOGETHER = "thesis games"

EXPERIMENTS = (
    _over_colours("7.1", FILLED_OFFLINE, "alg1", stored=PLACES),
    _over_colours("7.2", "Algorithm 4: greedy on both sides", "alg4", ceiling=FULL),
    _over_colours("7.3", "Algorithm 5: greedy until most are offline", "alg5"),
    _over_colours("7.4", "Algorithm 6: greedy, looking at two balls offline", "alg6", ceiling=FULL),
    _experiment("7.5", COIN, partial(over_chances, "7.5", COIN, "alg9", 10_000, 20_000)),
    _experiment("7.6", COMBINED, partial(over_chances, "7.6", COMBINED, "alg10", 5000, 20_000)),
    _experiment("7.7", "No offline structure", without),
    _experiment("7.8", KNOWN, partial(known, "7.8", KNOWN, True)),
    _experiment("7.9", KNOWN_FILLED, partial(known, "7.9", KNOWN_FILLED, False)),
    _experiment("8.1", FOUND, partial(found, "8.1", FOUND, False), TOGETHER),
    _experiment("8.2", COSTS, partial(found, "8.2", COSTS, True), TOGETHER),
    _experiment("8.3", "One queue instead of many", compared, TOGETHER),
    _experiment("8.4", "The search for elephants ends at T*", stopped),
)
