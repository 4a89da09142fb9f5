"""When a number of the automata-and-packing report is ours.

What leaves nothing to chance must agree in every printed digit. What one run gave is held against the
exact law of the free automaton where there is one, else against one more run of our own; over all such
numbers the chance of a false alarm is five in a hundred. And whatever is printed, our
own simulation must be where the law says, or nothing is called the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldmouse.lab.catalogue import Row, Verdict
from fieldmouse.lab.papers.refresh_printed import MISPRINTS, SIMULATED_CELLS
from fieldmouse.lab.papers.urn_agreement import FALSE_ALARMS, Throws, reach, to_the_digit, unit


@dataclass(frozen=True, slots=True)
class Twin:
    """What the exact law has for a number, with its spread, and within how many of these our mean must lie.

    The law knows of no full nodes. While these are still being opened, ours may be lower
    by what was `taken` from pages on them.
    """

    mean: float
    spread: float
    within: float = 1.0
    taken: float = 0.0

    def holds(self, ours: Throws) -> bool:
        slack = self.within * self.spread
        return self.mean - self.taken - slack <= ours.mean <= self.mean + slack

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.spread:.1f}"


def normal_reach() -> float:
    """How many spreads from its known mean one of the report's numbers may lie."""
    from scipy.special import ndtri  # here, so that listing experiments does not wait for scipy

    return float(ndtri(1 - FALSE_ALARMS / SIMULATED_CELLS / 2))


def exactly(label: str, printed: str, ours: float, note: str = "") -> Row:
    """A number that leaves nothing to chance; one known to be misprinted must be the true one."""
    if label not in MISPRINTS:
        return to_the_digit(label, printed, ours, note)
    true, why = MISPRINTS[label]
    agrees = to_the_digit(label, true, ours).verdict is Verdict.SAME
    verdict = Verdict.MISPRINT if agrees else Verdict.DIFFERENT
    return Row(label, float(printed), ours, None, verdict, f"should be {true}: {why}")


def by_law(label: str, printed: str, ours: Throws, twin: Twin) -> Row:
    """A number of one run of which the law is known."""
    value = float(printed)
    if not twin.holds(ours):
        verdict, note = Verdict.DIFFERENT, f"our own simulation is not where the exact law is: {twin}"
    elif abs(value - twin.mean) - unit(printed) / 2 <= normal_reach() * twin.spread:
        verdict, note = Verdict.SAME, ""
    else:
        spreads = (value - twin.mean) / twin.spread
        verdict = Verdict.OUTLIER
        note = f"exact law {twin}: {abs(spreads):.0f} spreads {'below' if spreads < 0 else 'above'} it"
    return Row(label, value, ours.mean, ours.spread, verdict, note)


def by_another_run(label: str, printed: str, ours: Throws, total: Throws, twin: Twin) -> Row:
    """A number of one run that only our own runs can tell about, provided that their `total` is right."""
    value = float(printed)
    near = abs(value - ours.mean) - unit(printed) / 2 <= reach(ours.games, SIMULATED_CELLS) * ours.one_more
    if not twin.holds(total):
        verdict, note = Verdict.DIFFERENT, f"our own total is not where the exact law is: {twin}"
    else:
        verdict, note = (
            (Verdict.SAME, "") if near else (Verdict.OUTLIER, "sites weigh more, and go elsewhere")
        )
    return Row(label, value, ours.mean, ours.spread, verdict, note)


def unmoved(label: str, printed: str, start: float, ours: Throws, total: Throws, twin: Twin) -> Row:
    """A number printed as the result of a run, which is what stood before its first slot.

    It is a misprint if it is that to the digit and the automata have really left it: their total must
    be where the law has it.
    """
    is_start = to_the_digit(label, printed, start).verdict is Verdict.SAME
    verdict = Verdict.MISPRINT if is_start and twin.holds(total) else Verdict.DIFFERENT
    note = (
        f"the state before the first slot; afterwards all weights sum to {total.mean:.1f} (exact law {twin})"
    )
    return Row(label, float(printed), ours.mean, ours.spread, verdict, note)


def ours_by_law(label: str, ours: Throws, twin: Twin, note: str = "") -> Row:
    """A number that was not printed, beside its exact law."""
    verdict = Verdict.NEW if twin.holds(ours) else Verdict.DIFFERENT
    said = f"exact law {twin}"
    return Row(label, None, ours.mean, ours.spread, verdict, f"{said}; {note}" if note else said)
