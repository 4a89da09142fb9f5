"""Rules that decide whether a number of the automata-and-packing report agrees with ours.

A deterministic number must agree in every printed digit. A number from one run is compared with the exact
law of the free automaton where there is one, else with another run by us; over all such numbers the
probability of a false alarm is 5 %. In all cases our simulation must agree with the law, or the number is
not called the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldmouse.lab.catalogue import Row, Verdict
from fieldmouse.lab.papers.refresh_printed import MISPRINTS, SIMULATED_CELLS
from fieldmouse.lab.papers.urn_agreement import FALSE_ALARMS, Throws, reach, to_the_digit, unit


@dataclass(frozen=True, slots=True)
class Twin:
    """Value and spread of a number by the exact law, and the number of spreads within which our mean must
    lie.

    The law assumes that no node is full. While nodes are still being opened, our mean may be lower by the
    polls `taken` from pages on full nodes.
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
    """Number of spreads by which one of the report's numbers may differ from its known mean."""
    from scipy.special import ndtri  # imported here, so that listing experiments does not load scipy

    return float(ndtri(1 - FALSE_ALARMS / SIMULATED_CELLS / 2))


def exactly(label: str, printed: str, ours: float, note: str = "") -> Row:
    """Compare a deterministic number; a known misprint is compared with the corrected number."""
    if label not in MISPRINTS:
        return to_the_digit(label, printed, ours, note)
    true, why = MISPRINTS[label]
    agrees = to_the_digit(label, true, ours).verdict is Verdict.SAME
    verdict = Verdict.MISPRINT if agrees else Verdict.DIFFERENT
    return Row(label, float(printed), ours, None, verdict, f"should be {true}: {why}")


def by_law(label: str, printed: str, ours: Throws, twin: Twin) -> Row:
    """Compare a number of one run whose law is known."""
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
    """Compare a number of one run with our runs, provided that their `total` agrees with the law."""
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
    """Compare a number that is printed as the result of a run but is the state before its first slot.

    It is a misprint if it equals that state in every digit and the automata have left it, that is, if
    their total agrees with the law.
    """
    is_start = to_the_digit(label, printed, start).verdict is Verdict.SAME
    verdict = Verdict.MISPRINT if is_start and twin.holds(total) else Verdict.DIFFERENT
    note = (
        f"the state before the first slot; afterwards all weights sum to {total.mean:.1f} (exact law {twin})"
    )
    return Row(label, float(printed), ours.mean, ours.spread, verdict, note)


def ours_by_law(label: str, ours: Throws, twin: Twin, note: str = "") -> Row:
    """Return a row for a number that was not printed, with its exact law."""
    verdict = Verdict.NEW if twin.holds(ours) else Verdict.DIFFERENT
    said = f"exact law {twin}"
    return Row(label, None, ours.mean, ours.spread, verdict, f"{said}; {note}" if note else said)
