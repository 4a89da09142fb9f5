"""Discrete-event simulation of a model under a rule, with confidence intervals.

It shares nothing with the solvers but the model, so that each checks the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fieldmouse.jit import jit
from fieldmouse.queueing.model.arrivals import draw_transition
from fieldmouse.queueing.model.model import ADMISSIONS, CostWeights, Measures, Model, WorkerCountRule
from fieldmouse.queueing.model.validation import FloatArray, IntArray, ModelError

TIME, DELIVERED, DROPPED, OBSOLETE, SERVED = 0, 1, 2, 3, 4
SERVED_TIME, SERVED_SQUARE, OBSOLETE_TIME, OBSOLETE_SQUARE = 5, 6, 7, 8
#: Columns of the tally of a stretch; times of pages are sojourns, from arrival until they leave.
TALLIES = 9

PARTIAL, REJECTION, COMPLETE = 0, 1, 2


@jit
def draw_phase_type(start: FloatArray, ladder: FloatArray, rng: np.random.Generator) -> float:
    """A time of phase type: `start` is summed up, the last rung of each row of the ladder leaves."""
    end = len(start)
    phase = 0
    thrown = rng.random() * start[-1]
    while start[phase] <= thrown:
        phase += 1
    time = 0.0
    while phase < end:
        if ladder[phase, -1] == 0.0:
            return np.inf
        time += rng.standard_exponential() / ladder[phase, -1]
        phase = draw_transition(ladder, phase, rng)
    return time


@jit
def admitted_count(batch: int, level: int, capacity: int, admission: int) -> int:
    """How many pages of a batch are let in at a level."""
    room = capacity - level
    if batch <= room:
        return batch
    if admission == PARTIAL:
        return max(room, 0)
    return batch if admission == COMPLETE and room > 0 else 0


@jit
def run_events(
    ladders: FloatArray,
    mode_at: IntArray,
    capacity: int,
    admission: int,
    service_start: FloatArray,
    service_ladder: FloatArray,
    life_start: FloatArray,
    life_ladder: FloatArray,
    phase: int,
    events: int,
    rng: np.random.Generator,
    tally: FloatArray,
    level_time: FloatArray,
) -> None:
    """Run `events` events (changes of the arrival phase, pages served or obsolete) per row of `tally`.

    The system starts empty, in `phase`. `ladders` is one ladder per mode, over the
    same rungs; `mode_at` is the mode at each level; `level_time` gets the time spent
    at each level.
    """
    # Waiting pages lie from head to tail, oldest first; they move to the front when the end is reached.
    size = 4 * len(mode_at)
    arrived, expires = np.empty(size), np.empty(size)
    head, tail = 0, 0
    phases = ladders.shape[1]
    busy_since, served_at = 0.0, np.inf
    expiry = np.inf
    now, level = 0.0, 0
    mode = mode_at[0]
    change_at = rng.standard_exponential() / ladders[mode, phase, -1]
    for stretch in range(len(tally)):
        began = now
        for _ in range(events):
            at = min(change_at, served_at, expiry)
            level_time[stretch, level] += at - now
            now = at
            if at == change_at:
                rung = draw_transition(ladders[mode], phase, rng)
                batch, phase = rung // phases, rung % phases
                change_at = np.inf
                taken = admitted_count(batch, level, capacity, admission)
                tally[stretch, DELIVERED] += batch
                tally[stretch, DROPPED] += batch - taken
                if tail + taken > size:
                    for i in range(head, tail):
                        arrived[i - head], expires[i - head] = arrived[i], expires[i]
                    head, tail = 0, tail - head
                for page in range(taken):
                    if level == 0 and page == 0:
                        busy_since = now
                        served_at = now + draw_phase_type(service_start, service_ladder, rng)
                    else:
                        arrived[tail] = now
                        expires[tail] = now + draw_phase_type(life_start, life_ladder, rng)
                        expiry = min(expiry, expires[tail])
                        tail += 1
                level += taken
            elif at == served_at:
                stay = now - busy_since
                tally[stretch, SERVED] += 1
                tally[stretch, SERVED_TIME] += stay
                tally[stretch, SERVED_SQUARE] += stay * stay
                level -= 1
                if level == 0:
                    served_at = np.inf
                else:
                    gone = expires[head]
                    busy_since = arrived[head]
                    served_at = now + draw_phase_type(service_start, service_ladder, rng)
                    head += 1
                    if gone == expiry and gone < np.inf:
                        expiry = np.inf
                        for i in range(head, tail):
                            expiry = min(expiry, expires[i])
            else:
                old = head
                while expires[old] != expiry:
                    old += 1
                stay = now - arrived[old]
                tally[stretch, OBSOLETE] += 1
                tally[stretch, OBSOLETE_TIME] += stay
                tally[stretch, OBSOLETE_SQUARE] += stay * stay
                level -= 1
                tail -= 1
                for i in range(old, tail):
                    arrived[i], expires[i] = arrived[i + 1], expires[i + 1]
                expiry = np.inf
                for i in range(head, tail):
                    expiry = min(expiry, expires[i])
            # Fetch workers that start or stop keep their phase; while the pace lasts, so does the draw.
            if mode_at[level] != mode or change_at == np.inf:
                mode = mode_at[level]
                change_at = now + rng.standard_exponential() / ladders[mode, phase, -1]
        tally[stretch, TIME] = now - began


BATCHES = 30
#: The 97.5 % quantile of Student's t with 29 degrees of freedom: intervals are of 95 %.
STUDENT = 2.045229642132703

#: Stretches that are played first and forgotten: the run starts empty.
WARM_UP = 3


@dataclass(frozen=True, eq=False)
class SimulatedMeasures(Measures):
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

    def cost_half_width(self, cost: CostWeights) -> float:
        """Of the cost J; its parts rise and fall together, so that their own intervals do not add up."""
        deviation = self.deviations
        dropped = self.rate * deviation["loss"] + self.loss * deviation["rate"]
        obsolete = self.rate * deviation["obs"] + self.obs * deviation["rate"]
        served = deviation.get("sojourn_served", np.zeros(BATCHES))
        parts = {name: deviation[name] for name in ("robots", "star")}
        return _half_width(cost.total(dropped=dropped, obsolete=obsolete, sojourn=served, **parts))


def simulate(model: Model, rule: WorkerCountRule, events: int, rng: np.random.Generator) -> SimulatedMeasures:
    """Play the model under a rule.

    An event is a change of the arrival phase (mostly a batch), a page served, or a page grown obsolete.
    """
    if events < BATCHES:
        raise ModelError(f"a run of {events} events is too short: it must have at least {BATCHES}")
    by_level = model.robots_by_level(rule)
    mode_at = np.searchsorted(np.array(list(model.modes)), by_level)
    largest = max(stream.largest_batch for stream in model.modes.values())
    ladders = np.stack([stream.cumulative_rates(largest) for stream in model.modes.values()])
    length = -(-events // BATCHES)
    tally = np.zeros((WARM_UP + BATCHES, TALLIES))
    level_time = np.zeros((WARM_UP + BATCHES, len(by_level)))
    start = int(rng.choice(model.arrival_phases, p=model.modes[int(by_level[0])].phase_shares))
    admission = ADMISSIONS.index(model.admission)
    service = model.service.alpha.cumsum(), model.service.cumulative_rates
    lifetime = model.lifetime.alpha.cumsum(), model.lifetime.cumulative_rates
    laws = mode_at, model.capacity, admission, *service, *lifetime
    run_events(ladders, *laws, start, length, rng, tally, level_time)
    return _measures_of_run(tally[WARM_UP:], level_time[WARM_UP:], by_level, length * BATCHES)


def _measures_of_run(tally: FloatArray, level_time: FloatArray, by_level: IntArray, events: int) -> SimulatedMeasures:
    """The measures of a run, stretch by stretch."""
    column = tally.T
    time = column[TIME]
    ended = column[DROPPED] + column[OBSOLETE] + column[SERVED]
    ratios = {
        "rate": (column[DELIVERED], time),
        "loss": (column[DROPPED], ended),
        "obs": (column[OBSOLETE], ended),
        "success": (column[SERVED], ended),
        "star": (level_time[:, 0], time),
        "robots": (level_time @ by_level, time),
        "sojourn": (column[SERVED_TIME] + column[OBSOLETE_TIME], ended),
        "sojourn_served": (column[SERVED_TIME], column[SERVED]),
        "sojourn_obsolete": (column[OBSOLETE_TIME], column[OBSOLETE]),
    }
    found = {name: above.sum() / below.sum() for name, (above, below) in ratios.items() if below.any()}
    deviations = {
        name: (ratios[name][0] - value * ratios[name][1]) / ratios[name][1].mean() for name, value in found.items()
    }
    levels = level_time.sum(axis=0) / time.sum()
    scatter = (level_time - np.outer(time, levels)) / time.mean()
    served, obsolete = column[SERVED], column[OBSOLETE]
    always = ("rate", "loss", "obs", "success", "star", "robots", "sojourn")
    return SimulatedMeasures(
        **{name: float(found[name]) for name in always},
        robots_distribution={int(n): float(levels[by_level == n].sum()) for n in np.unique(by_level)},
        levels=levels,
        sojourn_served=float(found.get("sojourn_served", math.nan)),
        sojourn_obsolete=float(found["sojourn_obsolete"]) if "sojourn_obsolete" in found else None,
        sojourn_served_variance=_variance(served, column[SERVED_TIME], column[SERVED_SQUARE]),
        sojourn_obsolete_variance=_variance(obsolete, column[OBSOLETE_TIME], column[OBSOLETE_SQUARE]),
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
