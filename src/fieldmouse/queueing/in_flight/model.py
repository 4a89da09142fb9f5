"""Buffer model with fetches in flight, and its exact solution by level reduction.

A fetch worker repeats: fetch a page for an exponential time, hand it to the buffer, and go on if the rule
allows as many workers as are running at the new level. A full buffer makes the worker wait with its page,
or drop it. One server indexes pages in order of arrival, for times of phase type. Pages that wait in the
buffer become obsolete after an exponential time; pages that a worker keeps do not.

A state is the number of pages (in service, in the buffer, and kept by workers), the number of fetches in
flight, and the phase of the service. Both numbers of pages and fetches change by one at a time, so the
chain is block tridiagonal, and the levels are eliminated from the top.

Many workers are counted in units: a system of 128 workers is solved with 8 units of 16, each of which
ends or starts as a whole, after as many fetches as its workers make on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fieldmouse.queueing.model.model import Measures, Model, WorkerCountRule
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray, IntArray, ModelError

Reals: TypeAlias = NDArray[np.floating]
WhenFull: TypeAlias = Literal["wait", "lose"]

#: Most units in which workers are counted: the size of a block of the chain grows with them.
MOST_UNITS = 8
_HUGE = 1e100
_AT_ONCE = 1e4  # workers start at this multiple of all other rates


@dataclass(frozen=True, eq=False)
class InFlightModel:
    """`capacity` counts the page in service; rates are per second. `obsolescence` 0.0: pages never expire.

    >>> model = InFlightModel(capacity=10, workers=4, fetch_rate=5.0, service=PhaseType.exponential(10.0))
    """

    capacity: int
    workers: int
    fetch_rate: float  # pages per second of one worker that does not wait
    service: PhaseType
    obsolescence: float = 0.0

    def __post_init__(self) -> None:
        if self.capacity < 1 or self.workers < 1:
            raise ModelError("there must be room for one page, and one fetch worker")
        if not self.fetch_rate > 0 or self.service.is_never:
            raise ModelError("fetches and services must end")


def in_flight_model(model: Model) -> InFlightModel:
    """The model with the arrivals of the largest mode as fetches in flight; lifetimes must be exponential.

    >>> from fieldmouse.queueing.model.arrivals import BatchArrivals
    >>> one = Model(5, {4: BatchArrivals.poisson(20.0)}, PhaseType.exponential(10.0), PhaseType.never())
    >>> in_flight_model(one).fetch_rate
    5.0
    """
    workers, rates = max(model.modes), model.lifetime.exit_rates
    if not np.allclose(rates, rates[0]):
        raise ModelError(
            "fetches in flight can only be counted if lifetimes are exponential, and these are not",
            "give all phases of the lifetime the same exit rate",
        )
    return InFlightModel(model.capacity, workers, model.modes[workers].rate / workers, model.service, float(rates[0]))


@dataclass(frozen=True, eq=False)
class _Levels:
    """Numbers by level, pages kept by workers included; workers are counted in units of `unit`."""

    unit: int
    counted: IntArray  # workers that the rule allows
    free: IntArray  # units of workers that may fetch: allowed and not waiting with a page
    inside: IntArray  # pages in the buffer and in service

    @property
    def units(self) -> int:
        return int(self.free.max())


def _levels(model: InFlightModel, rule: WorkerCountRule, when_full: WhenFull) -> _Levels:
    capacity = model.capacity
    unit = -(-model.workers // MOST_UNITS)
    allowed = [min(rule.concurrency_at(level), model.workers) for level in range(capacity + 1)]
    if allowed[0] < 1:
        raise ModelError("the rule allows no fetch worker at an empty buffer, so no page would ever come")
    # A level that admits no page is the last: each worker delivers at most one more page after it was stopped.
    stopped = next((level for level, count in enumerate(allowed) if not count), capacity + model.workers)
    waiting = model.workers if when_full == "wait" else 0
    top = min(capacity + waiting, stopped + model.workers)
    levels = np.arange(top + 1)
    counted = np.array(allowed)[np.minimum(levels, capacity)]
    running = np.maximum(counted - np.maximum(levels - capacity, 0), 0)
    free = np.where(running > 0, np.maximum(np.rint(running / unit).astype(np.int64), 1), 0)
    return _Levels(unit, counted, free, np.minimum(levels, capacity))


def solve_in_flight(model: InFlightModel, rule: WorkerCountRule, when_full: WhenFull = "wait") -> Measures:
    """Measures of the model under a rule. `sojourn_served` counts from the moment when the buffer has the page.

    >>> from fieldmouse.policy.concurrency_thresholds import Thresholds
    >>> model = InFlightModel(capacity=10, workers=4, fetch_rate=5.0, service=PhaseType.exponential(10.0))
    >>> found = solve_in_flight(model, Thresholds((4, 0), (3,)))
    >>> round(found.rate, 2), round(found.star, 3), round(found.sojourn_served, 3), round(found.robots, 2)
    (9.81, 0.019, 0.418, 1.96)
    """
    at = _levels(model, rule, when_full)
    W, M, top = at.units + 1, model.service.order, len(at.free) - 1
    blocks = _Blocks(model, at, when_full)
    climbs: list[Reals] = []  # of each level above 0: its weights from those of the level below
    returning = np.zeros_like(blocks[top].stay)
    settled = False
    for level in range(top, 0, -1):
        here, below = blocks[level], blocks[level - 1]
        # Between two levels of the same kind the climb converges, and then stays.
        if not (settled and here is blocks[level + 1] and below is here):
            climb = np.linalg.solve(-_returned(here, returning).T, below.up.T).T
            settled = bool(climbs) and climb.shape == climbs[-1].shape and np.allclose(climb, climbs[-1], 1e-13, 1e-300)
            returning = climb @ here.down
        climbs.append(climb)
    start = _returned(blocks[0], returning)
    # One of the equations follows from the others; the weights sum to one instead.
    equations = np.vstack([start.T[1:], np.ones((1, len(start)))])
    weights = np.zeros((top + 1, W, M))
    row = np.linalg.solve(equations, np.eye(len(start))[-1])
    weights[0, :, 0] = row
    for level, climb in enumerate(reversed(climbs), 1):
        row = row @ climb
        weights[level] = row.reshape(W, M)
        if (total := row.sum()) > _HUGE:  # far more pages come than are served
            weights[: level + 1] /= total
            row = row / total
    weights = np.maximum(weights, 0.0) / weights.sum()
    return _measures(model, at, when_full, weights)


@dataclass(frozen=True, eq=False)
class _Block:
    """Rates from the states of a level: to the level above, within it, and to the level below."""

    up: Reals
    stay: Reals
    down: Reals


def _returned(block: _Block, returning: Reals) -> Reals:
    """Rates within a level if the time above it is cut out; `returning` are the rates through the levels above.

    What leaves a state goes to other states or down: sums of these lose no digits, differences would.
    """
    rates = block.stay + returning
    np.fill_diagonal(rates, 0.0)
    np.fill_diagonal(rates, -(rates.sum(axis=1) + block.down.sum(axis=1)))
    return rates


class _Blocks:
    """Blocks by level; levels with equal blocks have the same object."""

    def __init__(self, model: InFlightModel, at: _Levels, when_full: WhenFull):
        self._model, self._at, self._when_full = model, at, when_full
        self._known: dict[tuple[int, ...], _Block] = {}

    def __getitem__(self, level: int) -> _Block:
        model, free = self._model, self._at.free
        top = len(free) - 1
        around = (int(free[max(level - 1, 0)]), int(free[level]), int(free[min(level + 1, top)]))
        full = (level >= model.capacity) + (level == top)
        waiting = int(self._at.inside[level]) if model.obsolescence else 0
        kind = (*around, min(level, 2), full, waiting)
        if kind not in self._known:
            self._known[kind] = _block(model, self._at, self._when_full, level)
        return self._known[kind]


def _block(model: InFlightModel, at: _Levels, when_full: WhenFull, level: int) -> _Block:
    service, units = model.service, np.arange(at.units + 1)
    W, M, top = len(units), service.order, len(at.free) - 1
    here = np.eye(M) if level else np.ones((1, 1))
    states = W * len(here)
    fetched = units * at.unit * model.fetch_rate
    full = level >= model.capacity
    ends = _after_fetch(at, level, min(level + 1, top) if not full or when_full == "wait" else level, full, when_full)
    pages = fetched[:, None] * ends
    up: Reals = np.zeros((states, W * M))
    stay: Reals = np.zeros((states, states))
    down: Reals = np.zeros((states, W * (M if level > 1 else 1)))
    if level < top:
        up = np.kron(pages, here if level else service.alpha[None, :])
    elif when_full == "lose" and full:
        stay += np.kron(pages - np.diag(np.diag(pages)), here)
    waiting = max(int(at.inside[level]) - 1, 0)
    if level:
        started = np.zeros((W, W))
        started[units, np.maximum(units, at.free[level - 1])] = 1.0
        ended = np.outer(service.exit_rates, service.alpha) if level > 1 else service.exit_rates[:, None]
        down = np.kron(started, ended)
        if waiting and model.obsolescence:
            down += np.kron(started, waiting * model.obsolescence * here)
        within = service.S - np.diag(np.diag(service.S))
        stay += np.kron(np.eye(W), within)
    # States with fewer workers than the rule allows are left at once; nothing leads to them.
    quick = _AT_ONCE * (fetched[-1] + float(service.exit_rates.max()) + model.obsolescence * waiting)
    starts = np.zeros((W, W))
    fewer = units < at.free[level]
    starts[units[fewer], at.free[level]] = quick
    stay += np.kron(starts, here)
    stay -= np.diag(up.sum(axis=1) + stay.sum(axis=1) + down.sum(axis=1))
    return _Block(up, stay, down)


def _after_fetch(at: _Levels, level: int, after: int, full: bool, when_full: WhenFull) -> FloatArray:
    """Probability of each number of units in flight after a page was fetched, by the number before."""
    units = np.arange(at.units + 1)
    goes_on = (units <= at.free[after]) & (units > 0)
    if full and when_full == "wait":
        goes_on[:] = False  # the worker waits with its page
    fewer = np.maximum(units - 1, 0)
    ends = np.zeros((len(units), len(units)))
    ends[units, units] += np.where(goes_on, 1.0, 1.0 - 1.0 / at.unit)
    ends[units, fewer] += np.where(goes_on, 0.0, 1.0 / at.unit)
    return ends


def _measures(model: InFlightModel, at: _Levels, when_full: WhenFull, weights: FloatArray) -> Measures:
    service, units = model.service, np.arange(at.units + 1)
    levels = weights.sum(axis=(1, 2))
    flight = weights.sum(axis=2) @ (units * at.unit)
    inside = at.inside
    served = float((weights[1:] @ service.exit_rates).sum())
    obsolete = float(levels @ np.maximum(inside - 1, 0)) * model.obsolescence
    full = np.arange(len(levels)) >= model.capacity
    dropped = float(flight[full].sum()) * model.fetch_rate if when_full == "lose" else 0.0
    rate = served + obsolete + dropped
    held = np.maximum(np.arange(len(levels)) - model.capacity, 0)
    running = units[None, :] * at.unit + held[:, None]
    robots = float((weights.sum(axis=2) * np.maximum(running, at.counted[:, None])).sum())
    mean_level = float(levels @ inside)
    by_level = np.zeros(model.capacity + 1)
    np.add.at(by_level, inside, levels)
    wait = _served_wait(model, at, weights) if model.obsolescence else (mean_level / served - service.mean)
    sojourn = wait + service.mean
    return Measures(
        rate=rate,
        loss=dropped / rate,
        obs=obsolete / rate,
        success=served / rate,
        star=float(levels[0]),
        robots=robots,
        robots_distribution={int(r): float(levels[at.counted == r].sum()) for r in np.unique(at.counted)},
        levels=by_level,
        sojourn=mean_level / rate,
        sojourn_served=sojourn,
        sojourn_obsolete=(mean_level - served * sojourn) / obsolete if obsolete else None,
        method="in flight",
    )


def _served_wait(model: InFlightModel, at: _Levels, weights: FloatArray) -> float:
    """Mean wait of the pages that are served.

    With lifetimes of rate g, a page that would wait for a time w is served with probability exp(-g w). Both
    E exp(-g w) and E w exp(-g w) follow from the pages ahead and the phase of the service.
    """
    service, g, M = model.service, model.obsolescence, model.service.order
    leave = np.outer(service.exit_rates, service.alpha)
    # By pages ahead; with none, the page is served at once.
    survive: list[Reals] = [np.ones(M)]
    delay: list[Reals] = [np.zeros(M)]
    for ahead in range(1, model.capacity):
        fades = (ahead - 1) * g
        stay = np.diag(np.full(M, g + fades)) - service.S
        step = (service.exit_rates[:, None] * np.ones(M) / M if ahead == 1 else leave) + fades * np.eye(M)
        survive.append(np.linalg.solve(stay, step @ survive[-1]))
        delay.append(np.linalg.solve(stay, survive[-1] + step @ delay[-1]))
    came = np.zeros((model.capacity, M))  # pages per second that the buffer takes, by pages ahead and phase
    fetched = np.tensordot(weights, np.arange(at.units + 1) * at.unit * model.fetch_rate, axes=([1], [0]))
    for level in range(len(weights)):
        if level < model.capacity:
            came[level] += fetched[level]
        elif level > model.capacity:
            # A page leaves, and the buffer takes one from a worker that waits.
            here = weights[level].sum(axis=0)
            came[-1] += here @ leave + here * max(model.capacity - 1, 0) * g
    chance = float((came * np.array(survive)).sum())
    return float((came * np.array(delay)).sum()) / chance
