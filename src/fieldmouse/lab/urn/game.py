"""What is played, and what came of it.

A game is a value: a source, K places online, a strategy, a number of steps. Time
0 is when K balls are online. In each step a colour present online is chosen, each
with the same chance however many balls it has; its first ball goes, and the
strategy refills. Before time 0 the structure is filled, one ball per unit of time,
so that a filling starts at -K.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

import numpy as np
import numpy.typing as npt

from fieldmouse.errors import UsageError
from fieldmouse.lab.urn.sources import Ints, Reals, Source
from fieldmouse.lab.urn.strategies import Strategy

Longs = npt.NDArray[np.int64]

LENGTHS = 6
"""Queues online are counted by length 0, 1, ... up to one less than this (Figure 5.2)."""


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """What is to be played.

    `initial`: whether the first K balls are placed by the strategy or all put online;
    None: as the thesis does for this strategy. Measures are taken at 0, half time, the end,
    all `checkpoints`, and `every` so many steps, filling included (0: no more than those).
    `stored` balls are drawn and put offline before anything else (Figure 7.1).
    The game ends early when hosts offline have together more than `ceiling` of the
    probability, or after `draw_cap` draws in a row of which none went online.
    The first `events` things that happen to a ball are kept.
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
        for name, value, least in (
            ("capacity", self.capacity, 1),
            ("steps", self.steps, 1),
            ("every", self.every, 0),
            ("stored", self.stored, 0),
            ("draw_cap", self.draw_cap, 1),
            ("events", self.events, 0),
        ):
            if not least <= value < 1 << 31:
                raise UsageError(f"a game cannot have {name} {value:,}", f"give {least} to {2**31 - 1:,}")
        if wrong := [at for at in self.checkpoints if not 0 <= at <= self.steps]:
            raise UsageError(
                f"there is no step {wrong[0]:,} in a game of {self.steps:,}",
                "give checkpoints from 0 to the number of steps",
            )

    @property
    def times(self) -> list[int]:
        """When measures are taken, ascending."""
        grid = range(-self.capacity + self.every, self.steps, self.every) if self.every else ()
        steady = range(0, self.steps, self.every) if self.every else ()
        filling = (at for at in grid if at < 0)
        return sorted({0, self.steps // 2, self.steps, *self.checkpoints, *filling, *steady})

    def first_step(self) -> Game:
        """A game with the same strategy that is over at once: for whoever wants it compiled."""
        few = replace(self.source, p=np.ones(2), permute_every=0, sizes=np.empty(0, np.int32))
        return replace(self, source=few, capacity=1, steps=1, every=0, checkpoints=(), stored=0)


class End(StrEnum):
    """Why a game was over."""

    STEPS = "all steps were played"
    STUCK = "no draw could go online"
    FULL = "almost every draw would have had to go offline"
    DRY = "the source was dry and everything left"


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Measures at `times`; counts are totals since before the filling.

    `distinct` are colours online at that time, `distinct_between` their mean over the
    steps since the time before. `new` and `offline` are the thesis' P_new and
    P_offline: the chance that a draw is of a colour that is not online, or that waits
    offline. `moves` of the disk's head are those of section 8.2. `waiting` colours have a
    backlog; `backlog` is its size. Row i of `lengths` counts colours with 0 to 5 balls online.
    """

    end: End
    steps: int  # played
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
    online: Longs  # balls of every host at the end
    p: Reals  # as they were at the end
    events: Ints  # colour * 4 + kind, as `board` names the kinds

    def at(self, time: int) -> int:
        """Where this time is in the arrays."""
        found = int(np.searchsorted(self.times, time))
        assert time in self.times, f"nothing was measured at {time}"
        return found

    @property
    def half(self) -> int:
        """Where the last half of what was played begins: the last time measured by then."""
        return int(np.searchsorted(self.times, self.steps // 2, side="right")) - 1

    @property
    def distinct_mean(self) -> float:
        """Colours online, on average over the last half; where nothing was played, as it stood."""
        lasted = np.diff(self.times)[self.half :]
        if not lasted.sum():
            return float(self.distinct[-1])
        return float(self.distinct_between[self.half + 1 :] @ lasted / lasted.sum())

    def per_step(self, totals: Longs) -> float:
        """How fast a count such as `draws` grew over the last half."""
        return self._growth(totals, self.half)

    def per_step_in_all(self, totals: Longs) -> float:
        """The same from time 0 on, so that what was appended and not read is the backlog."""
        return self._growth(totals, self.at(0))

    def _growth(self, totals: Longs, since: int) -> float:
        lasted = int(self.times[-1] - self.times[since])
        return float(totals[-1] - totals[since]) / lasted if lasted else 0.0

    @property
    def elephant_share(self) -> float:
        """1 - q: the chance that a draw is of an elephant, at the end."""
        return float(self.p[self.elephant_hosts].sum())
