"""Governor that chooses how many fetch workers run at each buffer level.

A crawl starts with all workers, which stop when the buffer is half full. Nothing is tried out: from the
page trace the fetch rate, the service times and the lifetimes are estimated again and again, the rule with
the least cost is computed in a thread, and the fetch pool follows it. The prediction and the measured
result are stored side by side in `control.log`.

If a rule costs clearly more than predicted, the rule with the lowest measured cost holds for a while, longer
each time. If the indexer is not the limit, all workers run, and nothing is computed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fieldmouse.aio import DaemonExecutor
from fieldmouse.clock import Clock
from fieldmouse.config.settings_file import Settings
from fieldmouse.control.buffer_trace import BufferMetrics, BufferTotals, BufferTrace, Rows
from fieldmouse.control.concurrency_decision_log import ControlLog, Decision, DecisionEffect
from fieldmouse.errors import FieldmouseError
from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.storage.directory import CrawlDir

if TYPE_CHECKING:
    from fieldmouse.control.cheapest_rule import ChosenRule, Observations
    from fieldmouse.queueing.in_flight.model import WhenFull
    from fieldmouse.queueing.model.model import CostWeights


log = logging.getLogger(__name__)

#: Decisions may take one part in this many of the time.
DECISION_COST_FACTOR = 20
#: Seconds between two counts of the fetches.
COUNT_EVERY = 2.0
#: Share of time in which an indexer that is not the limit has nothing to do, and the largest mean level then.
IDLE, EMPTY = 0.3, 1.0
#: A rule has failed when it costs this many times the prediction, over at least so many seconds.
FAILED_FACTOR, FAILED_SECONDS = 1.5, 30.0


class ControlRule(NamedTuple):
    """Number of workers by level, and what they do when the buffer is full."""

    thresholds: Thresholds
    when_full: WhenFull


@dataclass(frozen=True, slots=True)
class GovernorConfig:
    """When to decide, and among which numbers. Durations in seconds."""

    capacity: int
    modes: tuple[int, ...]  # ascending
    cost: CostWeights
    ways: tuple[WhenFull, ...] = ("wait", "lose")
    every: float = 10.0
    pages: int = 100
    explore: float = 10.0
    memory: float = 1200.0
    reserve: int = 0  # pages with which the indexer is busy all the time


class Governor:
    """Sets the rule of the fetch pool. `decide_if_due` is called often and returns at once."""

    def __init__(
        self,
        *,
        config: GovernorConfig,
        trace: BufferTrace,
        clock: Clock,
        apply_rule: Callable[[Thresholds, WhenFull], None],
        control_log: ControlLog,
    ):
        self._config, self._trace, self._clock = config, trace, clock
        self._apply_rule, self._control_log = apply_rule, control_log
        self._number = control_log.last.number if control_log.last else 0
        self._initial = ControlRule(Thresholds((config.modes[-1], 0), (config.capacity // 2,)), config.ways[0])
        self._rule, self._expected = self._initial, 0.0  # its predicted cost; 0.0 without a prediction
        self._began = trace.totals()  # of the present rule
        self._checked = self._began  # when it was last due to decide
        self._open = False  # the last decision has no result yet
        self._counts: deque[tuple[float, int, float]] = deque()
        self._history = RuleHistory(config.cost)
        self._steps_aside = self._has_decided = False
        self._rest = 0.0  # seconds until the next decision is worth its time
        self._seen: Observations | None = None  # what the present rule was chosen for
        self._choosing: asyncio.Task[None] | None = None
        self._executor = DaemonExecutor()

    def start(self) -> None:
        """Start the crawl. A resumed one continues with its last rule."""
        last = self._control_log.last
        if last is not None and set(last.robots) <= {0, *self._config.modes} and last.robots[0]:
            when_full = last.when_full if last.when_full in self._config.ways else self._config.ways[0]
            rule = ControlRule(Thresholds(last.robots, last.limits), when_full)
            self._adopt_rule(rule, "as before the crawl was resumed")
        else:
            self._adopt_rule(self._initial, "at first all workers, until the buffer is half full")

    def decide_if_due(self) -> None:
        """Start the next decision if it is time."""
        now, totals = self._clock.now(), self._trace.totals()
        if not self._counts or now >= self._counts[-1][0] + COUNT_EVERY:
            self._counts.append((now, totals.arrived, totals.fetch_seconds))
            while self._counts[0][0] < now - self._config.memory:
                self._counts.popleft()
        if self._choosing is not None:
            return
        config, lately = self._config, totals.since(self._checked)
        wait = max(config.every, self._rest) if self._has_decided else config.explore
        if lately.seconds < wait or lately.arrived < config.pages:
            return
        self._checked = totals
        self._history.add(self._rule, self._expected, lately)
        if lately.idle >= IDLE * lately.seconds and lately.page_seconds <= lately.seconds * max(
            EMPTY, config.capacity / 20
        ):
            self._step_aside(lately.idle / lately.seconds)
            return
        self._steps_aside = False
        fallback = self._history.fallback(now)
        if fallback is not None:
            self._adopt_rule(fallback, "cheapest so far: the last rule cost more than predicted")
        elif now >= self._history.trusted_from:
            self._choosing = asyncio.get_running_loop().create_task(self._choose_rule_in_thread())
            self._choosing.add_done_callback(self._on_choice_done)

    def _step_aside(self, idle: float) -> None:
        """Let all workers run: the indexer could do more than they bring."""
        if not self._steps_aside or self._rule != self._initial:
            self._steps_aside = True
            self._adopt_rule(
                self._initial, f"the indexer is not the limit: it had nothing to do for {idle:.0%} of the time"
            )

    async def _choose_rule_in_thread(self) -> None:
        """Find a rule outside the event loop, and apply it."""
        config, began = self._config, self._clock.now()
        loop, rows = asyncio.get_running_loop(), self._trace.rows()
        try:
            chosen = await loop.run_in_executor(
                self._executor, _choose, config, rows, list(self._counts), began - config.memory, self._seen
            )
        except FieldmouseError as trouble:
            if not self._has_decided:
                self._adopt_rule(self._rule, f"kept: {trouble}", took=self._clock.now() - began)
            return
        finally:
            # A failed decision has taken time, too.
            self._rest = DECISION_COST_FACTOR * (self._clock.now() - began)
            self._has_decided = True
        if chosen is None:
            return
        self._seen = chosen.seen
        why = f"cheapest for what {chosen.seen.arrivals} pages in {chosen.seen.seconds:.0f} s showed"
        rule = ControlRule(chosen.rule, chosen.when_full)
        if rule != self._rule or not 0.95 < chosen.cost / (self._expected or 1e-9) < 1.05:
            self._adopt_rule(rule, why, chosen, self._clock.now() - began)

    def _on_choice_done(self, task: asyncio.Task[None]) -> None:
        self._choosing = None
        if not task.cancelled() and (mistake := task.exception()) is not None:
            # A crawl is worth more than its best rule: continue with the current one.
            log.error("control of the concurrency failed; the rule stays", exc_info=mistake)

    def _adopt_rule(self, rule: ControlRule, why: str, chosen: ChosenRule | None = None, took: float = 0.0) -> None:
        self._close_period()
        self._rule, self._expected = rule, chosen.cost if chosen else 0.0
        self._seen = chosen.seen if chosen else None
        self._apply_rule(*rule)
        self._began = self._trace.totals()
        self._number += 1
        self._open = True
        self._control_log.append(
            Decision(
                number=self._number,
                at=self._clock.now(),
                robots=rule.thresholds.robots,
                limits=rule.thresholds.limits,
                when_full=rule.when_full,
                why=why,
                seconds=took,
                predicted=chosen.predicted if chosen else None,
                cost=chosen.cost if chosen else None,
            )
        )

    def _close_period(self) -> None:
        """Store the measured effect of the rule that held until now."""
        if not self._open:
            return
        self._open = False
        so_far = self._trace.totals().since(self._began)
        measured = BufferMetrics.measured(so_far)
        self._control_log.append(
            DecisionEffect(
                number=self._number,
                until=self._clock.now(),
                seconds=so_far.seconds,
                arrived=so_far.arrived,
                measured=measured,
                cost=measured.cost(self._config.cost),
            )
        )

    def stop_deciding(self) -> None:
        """Stop deciding: the crawl is over or asked to stop."""
        if self._choosing is not None:
            self._choosing.cancel()
        self._close_period()

    def close(self) -> None:
        self._control_log.close()


class RuleHistory:
    """Measured and predicted costs of the rules, and the rule to fall back to when a prediction fails.

    A rule fails when it cost `FAILED_FACTOR` times its prediction over `FAILED_SECONDS`. After the k-th failure the
    cheapest rule measured so far holds for 2^k times as long before predictions are trusted again. So with t
    seconds since the last change of the web or the indexer, rules that cost more than they should hold for at
    most about FAILED_SECONDS * log2(t / FAILED_SECONDS) seconds.
    """

    def __init__(self, weights: CostWeights):
        self._weights = weights
        self._measured: dict[ControlRule, BufferTotals] = {}
        self._lately: deque[tuple[float, BufferTotals]] = deque()  # predicted cost and totals
        self._failures = 0
        self.trusted_from = 0.0  # no prediction is used before this time

    def add(self, rule: ControlRule, expected: float, totals: BufferTotals) -> None:
        """Add what a rule brought. A new prediction far from the last one means that the system has changed."""
        known = self._measured.get(rule)
        self._measured[rule] = known.plus(totals) if known else totals
        if self._lately and not 0.8 < expected / self._lately[-1][0] < 1.25:
            self._lately.clear()
            if expected:
                self._measured = {rule: totals}
                self._failures = 0
        if expected:
            self._lately.append((expected, totals))
            while sum(part.seconds for _, part in self._lately) - self._lately[0][1].seconds >= FAILED_SECONDS:
                self._lately.popleft()

    def fallback(self, now: float) -> ControlRule | None:
        """The cheapest rule so far if the predictions of late have failed and it cost less; else None."""
        seconds = sum(part.seconds for _, part in self._lately)
        if seconds < FAILED_SECONDS:
            return None
        expected = sum(cost * part.seconds for cost, part in self._lately) / seconds
        measured = self._cost(BufferTotals.sum(part for _, part in self._lately))
        known = {rule: totals for rule, totals in self._measured.items() if totals.seconds >= FAILED_SECONDS}
        if measured < FAILED_FACTOR * expected or not known:
            return None
        best = min(known, key=lambda rule: self._cost(known[rule]))
        self._lately.clear()
        if self._cost(known[best]) > 0.9 * measured:
            return None
        self._failures += 1
        self.trusted_from = now + FAILED_SECONDS * 2.0**self._failures
        return best

    def _cost(self, totals: BufferTotals) -> float:
        return BufferMetrics.measured(totals).cost(self._weights)


def _choose(
    config: GovernorConfig,
    rows: Rows,
    counts: list[tuple[float, int, float]],
    since: float,
    before: Observations | None,
) -> ChosenRule | None:
    """The best rule; None if nothing has changed since the last choice."""
    # Imported only when needed, and in the thread: few crawls are limited by their indexer.
    from fieldmouse.control.cheapest_rule import FetchCount, choose_rule, observe

    seen = observe(rows, [FetchCount(*count) for count in counts], since)
    if before is not None and seen.is_near(before):
        return None
    return choose_rule(
        seen,
        capacity=config.capacity,
        modes=config.modes,
        weights=config.cost,
        ways=config.ways,
        reserve=config.reserve,
    )


def initial_rule(settings: Settings) -> Thresholds:
    """The initial number of fetch workers at each buffer level."""
    control = settings.control
    if control.mode == "thresholds":
        return Thresholds(control.robots, control.limits)
    return Thresholds((settings.fetch.concurrency,))


def cost_weights(settings: Settings) -> CostWeights:
    # Imported only when needed.
    from fieldmouse.queueing.model.model import CostWeights

    asked = settings.cost
    return CostWeights(
        loss=asked.loss, obs=asked.obsolete, sojourn=asked.response, robots=asked.robots, star=asked.starvation
    )


def build_governor(
    home: CrawlDir,
    settings: Settings,
    clock: Clock,
    trace: BufferTrace,
    apply_rule: Callable[[Thresholds, WhenFull], None],
    reserve: int = 0,
) -> Governor | None:
    """The governor that changes the rule during the crawl; None if the rule is fixed.

    `reserve` is the number of pages with which the indexer is busy all the time.
    """
    control, when_full = settings.control, settings.buffer.when_full
    if control.mode != "auto":
        return None
    config = GovernorConfig(
        capacity=settings.buffer.pages,
        modes=control.concurrency_choices(settings.fetch.concurrency),
        cost=cost_weights(settings),
        ways=("wait", "lose") if when_full == "auto" else ("wait",) if when_full == "wait" else ("lose",),
        every=control.every,
        pages=control.pages,
        explore=control.explore,
        memory=control.memory,
        reserve=min(reserve, settings.buffer.pages // 4),
    )
    return Governor(
        config=config, trace=trace, clock=clock, apply_rule=apply_rule, control_log=ControlLog(home / "control.log")
    )
