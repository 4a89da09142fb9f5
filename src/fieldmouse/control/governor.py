"""Governor that chooses how many fetch workers run at each buffer level.

At first each number of fetch workers is tried for a while, the largest first, because a crawl
begins with few hosts and the largest number finds the others soonest. Then the recent trace is
fitted again and again, the cheapest rule is computed in a thread, and the fetch pool follows
it. The prediction and the measured result are stored side by side in `control.log`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldmouse.aio import DaemonExecutor
from fieldmouse.clock import Clock
from fieldmouse.config.settings_file import Settings
from fieldmouse.control.buffer_trace import BufferMetrics, BufferTrace, Rows
from fieldmouse.control.concurrency_decision_log import ControlLog, Decision, DecisionEffect
from fieldmouse.errors import FieldmouseError
from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.storage.directory import CrawlDir

if TYPE_CHECKING:
    from fieldmouse.control.threshold_optimiser import ChosenRule
    from fieldmouse.queueing.model.model import CostWeights


log = logging.getLogger(__name__)

#: Pages after which a number of fetch workers has been tried enough, if its time is over, too.
MIN_TRIAL_PAGES = 100
#: A trial ends after this many times its usual length, even with few pages.
MAX_TRIAL_FACTOR = 6
#: Decisions may take one part in this many of the time: without compiled code they are rarer.
DECISION_COST_FACTOR = 20


@dataclass(frozen=True, slots=True)
class GovernorConfig:
    """When to decide, and among which numbers. Durations in seconds."""

    capacity: int
    modes: tuple[int, ...]  # ascending
    cost: CostWeights
    every: float = 60.0
    pages: int = 200
    explore: float = 10.0
    memory: float = 1200.0


class Governor:
    """Sets the rule of the fetch pool. `check` is called often and returns at once."""

    def __init__(
        self,
        *,
        config: GovernorConfig,
        trace: BufferTrace,
        clock: Clock,
        apply_rule: Callable[[Thresholds], None],
        control_log: ControlLog,
    ):
        self._config, self._trace, self._clock = config, trace, clock
        self._apply_rule, self._control_log = apply_rule, control_log
        self._number = control_log.last.number if control_log.last else 0
        self._untried = list(config.modes)
        self._trials: list[tuple[float, Thresholds]] = []  # each with its cost
        self._rates: dict[int, float] = {}  # pages per second by number of fetch workers, when last seen
        self._rest = 0.0  # seconds until the next decision is worth its time
        self._warm = False  # the first decision also waits for compilers
        self._rule = Thresholds(config.modes[-1:])
        self._before = trace.totals()
        self._open = False  # the last decision has no result yet
        self._trying = False
        self._choosing: asyncio.Task[None] | None = None
        self._executor = DaemonExecutor()

    def start(self) -> None:
        """Start the crawl. A resumed one continues with its last rule."""
        last = self._control_log.last
        if last is not None and not last.trial and set(last.robots) <= set(self._config.modes):
            self._untried.clear()
            self._rates.update(last.rates)
            self._adopt_rule(Thresholds(last.robots, last.limits), "as before the crawl was resumed")
        else:
            self._try_next_count()

    def decide_if_due(self) -> None:
        """Start the next trial or decision if it is time."""
        if self._choosing is not None:
            return
        config, so_far = self._config, self._trace.totals().since(self._before)
        if self._trying:
            enough = so_far.seconds >= config.explore and so_far.arrived >= MIN_TRIAL_PAGES
            if enough or so_far.seconds >= MAX_TRIAL_FACTOR * config.explore:
                self._start_next_trial_or_decision()
        elif so_far.seconds >= max(config.every, self._rest) and so_far.arrived >= config.pages:
            self._start_next_trial_or_decision()

    def _start_next_trial_or_decision(self) -> None:
        if self._untried:
            self._try_next_count()
            return
        if self._trying:
            self._close_period()
            _, best = min(self._trials, key=lambda trial: trial[0])
            self._adopt_rule(best, "cheapest of those tried, until a rule is found")
        self._choosing = asyncio.get_running_loop().create_task(self._choose_rule_in_thread())
        self._choosing.add_done_callback(self._on_choice_done)

    def _try_next_count(self) -> None:
        robots = self._untried.pop()
        self._adopt_rule(
            Thresholds((robots,)),
            "to see what 1 robot brings" if robots == 1 else f"to see what {robots} robots bring",
            trying=True,
        )

    async def _choose_rule_in_thread(self) -> None:
        """Find a rule outside the event loop, and apply it."""
        config, began = self._config, self._clock.now()
        loop, rows = asyncio.get_running_loop(), self._trace.rows()
        try:
            chosen = await loop.run_in_executor(
                self._executor, _choose, config, rows, began - config.memory, dict(self._rates)
            )
        except FieldmouseError as trouble:
            self._adopt_rule(self._rule, f"kept: {trouble}", took=self._clock.now() - began)
            return
        finally:
            # A failed decision has taken time, too.
            self._rest = DECISION_COST_FACTOR * (self._clock.now() - began) if self._warm else 0.0
            self._warm = True
        self._rates.update(chosen.rates)
        why = f"cheapest for what {chosen.arrivals} pages in {chosen.seconds:.0f} s showed"
        self._adopt_rule(chosen.rule, why, chosen, self._clock.now() - began)

    def _on_choice_done(self, task: asyncio.Task[None]) -> None:
        self._choosing = None
        if not task.cancelled() and (mistake := task.exception()) is not None:
            # A crawl is worth more than its best rule: continue with the current one.
            log.error("control of the concurrency failed; the rule stays", exc_info=mistake)
            self._before = self._trace.totals()

    def _adopt_rule(
        self, rule: Thresholds, why: str, chosen: ChosenRule | None = None, took: float = 0.0, *, trying: bool = False
    ) -> None:
        now = self._clock.now()
        self._close_period()
        self._rule, self._trying = rule, trying
        self._apply_rule(rule)
        self._before = self._trace.totals()
        self._number += 1
        self._open = True
        self._control_log.append(
            Decision(
                number=self._number,
                at=now,
                robots=rule.robots,
                limits=rule.limits,
                why=why,
                trial=trying,
                seconds=took,
                predicted=chosen.predicted if chosen else None,
                cost=chosen.cost if chosen else None,
                says=chosen.says if chosen else (),
                rates=dict(self._rates),
            )
        )

    def _close_period(self) -> None:
        """Store the measured effect of the rule that held until now."""
        if not self._open:
            return
        self._open = False
        so_far = self._trace.totals().since(self._before)
        fare = BufferMetrics.measured(so_far)
        if self._trying:
            self._trials.append((fare.cost(self._config.cost), self._rule))
            if so_far.arrived >= MIN_TRIAL_PAGES:
                self._rates[self._rule.robots[0]] = so_far.arrived / so_far.seconds
        self._control_log.append(
            DecisionEffect(
                number=self._number,
                until=self._clock.now(),
                seconds=so_far.seconds,
                arrived=so_far.arrived,
                measured=fare,
                cost=fare.cost(self._config.cost),
            )
        )

    def stop_deciding(self) -> None:
        """Stop deciding: the crawl is over or asked to stop."""
        if self._choosing is not None:
            self._choosing.cancel()
        self._close_period()

    def close(self) -> None:
        self._control_log.close()


def _choose(config: GovernorConfig, rows: Rows, since: float, rates: dict[int, float]) -> ChosenRule:
    # Imported only when needed, and in the thread: the solvers load a compiler.
    from fieldmouse.control.threshold_optimiser import choose_rule

    return choose_rule(rows, since, capacity=config.capacity, modes=config.modes, weights=config.cost, remembered=rates)


def initial_rule(settings: Settings) -> Thresholds:
    """The initial number of fetch workers at each buffer level."""
    control = settings.control
    if control.mode == "thresholds":
        return Thresholds(control.robots, control.limits)
    return Thresholds((settings.fetch.concurrency,))


def cost_weights(settings: Settings) -> CostWeights:
    # Imported only when needed: the solvers load a compiler.
    from fieldmouse.queueing.model.model import CostWeights

    asked = settings.cost
    return CostWeights(
        loss=asked.loss, obs=asked.obsolete, sojourn=asked.response, robots=asked.robots, star=asked.starvation
    )


def build_governor(
    home: CrawlDir, settings: Settings, clock: Clock, trace: BufferTrace, apply_rule: Callable[[Thresholds], None]
) -> Governor | None:
    """The governor that changes the rule during the crawl; None if the rule is fixed."""
    control = settings.control
    if control.mode != "auto":
        return None
    config = GovernorConfig(
        capacity=settings.buffer.pages,
        modes=control.concurrency_choices(settings.fetch.concurrency),
        cost=cost_weights(settings),
        every=control.every,
        pages=control.pages,
        explore=control.explore,
        memory=control.memory,
    )
    return Governor(
        config=config, trace=trace, clock=clock, apply_rule=apply_rule, control_log=ControlLog(home / "control.log")
    )
