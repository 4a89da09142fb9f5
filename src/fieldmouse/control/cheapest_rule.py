"""Choice of the next concurrency rule from what the crawl has shown of its fetches, its indexer and its pages.

Nothing is tried out: every rule shows how fast a worker fetches, how long the indexer takes, and how soon
pages become obsolete. Measurements are used as far back as they agree with the newest ones, so that a
changed web or indexer is followed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from fieldmouse.control.buffer_trace import BufferEvent, BufferMetrics, Rows
from fieldmouse.control.fit_input import service_times
from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.fit.phase_type_fit import FitError, fit_law
from fieldmouse.queueing.in_flight.model import InFlightModel, WhenFull
from fieldmouse.queueing.in_flight.search import RuleSearch
from fieldmouse.queueing.model.model import CostWeights
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray

#: Phases of a service time: more fit better, take several times as long, and hardly change the rule.
PHASES = 3
#: Service times in the first span that is compared with older ones.
FEWEST_SERVICES = 60
#: Service times that are fitted at most: more take longer, and change little.
MOST_SERVICES = 2000
#: Difference of two spans, in standard errors, from which the older one is no longer used.
CHANGED = 3.5


class FetchCount(NamedTuple):
    """Pages that arrived until a moment, and the seconds that fetch workers spent on them."""

    at: float
    arrived: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Observations:
    """Estimates from the newest measurements that agree with each other."""

    fetch_rate: float
    service: PhaseType
    obsolescence: float
    arrivals: int
    seconds: float

    def is_near(self, other: Observations) -> bool:
        """Whether these differ so little that the best rule for them costs about the same."""
        pairs = (
            (self.fetch_rate, other.fetch_rate, 0.05),
            (self.service.mean, other.service.mean, 0.05),
            (self.service.scv, other.service.scv, 0.2),
            (self.obsolescence, other.obsolescence, 0.1),
        )
        return all(abs(ours - theirs) <= share * theirs for ours, theirs, share in pairs)


@dataclass(frozen=True, eq=False)
class ChosenRule:
    seen: Observations
    rule: Thresholds
    when_full: WhenFull
    predicted: BufferMetrics
    cost: float


def observe(rows: Rows, counts: Sequence[FetchCount], since: float) -> Observations:
    """Estimate rates from the rows and counts after `since` (epoch seconds); `FitError` if there are too few."""
    pages = rows[~np.isin(rows["fate"], (BufferEvent.SWITCHED, BufferEvent.BEGAN, BufferEvent.UNDONE))]
    pages = pages[pages["at"] + pages["stay"] >= since]
    served = pages[pages["fate"] == BufferEvent.SERVED]
    first, last = _span_of_fetches([count for count in counts if count.at >= since])
    if last.seconds <= first.seconds or last.arrived <= first.arrived or len(served) < 2:
        raise FitError("too few pages have come", "let the crawl run longer")
    services = newest_steady(service_times(served["at"], served["at"] + served["stay"]))[-MOST_SERVICES:]
    aged = pages[np.isin(pages["fate"], (BufferEvent.SERVED, BufferEvent.OBSOLETE))]
    waited, expired = float(aged["wait"].sum()), int((aged["fate"] == BufferEvent.OBSOLETE).sum())
    return Observations(
        fetch_rate=(last.arrived - first.arrived) / (last.seconds - first.seconds),
        service=fit_law(services, "auto", PHASES).times,
        obsolescence=expired / waited if waited > 0 else 0.0,
        arrivals=last.arrived - first.arrived,
        seconds=last.at - first.at,
    )


def newest_steady(times: FloatArray) -> FloatArray:
    """The newest of these times, as far back as their mean does not change.

    >>> len(newest_steady(np.ones(500))), len(newest_steady(np.repeat([1.0, 3.0], [400, 100]) + np.arange(500) % 2))
    (500, 60)
    """
    known = FEWEST_SERVICES
    while known < len(times):
        newer, older = times[-known:], times[-2 * known : -known]
        error = math.sqrt(newer.var() / len(newer) + older.var() / len(older))
        if len(older) >= FEWEST_SERVICES // 2 and abs(newer.mean() - older.mean()) > CHANGED * error:
            return newer
        known *= 2
    return times


def _span_of_fetches(counts: Sequence[FetchCount]) -> tuple[FetchCount, FetchCount]:
    """The first and last count of the newest span in which workers fetched at one rate."""
    if len(counts) < 2:
        raise FitError("too few pages have come", "let the crawl run longer")
    steps = list(pairwise(counts))
    known = 1
    while known < len(steps):
        middle, older = counts[-known - 1], counts[max(0, len(counts) - 2 * known - 1)]
        new, old = _rate(middle, counts[-1]), _rate(older, middle)
        if new and old and abs(new[0] - old[0]) > CHANGED * math.hypot(new[1], old[1]):
            return middle, counts[-1]
        known *= 2
    return counts[0], counts[-1]


def _rate(first: FetchCount, last: FetchCount) -> tuple[float, float] | None:
    """Pages per second of one worker, and its standard error."""
    pages, seconds = last.arrived - first.arrived, last.seconds - first.seconds
    return (pages / seconds, math.sqrt(pages) / seconds) if pages > 0 and seconds > 0 else None


def choose_rule(
    seen: Observations,
    *,
    capacity: int,
    modes: Sequence[int],
    weights: CostWeights,
    ways: Sequence[WhenFull],
    reserve: int = 0,
) -> ChosenRule:
    """The rule with the least cost for what was observed. `modes` are the numbers of workers to choose from.

    `reserve` is the number of pages with which the indexer is busy all the time; all limits are above it. In the
    model one page is enough, but worker processes need several each.
    """
    model = InFlightModel(capacity - reserve, max(modes), seen.fetch_rate, seen.service, seen.obsolescence)
    best = RuleSearch(model, weights, modes).best(ways)
    predicted, delay = BufferMetrics.predicted(best.measures), reserve * seen.service.mean
    predicted = msgspec.structs.replace(
        predicted, response=predicted.response + delay, level=predicted.level + reserve * (1.0 - predicted.starvation)
    )
    rule = Thresholds(best.robots, tuple([limit + reserve for limit in best.limits]))
    return ChosenRule(seen, rule, best.when_full, predicted, predicted.cost(weights))
