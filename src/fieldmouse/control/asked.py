"""Construction of the initial rule and the optional governor from the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fieldmouse.clock import Clock
from fieldmouse.control.controllog import ControlLog
from fieldmouse.control.governor import Governor, Habits
from fieldmouse.control.pagetrace import PageTrace
from fieldmouse.crawldir import CrawlDir
from fieldmouse.policy.thresholds import Thresholds
from fieldmouse.settings import Settings

if TYPE_CHECKING:
    from fieldmouse.queueing.model.model import Cost


def rule_of(settings: Settings) -> Thresholds:
    """The initial number of fetch workers at each buffer level."""
    control = settings.control
    if control.mode == "thresholds":
        return Thresholds(control.robots, control.limits)
    return Thresholds((settings.fetch.concurrency,))


def cost_of(settings: Settings) -> Cost:
    # Imported only when needed: the solvers load a compiler.
    from fieldmouse.queueing.model.model import Cost

    asked = settings.cost
    return Cost(
        loss=asked.loss,
        obs=asked.obsolete,
        sojourn=asked.response,
        robots=asked.robots,
        star=asked.starvation,
    )


def governor_of(
    home: CrawlDir, settings: Settings, clock: Clock, trace: PageTrace, obey: Callable[[Thresholds], None]
) -> Governor | None:
    """The governor that changes the rule during the crawl; None if the rule is fixed."""
    control = settings.control
    if control.mode != "auto":
        return None
    habits = Habits(
        capacity=settings.buffer.pages,
        modes=control.candidates(settings.fetch.concurrency),
        cost=cost_of(settings),
        every=control.every,
        pages=control.pages,
        explore=control.explore,
        memory=control.memory,
    )
    return Governor(habits=habits, trace=trace, clock=clock, obey=obey, book=ControlLog(home / "control.log"))
