"""Live threshold control compared with every fixed number of fetch workers and with its own predictions.

A meadow (synthetic web) is crawled in virtual time with an artificially slow indexer. Under `auto` the
crawl tries its numbers of fetch workers, fits a model, and follows the cheapest rule for it. The same
crawl is made with each fixed number. The cost is that of Avrachenkov et al. (2011), equation 2, measured
by the crawler's own gauge; it includes the trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import stdev
from tempfile import TemporaryDirectory

from fieldmouse.control.buffer_trace import BufferMetrics
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse_lab.catalogue import Figure, Panel, Progress, Result, Row, Series, Verdict, experiment, new_row
from fieldmouse_lab.slow_indexer import SlowIndexerRun, SlowIndexerSetup, crawl_with_slow_indexer

#: Seeds that were not used to choose the allowances below.
SEEDS = (11, 12, 13)
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
    """Results of one seed: the controlled crawl, and the cost of each fixed number of fetch workers."""

    seed: int
    governed: SlowIndexerRun
    cost: float
    fixed: dict[int, float]

    @property
    def saving(self) -> float:
        """Saving of the controlled crawl over the best fixed number, as a share."""
        return 1 - self.cost / min(self.fixed.values())


def run_trial(situation: SlowIndexerSetup, seed: int, tell: Progress, **changes: object) -> LiveTrial:
    """Crawl under `auto` and with each fixed number of fetch workers; settings as `section__key=value`."""
    numbers = range(1, situation.robots + 1)
    auto = {name.replace("__", "."): value for name, value in changes.items()}
    auto |= {"control.mode": "auto", "control.modes": list(numbers)}
    ways: dict[int, dict[str, object]] = {0: auto}
    ways |= {number: {"fetch.concurrency": number} for number in numbers}
    courses: dict[int, SlowIndexerRun] = {}
    for done, (count, way) in enumerate(ways.items()):
        tell(done / len(ways), f"{count} robots, seed {seed}" if count else f"auto, seed {seed}")
        with TemporaryDirectory(prefix="fieldmouse-") as room:
            courses[count] = crawl_with_slow_indexer(situation, Path(room) / "crawl", seed, way)
    costs = {
        count: BufferMetrics.measured(course.between(WARM_UP)).cost(situation.cost) for count, course in courses.items()
    }
    return LiveTrial(seed, courses[0], costs.pop(0), costs)


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


def run(situation: SlowIndexerSetup, name: str, progress: Progress) -> Result:
    trials = []
    for number, seed in enumerate(SEEDS):

        def tell(done: float, what: str, before: int = number) -> None:
            progress((before + done) / len(SEEDS), what)

        trials.append(run_trial(situation, seed, tell, control__every="40s"))
    rows = [row for one in trials for row in _rows(one)]
    rows.append(new_row("cost saved against the best fixed number", [one.saving for one in trials]))
    figures = (_course_figure(situation, name, trials[0]), _cost_figure(name, trials), _fare_figure(name, trials[0]))
    return Result(tuple(rows), figures, tuple(_remarks(situation, trials)))


def _rows(one: LiveTrial) -> list[Row]:
    rows = [new_row(f"seed {one.seed}: cost under auto", one.cost)]
    for count, cost in one.fixed.items():
        note = "" if cost > one.cost else "cheaper than auto"
        rows.append(new_row(f"seed {one.seed}: cost with {count} robots", cost, note))
    for told in check_predictions(one.governed):
        word = "agrees with" if told.agrees else "does NOT agree with"
        note = f"{word} the predicted {told.predicted:.4g} (allowed: {told.allowed:.2g} on either side)"
        label = f"seed {one.seed}: {told.measure} under auto"
        rows.append(Row(label, None, told.measured, told.chance, Verdict.NEW, note))
    return rows


def _remarks(situation: SlowIndexerSetup, trials: Sequence[LiveTrial]) -> list[str]:
    cost, service = situation.cost, situation.service
    beaten = sum(one.cost < min(one.fixed.values()) for one in trials)
    told = [(one, found) for one in trials for found in check_predictions(one.governed)]
    held = sum(found.agrees for _, found in told)
    life = "never" if math.isinf(situation.lifetime) else f"after {situation.lifetime:g} s on average"
    return [
        f"room for {situation.capacity} pages; a fetch takes {situation.latency:g} s, indexing a page"
        f" {service.mean:g} s (squared variation {service.scv:.3g}); waiting pages grow obsolete {life}",
        f"J = {cost.loss:g} dropped/s + {cost.obs:g} obsolete/s + {cost.sojourn:g} response"
        f" + {cost.robots:g} robots + {cost.star:g} starvation, over {situation.time:g} s but the first"
        f" {WARM_UP:g}, trials included",
        f"auto cost less than every fixed number of robots in {beaten} of {len(trials)} seeds",
        f"{held} of {len(told)} measures agree with their prediction within the 95 % interval of batch means"
        " plus a third of the prediction, which is for fetches under way when the number of robots changes",
    ]


def _course_figure(situation: SlowIndexerSetup, name: str, one: LiveTrial) -> Figure:
    shown = one.governed.readings[:FIGURE_SECONDS]
    seconds = [reading.at - shown[0].at for reading in shown]
    level = Series("level", seconds, [reading.level for reading in shown], "steps")
    room = Series("room", [0.0, seconds[-1]], [situation.capacity] * 2, "dashes")
    allowed = Series("fetch workers", seconds, [reading.allowed for reading in shown], "steps")
    buffer_panel = Panel("seconds", "pages in buffer and service", (level, room))
    panels = (buffer_panel, Panel("seconds", "fetch workers allowed", (allowed,)))
    caption = "First each number of fetch workers is tried, the largest first; then the fitted rule holds."
    return Figure(f"{name}-course", "A crawl under threshold control", panels, caption)


def _cost_figure(name: str, trials: Sequence[LiveTrial]) -> Figure:
    series = []
    for one in trials:
        counts = list(one.fixed)
        series.append(Series(f"fixed, seed {one.seed}", counts, list(one.fixed.values()), "points"))
        series.append(Series(f"auto, seed {one.seed}", [counts[0], counts[-1]], [one.cost] * 2, "dashes"))
    panel = Panel("robots", "cost J", tuple(series), y_log=True)
    caption = "Each fixed number of robots, and the governed crawl, its trials included."
    return Figure(f"{name}-cost", "What control saves", (panel,), caption)


def _fare_figure(name: str, one: LiveTrial) -> Figure:
    periods = [part for part in one.governed.chapters if part.decision.predicted and part.period]
    start = one.governed.readings[0].at
    at = [part.decision.at - start for part in periods]
    panels = []
    for measure in ("starvation", "loss", "obsolete"):
        expected = [getattr(part.decision.predicted, measure) for part in periods]
        measured = [getattr(part.period.measured, measure) for part in periods if part.period]
        curves = Series("predicted", at, expected, "line"), Series("measured", at, measured, "points")
        panels.append(Panel("seconds", measure, curves))
    caption = "Each decision's prediction, and the measures until the next decision."
    return Figure(f"{name}-fare", "Predicted and measured", tuple(panels), caption)


SITUATIONS = {
    "live-thresholds": (SlowIndexerSetup(UNEVEN_SERVICE), "hyperexponential indexing"),
    "live-thresholds-even": (SlowIndexerSetup(PhaseType.exponential(10.0)), "exponential indexing"),
    "live-thresholds-fading": (SlowIndexerSetup(UNEVEN_SERVICE, lifetime=4.0, capacity=20), "pages that grow obsolete"),
}

_ABOUT = "A slow indexer; auto against every fixed number of robots, and against its own predictions."
EXPERIMENTS = tuple(
    experiment(name, f"Live threshold control: {what}", partial(run, situation, name), _ABOUT)
    for name, (situation, what) in SITUATIONS.items()
)
