"""Live threshold control compared with fixed numbers of workers, threshold rules and other controllers.

A meadow (synthetic web) is crawled in virtual time with an artificially slow indexer, in five situations.
Each rule crawls each situation with each seed. The cost is that of Avrachenkov et al. (2011), equation 2,
measured by the crawler's own gauge from the time when the first hosts are known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory

from fieldmouse.control.buffer_trace import BufferMetrics
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse_lab.catalogue import Figure, Panel, Progress, Result, Row, Series, Verdict, experiment, map_in_processes
from fieldmouse_lab.papers.thresholds.opponents import AUTO, STATIC_BEST, live_rules
from fieldmouse_lab.slow_indexer import SlowIndexerRun, SlowIndexerSetup, crawl_with_slow_indexer

#: First of the seeds, and their number. None of these seeds was used to build the control.
FIRST_SEED, SEEDS = 31, 5
MEASURES = ("starvation", "loss", "obsolete", "response")
#: Seconds until the first hosts are known; measures start then.
WARM_UP = 10.0
#: Seconds of a crawl shown in the figure.
FIGURE_SECONDS = 120
#: Seconds of a batch, for the confidence intervals of means.
BATCH_SECONDS = 20.0
#: Allowance, as a share of the prediction, for fetches in flight when the number of fetch workers changes. The model
#: ignores them: it starts and stops workers at once. A real worker first has to make its first fetch, and delivers the
#: response it is waiting for.
IN_FLIGHT_ALLOWANCE = 1 / 3
#: Quantiles of Student's t for a 95 % interval of a mean, by the number of values.
STUDENT_T = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}

#: Nine pages in ten take 0.05 s and one takes 0.55 s on average: mean 0.1 s, squared variation 5.5.
UNEVEN_SERVICE = PhaseType.hyperexponential([0.9, 0.1], [1 / 0.05, 1 / 0.55])


@dataclass(frozen=True, slots=True)
class PredictionCheck:
    """Predicted value of one measure, averaged over the rules followed, and its measured value.

    `chance` is the half-width of the 95 % interval of the measured mean, by batch means. For a share of
    pages it is at least three pages, the 95 % bound on a count of zero.
    """

    measure: str
    predicted: float
    measured: float
    chance: float

    @property
    def allowed(self) -> float:
        return self.chance + IN_FLIGHT_ALLOWANCE * self.predicted

    @property
    def agrees(self) -> bool:
        return abs(self.measured - self.predicted) <= self.allowed


@dataclass(frozen=True, slots=True)
class LiveTrial:
    """One crawl: its cost, its totals after the start, and for `auto` its course."""

    situation: str
    seed: int
    rule: str
    cost: float
    course: SlowIndexerRun | None = None


#: A situation, a seed and the name of a rule.
Task = tuple[str, int, str]


def run_trial(task: Task, **changes: object) -> LiveTrial:
    """Crawl with one rule; settings as `section__key=value`."""
    name, seed, rule = task
    return crawl_situation(SITUATIONS[name], name, seed, rule, **changes)


def crawl_situation(setup: SlowIndexerSetup, name: str, seed: int, rule: str, **changes: object) -> LiveTrial:
    way = live_rules(setup)[rule]
    settings = dict(way.settings) | {key.replace("__", "."): value for key, value in changes.items()}
    with TemporaryDirectory(prefix="fieldmouse-") as room:
        course = crawl_with_slow_indexer(setup, Path(room) / "crawl", seed, settings, way.controller(setup))
    cost = BufferMetrics.measured(course.between(WARM_UP)).cost(setup.cost)
    return LiveTrial(name, seed, rule, cost, course if rule == AUTO else None)


def check_predictions(course: SlowIndexerRun) -> list[PredictionCheck]:
    """Compare predictions with measures, from the first chosen rule to the end."""
    periods = [part for part in course.chapters if part.decision.predicted and part.period]
    start = periods[0].decision.at - course.readings[0].at + 1.0
    batches = course.batches(start, BATCH_SECONDS)
    totals = course.between(start)
    whole = BufferMetrics.measured(totals)
    found = []
    for measure in MEASURES:
        lengths = [part.period.seconds for part in periods if part.period]
        values = [getattr(part.decision.predicted, measure) for part in periods]
        predicted = sum(map(math.prod, zip(lengths, values, strict=True))) / sum(lengths)
        spread = [getattr(batch, measure) for batch in batches]
        # Student's t for this number of batches is a little above 2.
        chance = 2.2 * stdev(spread) / math.sqrt(len(spread)) if len(spread) > 2 else math.inf
        if measure in ("loss", "obsolete"):
            # Batch means do not give the spread of events that are rare enough not to occur at all.
            chance = max(chance, 3 / totals.arrived)
        found.append(PredictionCheck(measure, predicted, getattr(whole, measure), chance))
    return [one for one in found if one.predicted or one.measured]


def run(progress: Progress, first_seed: int = FIRST_SEED) -> Result:
    """Five situations of a slow indexer: `auto` against static thresholds, fixed numbers, AIMD and gradient limits."""
    seeds = range(first_seed, first_seed + SEEDS)
    tasks = [(name, seed, rule) for name, setup in SITUATIONS.items() for seed in seeds for rule in live_rules(setup)]
    trials = list(map_in_processes(run_trial, tasks, progress, lambda task: f"{task[0]}, seed {task[1]}, {task[2]}"))
    trials += [trial for name in SITUATIONS for trial in static_best([one for one in trials if one.situation == name])]
    rows = tuple(
        Row(
            f"{one.situation}, seed {one.seed}: {one.rule}",
            None,
            one.cost,
            None,
            Verdict.NEW,
            fields={"situation": one.situation, "seed": one.seed, "rule": one.rule, "cost": one.cost},
        )
        for one in trials
    )
    first = {name: next(one for one in trials if one.situation == name and one.rule == AUTO) for name in SITUATIONS}
    figures = (_cost_figure(trials), *(_course_figure(name, one) for name, one in first.items()))
    return Result(rows, figures, tuple(_remarks(trials)))


def static_best(trials: Sequence[LiveTrial]) -> list[LiveTrial]:
    """The crawls of the static rule with the lowest mean cost in a situation, once more under one name."""
    static = {name for name, rule in live_rules(SITUATIONS[trials[0].situation]).items() if rule.is_static}
    best = min(static, key=lambda name: fmean(one.cost for one in trials if one.rule == name))
    return [replace(one, rule=STATIC_BEST) for one in trials if one.rule == best]


def mean_costs(trials: Sequence[LiveTrial], situation: str) -> dict[str, float]:
    """Mean cost over the seeds, by rule."""
    found = [one for one in trials if one.situation == situation]
    return {rule: fmean(one.cost for one in found if one.rule == rule) for rule in dict.fromkeys(o.rule for o in found)}


def _remarks(trials: Sequence[LiveTrial]) -> list[str]:
    said = []
    for name, setup in SITUATIONS.items():
        costs = mean_costs(trials, name)
        auto, others = costs.pop(AUTO), {rule: cost for rule, cost in costs.items() if rule != STATIC_BEST}
        best = min(others, key=others.__getitem__)
        ratios = [
            one.cost / other.cost
            for one in trials
            for other in trials
            if (one.situation, one.rule, other.situation, other.rule) == (name, AUTO, name, best)
            and one.seed == other.seed
        ]
        chance = STUDENT_T[len(ratios)] * stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.inf
        said.append(
            f"{name}: auto costs {auto:.3g}, the best of {len(others)} others ({best}) {others[best]:.3g};"
            f" ratio {fmean(ratios):.3f} with a 95 % interval of {chance:.3f} on either side"
        )
        service = setup.service
        said.append(
            f"{name}: room for {setup.capacity} pages; a fetch takes {setup.latency:g} s, indexing a page"
            f" {service.mean:g} s (squared variation {service.scv:.3g})"
        )
    told = [found for one in trials if one.course for found in check_predictions(one.course)]
    said.append(
        f"{sum(found.agrees for found in told)} of {len(told)} measures of auto agree with their prediction within the"
        " 95 % interval of batch means plus a third of the prediction"
    )
    cost = next(iter(SITUATIONS.values())).cost
    said.append(
        f"J = {cost.loss:g} dropped/s + {cost.obs:g} obsolete/s + {cost.sojourn:g} response + {cost.robots:g} robots"
        f" + {cost.star:g} starvation, without the first {WARM_UP:g} s"
    )
    return said


def _course_figure(name: str, one: LiveTrial) -> Figure:
    assert one.course is not None
    shown = one.course.readings[:FIGURE_SECONDS]
    seconds = [reading.at - shown[0].at for reading in shown]
    level = Series("level", seconds, [reading.level for reading in shown], "steps")
    room = Series("room", [0.0, seconds[-1]], [SITUATIONS[name].capacity] * 2, "dashes")
    allowed = Series("fetch workers", seconds, [reading.allowed for reading in shown], "steps")
    buffer_panel = Panel("seconds", "pages in buffer and service", (level, room))
    panels = (buffer_panel, Panel("seconds", "fetch workers allowed", (allowed,)))
    caption = f"Situation `{name}`: workers stop at a level that follows from the measured rates."
    return Figure(f"live-thresholds-course-{name}", "A crawl under threshold control", panels, caption)


def _cost_figure(trials: Sequence[LiveTrial]) -> Figure:
    panels = []
    for name in SITUATIONS:
        costs = sorted(mean_costs(trials, name).items(), key=lambda item: item[1])
        others = [(place, cost) for place, (rule, cost) in enumerate(costs, 1) if rule != AUTO]
        series = Series("others", [place for place, _ in others], [cost for _, cost in others], "points")
        (at,) = (place for place, (rule, _) in enumerate(costs, 1) if rule == AUTO)
        ours = Series("auto", [at], [costs[at - 1][1]], "points")
        panels.append(Panel("rank", "cost J", (series, ours), name, y_log=True))
    return Figure("live-thresholds-cost", "Cost of all rules", tuple(panels), "Mean over the seeds, cheapest first.")


SITUATIONS = {
    "hyperexponential": SlowIndexerSetup(UNEVEN_SERVICE),
    "exponential": SlowIndexerSetup(PhaseType.exponential(10.0)),
    "fading": SlowIndexerSetup(UNEVEN_SERVICE, lifetime=4.0, capacity=20),
    "changing-indexer": SlowIndexerSetup(
        PhaseType.exponential(10.0), service_after=PhaseType.exponential(4.0), change_at=150.0
    ),
    "changing-web": SlowIndexerSetup(PhaseType.exponential(10.0), latency=0.05, latency_factor=6.0, change_at=150.0),
}

EXPERIMENTS = (experiment("live-thresholds", "Live threshold control", run, seeded=True),)
