"""When a number of the thesis is ours: to the digit, by chance, or about.

A number that follows from a formula must agree in every printed digit, rounded or
cut off. A number from one simulation is one throw of dice: it agrees when it lies
where one more of our own games could have ended. The thesis prints 627 such
throws, so the reach is chosen once for all of them: if every table came from the
game as we play it, the chance that even one cell were called different would be
at most five in a hundred (Bonferroni over a Student prediction interval, because
the spread is itself known from our seeds only). A number that the prose calls
"about" so much agrees within a tenth of itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from fieldmouse.lab.catalogue import Row, Verdict

SEEDS = 15
"""Games behind each mean: enough to know the spread, few enough that all tables take minutes."""

SIMULATED_CELLS = 627
FALSE_ALARMS = 0.05
ABOUT = 0.1

REMARKED: dict[tuple[str, str], str] = {
    ("8.6", "delta 9, T 300000, simulation 2"): (
        "looks like an outlier, and the thesis wonders at it: fewer than after 200000 steps (131). "
        "It is some two and a half of our spreads low, as a few of 627 cells are by chance"
    ),
}
"""Cells, by table and label, of which there is something to say."""


@dataclass(frozen=True, slots=True)
class Throws:
    """The same quantity from several games: mean, spread (sd over games) and how many there were."""

    mean: float
    spread: float
    games: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Throws:
        assert len(values) > 1, "one game has no spread"
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)), len(values))

    @property
    def one_more(self) -> float:
        """The spread of one further game around our mean, which is itself a little off."""
        return self.spread * math.sqrt(1 + 1 / self.games)


@cache
def reach(games: int, cells: int = SIMULATED_CELLS) -> float:
    """How many spreads away one of all simulated cells may lie before it is called different."""
    from scipy.special import stdtrit  # here, so that listing experiments does not wait for scipy

    return float(stdtrit(games - 1, 1 - FALSE_ALARMS / cells / 2))


def unit(printed: str) -> float:
    """One in the last printed digit.

    >>> unit("0.0050"), unit("404"), unit("2.2140e-04")
    (0.0001, 1.0, 1e-08)
    """
    digits, _, power = printed.partition("e")
    return float(f"1e{int(power or 0) - len(digits.partition('.')[2])}")


def to_the_digit(label: str, printed: str, ours: float, note: str = "") -> Row:
    """A number that leaves nothing to chance."""
    value, step = float(printed), unit(printed)
    slack = 1e-9 * step  # binary fractions
    if abs(ours - value) <= step / 2 + slack:
        return Row(label, value, ours, None, Verdict.SAME, note)
    if 0 <= ours - value < step:
        cut = f"cut off after the last printed digit, not rounded ({ours:.6g})"
        return Row(label, value, ours, None, Verdict.SAME, f"{note}; {cut}" if note else cut)
    return Row(label, value, ours, None, Verdict.DIFFERENT, note)


def by_chance(label: str, printed: str, ours: Throws, table: str = "") -> Row:
    """A number that one simulation gave."""
    value = float(printed)
    off = abs(value - ours.mean) - unit(printed) / 2
    verdict = Verdict.SAME if off <= reach(ours.games) * ours.one_more else Verdict.DIFFERENT
    return Row(label, value, ours.mean, ours.spread, verdict, REMARKED.get((table, label), ""))


def about(label: str, printed: float, ours: float | Throws, note: str = "") -> Row:
    """A number that the prose rounds as people do: "about 950"."""
    mean, spread = (ours.mean, ours.spread) if isinstance(ours, Throws) else (ours, None)
    verdict = Verdict.SAME if abs(mean - printed) <= ABOUT * abs(printed) else Verdict.DIFFERENT
    return Row(label, printed, mean, spread, verdict, note)


def only_ours(label: str, ours: float | Throws, note: str = "") -> Row:
    """A number that nobody printed."""
    mean, spread = (ours.mean, ours.spread) if isinstance(ours, Throws) else (ours, None)
    return Row(label, None, mean, spread, Verdict.NEW, note)


def residuals(rows: Sequence[Row]) -> str:
    """How far all printed numbers of a table lie from ours together: a sharper eye than any one cell.

    A wrong rule shows as a mean far from 0 long before a single cell is out of
    reach; numbers that scatter as chance does have a root mean square near 1.
    """
    off = np.array(
        [
            (row.printed - row.ours) / row.spread
            for row in rows
            if row.printed is not None and row.ours is not None and row.spread
        ]
    )
    if not off.size:
        return ""
    scatter = math.sqrt((off**2).mean())
    return (
        f"printed minus ours, in spreads: mean {off.mean():+.2f}, root mean square {scatter:.2f}, "
        f"farthest {np.abs(off).max():.1f} (over {off.size} cells that vary)"
    )
