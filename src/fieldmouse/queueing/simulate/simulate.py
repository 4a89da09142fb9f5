"""Measures from a long simulation run, with confidence intervals.

The run is cut into stretches. Each measure is a ratio of two sums over them (pages
dropped over pages, time empty over time), and the scatter of the stretches around the
ratio gives its confidence interval. The only assumption is that stretches
are long compared with the memory of the system. It works for models of any size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fieldmouse.queueing.model.entries import FloatArray, IntArray, ModelError
from fieldmouse.queueing.model.measures import Measures
from fieldmouse.queueing.model.model import ADMISSIONS, Cost, Model, Rule
from fieldmouse.queueing.simulate import play

STRETCHES = 30
STUDENT = 2.045229642132703
"""The 97.5 % quantile of Student's t with 29 degrees of freedom: intervals are of 95 %."""

WARM_UP = 3
"""Stretches that are played first and forgotten: the run starts empty."""


@dataclass(frozen=True, eq=False)
class Simulated(Measures):
    """Measures as of `solve`, and how each stretch deviates from them.

    `success`, `loss` and `obs` are shares of the pages that ended in the
    run; `sojourn_served` is not a number when none was served.
    """

    sojourn_served_variance: float | None
    sojourn_obsolete_variance: float | None
    events: int
    level_half_widths: FloatArray = field(repr=False)
    deviations: Mapping[str, FloatArray] = field(repr=False)

    def half_width(self, measure: str) -> float:
        """Half the width of the 95 % interval of a measure, by its name here; 0 if it never occurred."""
        return _half_width(self.deviations[measure]) if measure in self.deviations else 0.0

    def cost_half_width(self, cost: Cost) -> float:
        """Of the cost J; its parts rise and fall together, so that their own intervals do not add up."""
        deviation = self.deviations
        dropped = self.rate * deviation["loss"] + self.loss * deviation["rate"]
        obsolete = self.rate * deviation["obs"] + self.obs * deviation["rate"]
        served = deviation.get("sojourn_served", np.zeros(STRETCHES))
        return _half_width(
            cost.of(
                dropped=dropped,
                obsolete=obsolete,
                sojourn=served,
                robots=deviation["robots"],
                star=deviation["star"],
            )
        )


def simulate(model: Model, rule: Rule, events: int, rng: np.random.Generator) -> Simulated:
    """Play the model under a rule.

    An event is a change of the robots' phase (mostly a batch), a page served, or a page grown obsolete.
    """
    if events < STRETCHES:
        raise ModelError(f"a run of {events} events is too short: it must have at least {STRETCHES}")
    by_level = model.robots_by_level(rule)
    names = np.array(list(model.modes))
    mode_at = np.searchsorted(names, by_level)
    largest = max(stream.largest for stream in model.modes.values())
    ladders = np.stack([stream.ladder(largest) for stream in model.modes.values()])
    length = -(-events // STRETCHES)
    tally = np.zeros((WARM_UP + STRETCHES, play.TALLIES))
    level_time = np.zeros((WARM_UP + STRETCHES, len(by_level)))
    start = int(rng.choice(model.phases, p=model.modes[int(by_level[0])].theta))
    play.play(
        ladders,
        mode_at,
        model.capacity,
        ADMISSIONS.index(model.admission),
        model.service.alpha.cumsum(),
        model.service.ladder,
        model.lifetime.alpha.cumsum(),
        model.lifetime.ladder,
        start,
        length,
        rng,
        tally,
        level_time,
    )
    return _read(tally[WARM_UP:], level_time[WARM_UP:], by_level, length * STRETCHES)


def _read(tally: FloatArray, level_time: FloatArray, by_level: IntArray, events: int) -> Simulated:
    """The measures of a run, stretch by stretch."""
    column = tally.T
    time = column[play.TIME]
    ended = column[play.DROPPED] + column[play.OBSOLETE] + column[play.SERVED]
    ratios = {
        "rate": (column[play.DELIVERED], time),
        "loss": (column[play.DROPPED], ended),
        "obs": (column[play.OBSOLETE], ended),
        "success": (column[play.SERVED], ended),
        "star": (level_time[:, 0], time),
        "robots": (level_time @ by_level, time),
        "sojourn": (column[play.SERVED_TIME] + column[play.OBSOLETE_TIME], ended),
        "sojourn_served": (column[play.SERVED_TIME], column[play.SERVED]),
        "sojourn_obsolete": (column[play.OBSOLETE_TIME], column[play.OBSOLETE]),
    }
    found = {name: above.sum() / below.sum() for name, (above, below) in ratios.items() if below.any()}
    deviations = {
        name: (ratios[name][0] - value * ratios[name][1]) / ratios[name][1].mean()
        for name, value in found.items()
    }
    levels = level_time.sum(axis=0) / time.sum()
    scatter = (level_time - np.outer(time, levels)) / time.mean()
    served, obsolete = column[play.SERVED], column[play.OBSOLETE]
    return Simulated(
        rate=float(found["rate"]),
        loss=float(found["loss"]),
        obs=float(found["obs"]),
        success=float(found["success"]),
        star=float(found["star"]),
        robots=float(found["robots"]),
        robots_distribution={int(n): float(levels[by_level == n].sum()) for n in np.unique(by_level)},
        levels=levels,
        sojourn=float(found["sojourn"]),
        sojourn_served=float(found.get("sojourn_served", math.nan)),
        sojourn_obsolete=float(found["sojourn_obsolete"]) if "sojourn_obsolete" in found else None,
        sojourn_served_variance=_variance(served, column[play.SERVED_TIME], column[play.SERVED_SQUARE]),
        sojourn_obsolete_variance=_variance(
            obsolete, column[play.OBSOLETE_TIME], column[play.OBSOLETE_SQUARE]
        ),
        level_half_widths=np.array([_half_width(one) for one in scatter.T]),
        deviations=deviations,
        events=events,
        method="simulate",
    )


def _half_width(deviations: FloatArray) -> float:
    return float(STUDENT * np.sqrt((deviations**2).sum() / (len(deviations) * (len(deviations) - 1))))


def _variance(count: FloatArray, total: FloatArray, squares: FloatArray) -> float | None:
    pages = count.sum()
    return float(squares.sum() / pages - (total.sum() / pages) ** 2) if pages else None
