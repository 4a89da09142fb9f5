"""Figures 1 to 4 of the threshold paper: cost by limit, for pairs of modes and for other laws.

The paper draws the curves and prints few of their numbers. Printed numbers are compared; the rest are
ours. Only in Figure 4 is a lifetime not exponential, so that the order of waiting pages matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations

from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.model.model import Model, cost_of
from fieldmouse.queueing.solve.solve import solve
from fieldmouse_lab.catalogue import Figure, Panel, Progress, Result, Row, Series, experiment, new_row, with_progress
from fieldmouse_lab.papers.thresholds import printed
from fieldmouse_lab.papers.thresholds.printed import COST, LIFETIME, SERVICE, OptimalRules, example_model

SERVICE_RATES = (1.521, 3.0, 5.0, 7.0, 9.0)
LIFETIME_RATES = (0.2, 0.5, 1.0, 3.0, 7.0)
LEVELS = range(6)

#: Cost with the limit at 0, 1, ..., K; at K the smaller mode is never used.
Curve = list[float]


def curve(model: Model, robots: tuple[int, int]) -> Curve:
    return [cost_of(solve(model, Thresholds(robots, (limit,))), COST) for limit in LEVELS]


def _rows(curves: Mapping[str, Curve]) -> tuple[Row, ...]:
    return tuple(
        new_row(f"{label}, j {limit}", J) for label, points in curves.items() for limit, J in enumerate(points)
    )


def _figure(number: int, title: str, curves: Mapping[str, Curve]) -> Figure:
    series = tuple(Series(label, list(LEVELS), points) for label, points in curves.items())
    return Figure(f"thresholds-figure-{number}", title, (Panel("limit", "cost J", series),))


def figure_1(progress: Progress) -> Result:
    """Each of the six pairs of modes, K = 5."""
    curves = {f"modes {high}{low}": curve(example_model(), (high, low)) for low, high in combinations(printed.MODES, 2)}
    return Result(_rows(curves), (_figure(1, "Cost over the limit, for each pair of modes", curves),))


def _service(alpha1: float) -> Model:
    return example_model(service=printed.two_rates(SERVICE.mean, alpha1))


def _lifetime(alpha1: float) -> Model:
    return example_model(lifetime=printed.two_rates(LIFETIME.mean, alpha1))


def figure_2(progress: Progress) -> Result:
    """Modes 3 and 1, two rates of service, the mean kept."""
    curves = {f"alpha1 {rate:g}": curve(_service(rate), (3, 1)) for rate in SERVICE_RATES}
    progress(0.5, "looking for where modes 4 and 1 take over")
    ours = {f"variance at alpha1 {rate:g}": _service(rate).service.variance for rate in (1.521, 4, 9)}
    ours["least alpha1"] = 0.9 / SERVICE.mean
    ours["alpha1 from which modes 41 beat 31"], three = _takeovers()
    rows = printed.compare_numbers("service", ours)
    remarks = (f"the paper compares pairs of modes; three modes, 4, 3 and 1, are best from alpha1 = {three:.2f} on",)
    title = "Cost over the limit, modes 3 and 1, as service varies more"
    return Result((*rows, *_rows(curves)), (_figure(2, title, curves),), remarks)


def _takeovers() -> tuple[float, float]:
    """Find the alpha1 from which 4 and 1 robots beat 3 and 1, and that from which 4, 3 and 1 beat both."""

    def pair_wins(alpha1: float) -> bool:
        found = OptimalRules(_service(alpha1), COST)
        return found.for_modes("41").J < found.for_modes("31").J

    def three_win(alpha1: float) -> bool:
        return OptimalRules(_service(alpha1), COST).modes == "431"

    def first(holds: Callable[[float], bool]) -> float:
        low, high = 3.0, 5.0
        while high - low > 1e-6:
            middle = (low + high) / 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    return first(pair_wins), first(three_win)


def figure_3(progress: Progress) -> Result:
    """As figure 2, with the better pair of modes."""
    robots = {rate: (3, 1) if rate < 4 else (4, 1) for rate in SERVICE_RATES}
    curves = {
        f"alpha1 {rate:g}, modes {high}{low}": curve(_service(rate), (high, low))
        for rate, (high, low) in robots.items()
    }
    title = "Cost over the limit, with the better pair of modes, as service varies more"
    return Result(_rows(curves), (_figure(3, title, curves),))


def figure_4(progress: Progress) -> Result:
    """Modes 3 and 1, two rates of obsolescence, the mean kept."""
    labels = "alpha1 {:g}".format
    rates = with_progress(LIFETIME_RATES, progress, labels)
    curves = {labels(rate): curve(_lifetime(rate), (3, 1)) for rate in rates}
    first, last = (curves[f"alpha1 {rate:g}"] for rate in (0.2, 7.0))
    ours: dict[str, float] = {
        "variance at alpha1 0.2": _lifetime(0.2).lifetime.variance,
        "variance at alpha1 7": _lifetime(7).lifetime.variance,
        "best limit at alpha1 0.2": first.index(min(first)),
        "best limit at alpha1 7": last.index(min(last)),
    }
    rows = printed.compare_numbers("lifetime", ours)
    same = first[last.index(min(last))]
    remarks = (
        "solved by the ordered chain, which keeps each waiting page's phase; alpha1 = 0.2 is exponential",
        f"taken for exponential, lifetimes with alpha1 = 7 would lead to the limit {first.index(min(first))} "
        f"and cost {last[first.index(min(first))]:.1f} instead of {min(last):.1f}; the exponential model "
        f"would promise {min(first):.1f} ({same:.1f} at the true limit)",
    )
    title = "Cost over the limit, modes 3 and 1, as lifetimes vary more"
    return Result((*rows, *_rows(curves)), (_figure(4, title, curves),), remarks)


_TITLES: dict[str, Callable[[Progress], Result]] = {
    "Cost over the limit": figure_1,
    "Service that varies more": figure_2,
    "Service that varies more, best modes": figure_3,
    "Lifetimes that vary more": figure_4,
}

EXPERIMENTS = tuple(
    experiment(f"thresholds-figure-{number}", f"Figure {number}: {title}", run, shares="thresholds")
    for number, (title, run) in enumerate(_TITLES.items(), 1)
)
