"""Printed numbers of the automata-and-packing report, and the rules that decide whether ours agree.

Numbers are text, because the digits of a printed number show its precision. Where the report contradicts
itself, the corrected number is given with the reason, and ours must agree with that.

A deterministic number must agree in every printed digit. A number from one run is compared with the exact
law of the free automaton where there is one, else with another run by us; over all such numbers the
probability of a false alarm is 5 %. In all cases our simulation must agree with the law, or the number is
not called the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fieldmouse_lab.catalogue import Row, Sample, Verdict
from fieldmouse_lab.papers.bubing.printed import FALSE_ALARMS, compare_exact, interval_width, last_digit_unit

CAPACITY, ZIPF_CAPACITY = 400, 80

#: Loads of the four bins by number of runs; N = 8.
TEST_1: Mapping[int, Sequence[str]] = {
    50: ("320.5", "399.875", "315.625", "0"),
    500: ("385.75", "349.125", "382.875", "203.0"),
    1000: ("360.875", "379.875", "392.5", "202.125"),
    5000: ("374.75", "369.875", "387.875", "191.37"),
}

TEST_1_TOTALS = {"in the text": "1323.625", "in the overview": "1321"}
TEST_2 = ("383.3125", "376.5", "378.4375", "61.25")
TEST_2_TOTAL = "1199.5"

OPTIMAL_BINS = ("399.2", "399.01", "399.7", "25.75")
OPTIMAL_TOTAL = "1223.66"


@dataclass(frozen=True, slots=True)
class PrintedSite:
    """One row of the table of weights: the optimal weight, and the final weights in both tests."""

    number: int
    pages: int
    optimal: str
    first: str
    second: str


_SITES = """
 0 131 39.3   42.125  38.9375
 1 201 60.3   55.25   60.4375
 2 341 102.3  105.75  101.9375
 3 567 172.8  168.125 167.125
 4 531 159.3  160.375 155.875
 5  36 10.8   10.875  10.0
 6 451 135.3  145.625 133.1875
 7 121 36.3   38.25   32.9375
 8 124 31     34.375  31.3125
 9 174 36.75  44.5    38.6875
10 402 100.5  105.75  89.3125
11 322 80.5   85.375  77.25
12  49 12.25  15.25   10.3125
13 615 153.75 154.125 145.4375
14 235 23.5   41.625  29.0
15 135 13.5   21.75   15.8125
16  95 9.5    15.75   10.5
17 343 34.3   58.25   41.375
18  32 3.2    4.125   2.0625
19 123 12.0   15.75   8.0
"""


def sites() -> list[PrintedSite]:
    """
    >>> sites()[5].second
    '10.0'
    """
    lines = (line.split() for line in _SITES.strip().splitlines())
    return [PrintedSite(int(number), int(pages), *printed) for number, pages, *printed in lines]


PAGES_OF_DOMAINS = {"com": "2379", "net": "1686", "edu": "808", "org": "155"}
ALL_PAGES = "5028"
OPTIMAL_RATE = "0.2433"
RATE_16 = 0.13

ZIPF_BINS = ("79.1875", "29.4375")
ZIPF_TOTAL = "108.625"
ZIPF_OPTIMAL_BINS = ("78.98175023108985", "32.58512586169496")
ZIPF_OPTIMAL_TOTAL = "111.56687609278475"
ZIPF_RUNS = 200
DYNAMIC_RUNS = (200, 400, 600, 800, 1000)
SWITCHED_EVERY = 2000

#: Number of printed random numbers: the bins of Tests 1 and 2, the weights of 20 sites, the totals.
SIMULATED_CELLS = 4 * len(TEST_1) + len(TEST_2) + 2 * 20 + 2

MISPRINTS: Mapping[str, tuple[str, str]] = {
    "site 3, optimal": ("170.1", "the site has 567 pages, not 576"),
    "site 9, optimal": ("43.5", "174 * 0.25"),
    "site 18, optimal": ("1.6", "a page of .org changes with probability 0.05, not 0.1"),
    "site 19, optimal": ("6.15", "a page of .org changes with probability 0.05, and 123 * 0.1 is 12.3"),
    "optimal bin 1": ("399.1", "a digit slipped in: the right weights, packed, give 399.1"),
    "optimal total": ("1223.75", "the sum with the bin of 399.1"),
    "total of Test 1, in the text": ("1323.875", "the sum of the printed bins"),
    "total of Test 1, in the overview": ("1323.875", "the sum of the printed bins; their sites sum to 1323"),
}


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
