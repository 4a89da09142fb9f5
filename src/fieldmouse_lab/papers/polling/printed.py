"""Printed numbers of the automata-and-packing report, and the rules that decide whether ours agree.

Numbers are read from `printed/polling.toml`. They are text, because the digits of a printed number show its
precision. Where the report contradicts itself, the corrected number is given with the reason, and ours must
agree with that.

A deterministic number must agree in every printed digit. A number from one run is compared with the exact
law of the free automaton where there is one, else with another run by us; over all such numbers the
probability of a false alarm is 5 %. In all cases our simulation must agree with the law, or the number is
not called the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fieldmouse_lab.catalogue import Row, Sample, Verdict, read_printed
from fieldmouse_lab.papers.bubing.printed import FALSE_ALARMS, compare_exact, interval_width, last_digit_unit

CAPACITY, ZIPF_CAPACITY = 400, 80

_REPORT = read_printed("polling")

#: Loads of the four bins by number of runs; N = 8.
TEST_1: Mapping[int, Sequence[str]] = {int(runs): bins for runs, bins in _REPORT["test_1"]["bins"].items()}

TEST_1_TOTALS: Mapping[str, str] = _REPORT["test_1"]["totals"]
TEST_2: Sequence[str] = _REPORT["test_2"]["bins"]
TEST_2_TOTAL: str = _REPORT["test_2"]["total"]

OPTIMAL_BINS: Sequence[str] = _REPORT["optimal"]["bins"]
OPTIMAL_TOTAL: str = _REPORT["optimal"]["total"]


@dataclass(frozen=True, slots=True)
class PrintedSite:
    """One row of the table of weights: the optimal weight, and the final weights in both tests."""

    number: int
    pages: int
    optimal: str
    first: str
    second: str


def sites() -> list[PrintedSite]:
    """
    >>> sites()[5].second
    '10.0'
    """
    lines = (line.split() for line in _REPORT["sites"].strip().splitlines())
    return [PrintedSite(int(number), int(pages), *printed) for number, pages, *printed in lines]


PAGES_OF_DOMAINS: Mapping[str, str] = _REPORT["pages_of_domains"]
ALL_PAGES: str = _REPORT["pages"]
OPTIMAL_RATE: str = _REPORT["optimal_rate"]
RATE_16 = 0.13

ZIPF_BINS: Sequence[str] = _REPORT["zipf"]["bins"]
ZIPF_TOTAL: str = _REPORT["zipf"]["total"]
ZIPF_OPTIMAL_BINS: Sequence[str] = _REPORT["zipf"]["optimal_bins"]
ZIPF_OPTIMAL_TOTAL: str = _REPORT["zipf"]["optimal_total"]
ZIPF_RUNS = 200
DYNAMIC_RUNS = (200, 400, 600, 800, 1000)
SWITCHED_EVERY = 2000

#: Number of printed random numbers: the bins of Tests 1 and 2, the weights of 20 sites, the totals.
SIMULATED_CELLS = 4 * len(TEST_1) + len(TEST_2) + 2 * 20 + 2

#: Corrected number and reason, by label.
MISPRINTS: Mapping[str, Sequence[str]] = _REPORT["misprints"]


@dataclass(frozen=True, slots=True)
class ExactLaw:
    """Value and spread of a number by the exact law, and the number of spreads within which our mean must
    lie.

    The law assumes that no node is full. While nodes are still being opened, our mean may be lower by the
    polls `taken` from pages on full nodes.
    """

    mean: float
    spread: float
    within: float = 1.0
    taken: float = 0.0

    def agrees(self, ours: Sample) -> bool:
        slack = self.within * self.spread
        return self.mean - self.taken - slack <= ours.mean <= self.mean + slack

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.spread:.1f}"


def normal_interval_width() -> float:
    """Number of spreads by which one of the report's numbers may differ from its known mean."""
    from scipy.special import ndtri  # imported here, so that listing experiments does not load scipy

    return float(ndtri(1 - FALSE_ALARMS / SIMULATED_CELLS / 2))


def compare_deterministic(label: str, printed: str, ours: float, note: str = "") -> Row:
    """Compare a deterministic number; a known misprint is compared with the corrected number."""
    if label not in MISPRINTS:
        return compare_exact(label, printed, ours, note)
    true, why = MISPRINTS[label]
    agrees = compare_exact(label, true, ours).verdict is Verdict.SAME
    verdict = Verdict.MISPRINT if agrees else Verdict.DIFFERENT
    return Row(label, float(printed), ours, None, verdict, f"should be {true}: {why}")


def compare_with_law(label: str, printed: str, ours: Sample, twin: ExactLaw) -> Row:
    """Compare a number of one run whose law is known."""
    value = float(printed)
    if not twin.agrees(ours):
        verdict, note = Verdict.DIFFERENT, f"our own simulation is not where the exact law is: {twin}"
    elif abs(value - twin.mean) - last_digit_unit(printed) / 2 <= normal_interval_width() * twin.spread:
        verdict, note = Verdict.SAME, ""
    else:
        spreads = (value - twin.mean) / twin.spread
        verdict = Verdict.OUTLIER
        note = f"exact law {twin}: {abs(spreads):.0f} spreads {'below' if spreads < 0 else 'above'} it"
    return Row(label, value, ours.mean, ours.spread, verdict, note)


def compare_with_runs(label: str, printed: str, ours: Sample, total: Sample, twin: ExactLaw) -> Row:
    """Compare a number of one run with our runs, provided that their `total` agrees with the law."""
    value = float(printed)
    near = (
        abs(value - ours.mean) - last_digit_unit(printed) / 2
        <= interval_width(ours.games, SIMULATED_CELLS) * ours.prediction_spread
    )
    if not twin.agrees(total):
        verdict, note = Verdict.DIFFERENT, f"our own total is not where the exact law is: {twin}"
    else:
        verdict, note = (Verdict.SAME, "") if near else (Verdict.OUTLIER, "sites weigh more, and go elsewhere")
    return Row(label, value, ours.mean, ours.spread, verdict, note)


def compare_initial_state(label: str, printed: str, start: float, ours: Sample, total: Sample, twin: ExactLaw) -> Row:
    """Compare a number that is printed as the result of a run but is the state before its first slot.

    It is a misprint if it equals that state in every digit and the automata have left it, that is, if
    their total agrees with the law.
    """
    is_start = compare_exact(label, printed, start).verdict is Verdict.SAME
    verdict = Verdict.MISPRINT if is_start and twin.agrees(total) else Verdict.DIFFERENT
    note = f"the state before the first slot; afterwards all weights sum to {total.mean:.1f} (exact law {twin})"
    return Row(label, float(printed), ours.mean, ours.spread, verdict, note)


def new_row_with_law(label: str, ours: Sample, twin: ExactLaw) -> Row:
    """Return a row for a number that was not printed, with its exact law."""
    verdict = Verdict.NEW if twin.agrees(ours) else Verdict.DIFFERENT
    return Row(label, None, ours.mean, ours.spread, verdict, f"exact law {twin}")
