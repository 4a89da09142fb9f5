"""Urn game parameters and results.

A game is a value: a source, K places online, a strategy and a number of steps. At time 0, K balls are
online. Each step chooses a colour that is online, with the same probability for each regardless of its
number of balls. The first ball of that colour leaves, and the strategy refills. The filling before time 0
adds one ball per unit of time, so it starts at -K.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fieldmouse.errors import UsageError
from fieldmouse_lab.urn.sources import Ints, Reals, Source
from fieldmouse_lab.urn.strategies import Strategy

Longs = npt.NDArray[np.int64]

#: Number of columns in `GameResult.lengths`: queues online of length 0, 1, ..., LENGTHS - 1 (Figure 5.2).
QUEUE_LENGTHS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """Parameters of a game.

    `initial`: the first K balls are placed by the strategy or all put online; None: as the thesis does for
    this strategy. Measures are taken at time 0, half time and the end, at all `checkpoints`, and once in
    `every` steps including the filling (0: at no other time). `stored` balls are drawn and put offline
    before the filling (Figure 7.1). The game ends early when the hosts offline together have more than
    `ceiling` of the probability, or after `draw_cap` successive draws of which none went online. The first
    `events` events are recorded.
    """

    source: Source
    capacity: int
    steps: int
    strategy: Strategy
    initial: Literal["strategy", "neutral"] | None = None
    every: int = 0
    checkpoints: tuple[int, ...] = ()
    stored: int = 0
    ceiling: float = 1.0
    draw_cap: int = 1_000_000
    events: int = 0

    def __post_init__(self) -> None:
        for name, least in {"capacity": 1, "steps": 1, "every": 0, "stored": 0, "draw_cap": 1, "events": 0}.items():
            if not least <= (value := getattr(self, name)) < 1 << 31:
                raise UsageError(f"a game cannot have {name} {value:,}", f"give {least} to {2**31 - 1:,}")
        if wrong := [at for at in self.checkpoints if not 0 <= at <= self.steps]:
            raise UsageError(
                f"there is no step {wrong[0]:,} in a game of {self.steps:,}",
                "give checkpoints from 0 to the number of steps",
            )

    @property
    def times(self) -> list[int]:
        """Times of the measures, ascending."""
        grid = range(-self.capacity + self.every, self.steps, self.every) if self.every else ()
        steady = range(0, self.steps, self.every) if self.every else ()
        filling = (at for at in grid if at < 0)
        return sorted({0, self.steps // 2, self.steps, *self.checkpoints, *filling, *steady})

    def minimal_game(self) -> Game:
        """Return a minimal game with the same strategy, used to compile the kernel."""
        few = replace(self.source, p=np.ones(2), permute_every=0, sizes=np.empty(0, np.int32))
        return replace(self, source=few, capacity=1, steps=1, every=0, checkpoints=(), stored=0)


class GameEnd(StrEnum):
    """Reason for the end of a game."""

    STEPS = "all steps were played"
    STUCK = "no draw could go online"
    FULL = "almost every draw would have had to go offline"
    DRY = "the source was dry and everything left"


class GameCounts(NamedTuple):
    """Counts at one time; all but the first and the last two are totals since the first ball."""

    distinct: int  # colours online
    sum: int  # of `distinct` over all steps
    elephants: int
    draws: int
    appends: int
    reads: int
    moves: int
    backlog: int
    waiting: int


@dataclass(frozen=True, slots=True, eq=False)
class GameResult:
    """Measures at `times`; counts are totals that include the filling.

    `distinct` is the number of colours online at that time, `distinct_between` its mean over the steps
    since the previous time. `new` and `offline` are the thesis' P_new and P_offline: the probability that
    a draw has a colour that is not online, or one that waits offline. `moves` counts moves of the disk's
    head (section 8.2). `waiting` is the number of colours with a backlog; `backlog` is its size. Row i of
    `lengths` counts colours with 0 to 5 balls online.
    """

    end: GameEnd
    steps: int  # steps played
    times: Longs
    distinct: Longs
    distinct_between: Reals
    new: Reals
    offline: Reals
    elephants: Longs
    draws: Longs
    appends: Longs
    reads: Longs
    moves: Longs
    backlog: Longs
    waiting: Longs
    lengths: Longs
    elephant_hosts: Ints  # at the end, ascending
    online: Longs  # balls of every host online at the end
    p: Reals  # probabilities at the end
    events: Ints  # colour * 4 + kind; `kernel` names the kinds

    def index_of(self, time: int) -> int:
        """Index of this time in the arrays."""
        assert time in self.times, f"nothing was measured at {time}"
        return int(np.searchsorted(self.times, time))

    @property
    def half_index(self) -> int:
        """Index of the last measure in the first half of the steps played."""
        return int(np.searchsorted(self.times, self.steps // 2, side="right")) - 1

    @property
    def distinct_mean(self) -> float:
        """Mean number of colours online over the last half; the final number if no step was played."""
        durations = np.diff(self.times)[self.half_index :]
        if not durations.sum():
            return float(self.distinct[-1])
        return float(self.distinct_between[self.half_index + 1 :] @ durations / durations.sum())

    def per_step(self, totals: Longs) -> float:
        """Growth per step of a count such as `draws` over the last half."""
        return self._growth(totals, self.half_index)

    def per_step_since_start(self, totals: Longs) -> float:
        """Growth per step since time 0, so that appends minus reads is the growth of the backlog."""
        return self._growth(totals, self.index_of(0))

    def _growth(self, totals: Longs, since: int) -> float:
        durations = int(self.times[-1] - self.times[since])
        return float(totals[-1] - totals[since]) / durations if durations else 0.0

    @property
    def elephant_share(self) -> float:
        """1 - q: the probability that a draw is of an elephant, at the end."""
        return float(self.p[self.elephant_hosts].sum())
