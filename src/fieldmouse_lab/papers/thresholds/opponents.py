"""Opponents of `auto` in live crawls: fixed numbers of workers, threshold rules, AIMD and a gradient limit.

AIMD raises the number of workers by one a second and halves it when the buffer is nearly full. The gradient
limit compares the response time with the shortest seen, as limiters of services do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fieldmouse.control.buffer_trace import BufferTotals
from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.types.stats import LiveStats
from fieldmouse_lab.slow_indexer import RuleController, SlowIndexerSetup

AUTO = "auto"
STATIC_BEST = "static-best"


@dataclass(frozen=True, slots=True)
class LiveRule:
    """A way to control a crawl: settings, and for some a controller that is made for each crawl."""

    settings: Mapping[str, object]
    controller: Callable[[SlowIndexerSetup], RuleController] = lambda setup: lambda reading, totals: None
    is_static: bool = False


def live_rules(setup: SlowIndexerSetup) -> dict[str, LiveRule]:
    """All rules that are compared, by name."""
    numbers = range(1, setup.robots + 1)
    rules = {AUTO: LiveRule({"control.mode": "auto", "control.modes": list(numbers), "buffer.when_full": "auto"})}
    for way in ("wait", "lose"):
        for number in numbers:
            fixed = {"fetch.concurrency": number, "buffer.when_full": way}
            rules[f"fixed-{way}-{number}"] = LiveRule(fixed, is_static=True)
        for low, limits in ((1, (3, 6)), (0, (2, 3, 4, 5) if way == "wait" else ())):
            for limit in limits:
                static: dict[str, object] = {"control.mode": "thresholds", "control.robots": [setup.robots, low]}
                static |= {"control.limits": [limit], "buffer.when_full": way}
                rules[f"static-{way}-{setup.robots}-{low}-at-{limit}"] = LiveRule(static, is_static=True)
    waiting: dict[str, object] = {"buffer.when_full": "wait"}
    rules["aimd"] = LiveRule(waiting, aimd)
    rules["gradient"] = LiveRule(waiting, gradient)
    return rules


def aimd(setup: SlowIndexerSetup) -> RuleController:
    """Additive increase, multiplicative decrease of the number of workers by the level of the buffer."""
    limit = 1.0

    def control(reading: LiveStats, totals: BufferTotals) -> Thresholds:
        nonlocal limit
        nearly_full = totals.page_seconds > 0.8 * setup.capacity * totals.seconds
        limit = max(1.0, limit / 2) if nearly_full else min(setup.robots, limit + 1)
        return Thresholds((int(limit),))

    return control


def gradient(setup: SlowIndexerSetup) -> RuleController:
    """A limit in proportion to the shortest response time over the present one, plus room to grow."""
    limit, shortest = 1.0, math.inf

    def control(reading: LiveStats, totals: BufferTotals) -> Thresholds | None:
        nonlocal limit, shortest
        if not totals.served:
            return None
        response = totals.served_seconds / totals.served
        shortest = min(shortest, response)
        wanted = limit * max(0.5, min(1.0, 2.0 * shortest / response)) + 0.5 * math.sqrt(limit)
        limit = min(float(setup.robots), max(1.0, 0.8 * limit + 0.2 * wanted))
        return Thresholds((round(limit),))

    return control
