"""Control that learns: try, fit, solve, obey, and look how it went.

In the beginning each number of robots is tried for a while, the largest first, since
a crawl begins with few hosts and the largest number finds the others soonest. Then,
again and again, what was seen lately is fitted, the cheapest rule for it is found in
a thread beside the crawl, and the fleet obeys that one. What the model expected and
what then happened stand beside each other in `control.log`.

A good rule uses few numbers of robots, and the others are soon not seen any more. They
are taken to compare with those at work as they did when they were last seen: without
that memory two numbers at work that bring the same would make all seem the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldmouse.aside import Aside
from fieldmouse.clock import Clock
from fieldmouse.control.controllog import ControlLog, Decision, Period
from fieldmouse.control.gauge import Fare
from fieldmouse.control.pagetrace import PageTrace, Rows
from fieldmouse.errors import FieldmouseError
from fieldmouse.policy.thresholds import Thresholds

if TYPE_CHECKING:
    from fieldmouse.control.choosing import Chosen
    from fieldmouse.queueing.model.model import Cost

log = logging.getLogger(__name__)

TRIED = 100
"""Pages after which a number of robots has been tried enough, when its time is over, too."""
LONGEST = 6
"""Times the usual length after which a trial ends, however few pages came."""
SHARE = 20
"""Deciding may take one of so many seconds: where nothing is compiled, decisions are rarer."""


@dataclass(frozen=True, slots=True)
class Habits:
    """When to decide, and between what. Durations in seconds."""

    capacity: int
    modes: tuple[int, ...]  # ascending
    cost: Cost
    every: float = 60.0
    pages: int = 200
    explore: float = 10.0
    memory: float = 1200.0


class Governor:
    """Sets the fleet's rule. `look` is called often and returns at once."""

    def __init__(
        self, *, habits: Habits, trace: PageTrace, clock: Clock, obey: Callable[[Thresholds], None],
        book: ControlLog,
    ):  # fmt: skip
        self._habits, self._trace, self._clock = habits, trace, clock
        self._obey, self._book = obey, book
        self._number = book.last.number if book.last else 0
        self._untried = list(habits.modes)
        self._trials: list[tuple[float, Thresholds]] = []  # with what each cost
        self._rates: dict[int, float] = {}  # pages in a second with so many robots, when last seen
        self._rest = 0.0  # seconds until deciding is worth its time again
        self._warm = False  # the first decision waits for compilers, too
        self._rule = Thresholds(habits.modes[-1:])
        self._before = trace.totals()
        self._open = False  # a decision was written down whose outcome was not
        self._trying = False
        self._thinking: asyncio.Task[None] | None = None
        self._aside = Aside()

    def begin(self) -> None:
        """The crawl starts. One that was resumed goes on with the rule it had."""
        last = self._book.last
        if last is not None and not last.trial and set(last.robots) <= set(self._habits.modes):
            self._untried.clear()
            self._rates.update(last.rates)
            self._decide(Thresholds(last.robots, last.limits), "as before the crawl was resumed")
        else:
            self._try_next()

    def look(self) -> None:
        """Is it time for something else?"""
        if self._thinking is not None:
            return
        habits, so_far = self._habits, self._trace.totals().since(self._before)
        if self._trying:
            enough = so_far.seconds >= habits.explore and so_far.arrived >= TRIED
            if enough or so_far.seconds >= LONGEST * habits.explore:
                self._next()
        elif so_far.seconds >= max(habits.every, self._rest) and so_far.arrived >= habits.pages:
            self._next()

    def _next(self) -> None:
        if self._untried:
            self._try_next()
            return
        if self._trying:
            self._close_period()
            _, best = min(self._trials, key=lambda trial: trial[0])
            self._decide(best, "cheapest of those tried, until a rule is found")
        self._thinking = asyncio.get_running_loop().create_task(self._think())
        self._thinking.add_done_callback(self._thought)

    def _try_next(self) -> None:
        robots = self._untried.pop()
        self._decide(
            Thresholds((robots,)),
            "to see what 1 robot brings" if robots == 1 else f"to see what {robots} robots bring",
            trying=True,
        )

    async def _think(self) -> None:
        """Find a rule off the loop, and obey it."""
        habits, began = self._habits, self._clock.now()
        loop, rows = asyncio.get_running_loop(), self._trace.rows()
        try:
            chosen = await loop.run_in_executor(
                self._aside, _choose, habits, rows, began - habits.memory, dict(self._rates)
            )
        except FieldmouseError as trouble:
            self._decide(self._rule, f"kept: {trouble}", took=self._clock.now() - began)
            return
        finally:
            # What came to nothing has taken its time, too.
            self._rest = SHARE * (self._clock.now() - began) if self._warm else 0.0
            self._warm = True
        self._rates.update(chosen.rates)
        self._decide(chosen.rule, _why(chosen), chosen, self._clock.now() - began)

    def _thought(self, task: asyncio.Task[None]) -> None:
        self._thinking = None
        if not task.cancelled() and (mistake := task.exception()) is not None:
            # A crawl is worth more than its best rule: go on with the one at hand.
            log.error("the control of robots stumbled; the rule stays", exc_info=mistake)
            self._before = self._trace.totals()

    def _decide(
        self, rule: Thresholds, why: str, chosen: Chosen | None = None, took: float = 0.0, *,
        trying: bool = False,
    ) -> None:  # fmt: skip
        now = self._clock.now()
        self._close_period()
        self._rule, self._trying = rule, trying
        self._obey(rule)
        self._before = self._trace.totals()
        self._number += 1
        self._open = True
        self._book.append(
            Decision(
                number=self._number, at=now, robots=rule.robots, limits=rule.limits, why=why, trial=trying,
                seconds=took,
                predicted=chosen.predicted if chosen else None, cost=chosen.cost if chosen else None,
                says=chosen.says if chosen else (), rates=dict(self._rates),
            )
        )  # fmt: skip

    def _close_period(self) -> None:
        """Write down how it went under the rule that held until now."""
        if not self._open:
            return
        self._open = False
        so_far = self._trace.totals().since(self._before)
        fare = Fare.measured(so_far)
        if self._trying:
            self._trials.append((fare.cost(self._habits.cost), self._rule))
            if so_far.arrived >= TRIED:
                self._rates[self._rule.robots[0]] = so_far.arrived / so_far.seconds
        self._book.append(
            Period(
                number=self._number, until=self._clock.now(), seconds=so_far.seconds,
                arrived=so_far.arrived, measured=fare, cost=fare.cost(self._habits.cost),
            )
        )  # fmt: skip

    def end(self) -> None:
        """The crawl is over, or told to stop: no more decisions."""
        if self._thinking is not None:
            self._thinking.cancel()
        self._close_period()

    def close(self) -> None:
        self._book.close()


def _choose(habits: Habits, rows: Rows, since: float, rates: dict[int, float]) -> Chosen:
    # Loaded by those who need it, and in the thread: solvers bring a compiler along.
    from fieldmouse.control.choosing import choose

    return choose(
        rows, since, capacity=habits.capacity, modes=habits.modes, weights=habits.cost, remembered=rates
    )


def _why(chosen: Chosen) -> str:
    return f"cheapest for what {chosen.arrivals} pages in {chosen.seconds:.0f} s showed"
