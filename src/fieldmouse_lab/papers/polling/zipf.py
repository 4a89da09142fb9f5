"""Zipf test and dynamic test, whose printed results are the state before the first slot."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fieldmouse.policy.site_packing.bin_packing import best_fit_decreasing, bin_loads
from fieldmouse_lab.catalogue import Figure, Panel, Progress, Result, Row, Series, experiment, new_row
from fieldmouse_lab.papers.polling import printed as report
from fieldmouse_lab.papers.polling.games import SEEDS, PlayedTest, free_law, last_half, play_test, useful_ratio
from fieldmouse_lab.papers.polling.printed import SWITCHED_EVERY, ZIPF_BINS, ZIPF_RUNS, ZIPF_TOTAL
from fieldmouse_lab.refresh.contest import PageSet, zipf_pages
from fieldmouse_lab.refresh.two_phase import PollReading, Scheme, play_scheme

#: Slots of the dynamic test with real switches, four of them.
SWITCHING_SLOTS = 10_000

CAPTION = "One game of the Zipf population. The report shows the grey line at every moment it looked."


def zipf_optimum(pages: PageSet) -> Iterator[Row]:
    """Compute the optimal weights. They agree in the last digit, which confirms the law."""
    weights = pages.by_site(pages.p).tolist()
    found = bin_loads(weights, best_fit_decreasing(weights, report.ZIPF_CAPACITY))
    for number, printed in enumerate(report.ZIPF_OPTIMAL_BINS):
        yield report.compare_deterministic(
            f"optimal weight of bin {number}", printed, found[number] if number < len(found) else 0.0
        )
    order = "the last two printed digits, 75, depend on the order in which the sum is made"
    yield report.compare_deterministic(
        "optimal weight of all", report.ZIPF_OPTIMAL_TOTAL[:-2], math.fsum(pages.p), order
    )


def zipf_test(progress: Progress, reading: PollReading = PollReading.SINCE_POLL, seeds: int = SEEDS) -> Result:
    """1738 pages of 20 sites whose probabilities of change follow a Zipf law within each site."""
    progress(0.0, "playing")
    played = play_test("zipf", reading, seeds)
    rows = [*zipf_optimum(zipf_pages()), *_start(played), *_unmoved(played, ZIPF_RUNS)]
    rows.append(new_row(f"bins in use, runs {ZIPF_RUNS}", played.at(ZIPF_RUNS, lambda moment: moment.used)))
    remarks = (
        "probabilities are k^-theta for the page of rank k in its site, not normalised: the first page of "
        "each site changes in every slot. Only so are the printed optimal weights those of the law, to the last digit",
        f"{ZIPF_TOTAL} is 1738/16: all 1738 automata in their first state, and the printed bins are Best "
        "Fit Decreasing of just that. No automaton had moved in the printed result",
    )
    return Result(tuple(rows), remarks=remarks)


def _start(played: PlayedTest) -> Iterator[Row]:
    start = played.courses[0].moments[0]
    for number, printed in enumerate(ZIPF_BINS):
        yield report.compare_deterministic(f"before the first slot, bin {number}", printed, start.bin(number))
    yield report.compare_deterministic("before the first slot, total", ZIPF_TOTAL, start.total)


def _unmoved(played: PlayedTest, runs: int) -> Iterator[Row]:
    start, total, twin = played.courses[0].moments[0], played.total(runs), played.total_law(runs)
    for number, printed in enumerate(ZIPF_BINS):
        ours = played.bin(runs, number)
        yield report.compare_initial_state(f"runs {runs}, bin {number}", printed, start.bin(number), ours, total, twin)
    third = len(ZIPF_BINS)
    yield new_row(f"runs {runs}, bin {third}", played.bin(runs, third))
    yield report.compare_initial_state(f"total, runs {runs}", ZIPF_TOTAL, start.total, total, total, twin)


def dynamic_test(
    progress: Progress,
    reading: PollReading = PollReading.SINCE_POLL,
    seeds: int = SEEDS,
    longest: int = SWITCHING_SLOTS,
) -> Result:
    """As printed, which is before the first switch, and with four switches."""
    progress(0.0, "playing")
    played = play_test("dynamic", reading, seeds)
    rows = [row for runs in report.DYNAMIC_RUNS for row in _unmoved(played, runs)]
    progress(0.5, "switching")
    pages = zipf_pages()
    scheme = Scheme(pages, 16, longest, pages.capacity, switch_every=SWITCHED_EVERY, reading=reading)
    course = play_scheme(scheme, 1)
    steady = free_law("zipf").slot_law(free_law("zipf").steady())
    label, law = f"switched every {SWITCHED_EVERY} slots", "exact law without switches"
    weight = float(last_half(course.weight).mean())
    rows += [
        new_row(f"{label}, total over the last half", weight, f"{law} {steady.weight:.1f}"),
        new_row(f"{label}, R over the last half", useful_ratio(course), f"{law} {steady.useful:.3f}"),
        new_row(f"{label}, most bins in use", int(course.bins.max())),
    ]
    remarks = (
        f"probabilities were to be switched every {SWITCHED_EVERY} slots, and the test ends after "
        f"{report.DYNAMIC_RUNS[-1]}: nothing is "
        "ever switched in it, so its results say nothing of a changing world; switched on for longer, the total stays",
        "a page takes over its successor's probability: all ranks but the first hardly notice",
        "the same five results are five times the state before the first slot",
    )
    slots = [float(slot) for slot in range(0, longest, 10)]
    curves = (
        Series("the scheme", slots, course.weight[::10].tolist()),
        Series("exact law, without switches", [0.0, longest], [steady.weight] * 2, "dashes"),
        Series("", [0.0, longest], [float(ZIPF_TOTAL)] * 2, "dashes"),
    )
    panel = Panel("slot", "weight of all sites, polls a slot", curves)
    figure = Figure("refresh-dynamic", "The dynamic test, with its switches", (panel,), CAPTION)
    return Result(tuple(rows), (figure,), remarks)


EXPERIMENTS = (
    experiment("refresh-zipf", "The Zipf test: bins of 80 after 200 runs, N = 16", zipf_test),
    experiment("refresh-dynamic", "The dynamic test: the same, looked at every 200 runs", dynamic_test),
)
