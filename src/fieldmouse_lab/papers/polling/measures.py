"""R and rate of updates (Figures 3 and 4), their exact law, and other interpretations of the text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fieldmouse_lab import catalogue
from fieldmouse_lab.catalogue import Figure, Panel, Progress, Result, Row, Sample, Series, Verdict, new_row
from fieldmouse_lab.papers.bubing.printed import compare_approximate
from fieldmouse_lab.papers.polling.games import SEEDS, Test, free_law, last_half, play_test, update_rate, useful_ratio
from fieldmouse_lab.papers.polling.printed import RATE_16, TEST_2_TOTAL, ExactLaw, new_row_with_law
from fieldmouse_lab.refresh.automaton_law import FreeAutomatonLaw, SlotLaw
from fieldmouse_lab.refresh.contest import domain_pages
from fieldmouse_lab.refresh.two_phase import PollReading

TESTS: tuple[Test, ...] = ("first", "second")

#: Largest accepted difference of R and the rate of updates from the exact law over thousands of slots.
LAW_TOLERANCE = 0.005

#: Slots of Figures 3 and 4, enough for the automata to be stationary.
FIGURE_SLOTS = 400


def _states(test: Test) -> int:
    return free_law(test).resolution


def _described(test: Test) -> str:
    return f"N = {_states(test)}"


def _steady(test: Test) -> SlotLaw:
    return free_law(test).slot_law(free_law(test).steady())


def r_and_update_rate(progress: Progress, reading: PollReading = PollReading.SINCE_POLL, seeds: int = SEEDS) -> Result:
    """The share of polls that find a change, and the updates found by page and slot, for 8 and 16 states."""
    rows: list[Row] = []
    pages = domain_pages().pages
    for test in catalogue.with_progress(TESTS, progress, _described):
        played, steady = play_test(test, reading, seeds), _steady(test)
        found, exact = played.sample(lambda c: update_rate(c, pages)), steady.updates / pages
        rows.append(_near(f"R, {_described(test)}", played.sample(useful_ratio), steady.useful))
        rows.append(_near(f"rate of updates, {_described(test)}", found, exact))
    rows.append(_around(found, exact))  # the last test is the one with 16 states
    rows += _more_states(pages)
    rows += _slots_until_stationary()
    remarks = (
        "the pictures of Figures 3 and 4 are lost; the text about them is right: 16 states have a higher "
        "R and find more updates than 8",
        "but R does not keep rising with N: it tends to 1/2, where automata come to rest, whatever N is; a high R is "
        "no freshness either, since polls that come late find a change more often",
        "the optimal rate of 0.2433 needs 5028 polls a slot, at f = 1; the document compares it with "
        "0.13 at about 1200",
    )
    return Result(tuple(rows), _figures(reading, seeds), remarks)


def _near(label: str, ours: Sample, exact: float) -> Row:
    verdict = Verdict.NEW if abs(ours.mean - exact) <= LAW_TOLERANCE else Verdict.DIFFERENT
    return Row(label, None, ours.mean, ours.spread, verdict, f"exact law {exact:.4f}")


def _around(ours: Sample, exact: float) -> Row:
    row = compare_approximate("rate of updates with 16 states, around", RATE_16, ours)
    if abs(ours.mean - exact) > LAW_TOLERANCE:
        return replace(row, verdict=Verdict.DIFFERENT, note=f"exact law {exact:.4f}")
    if row.verdict is Verdict.SAME:
        return row
    polls = _steady("second").polls
    note = f"exact law {exact:.4f}: the printed run polled less ({TEST_2_TOTAL} a slot, ours {polls:.0f})"
    return replace(row, verdict=Verdict.OUTLIER, note=note)


def _more_states(pages: int) -> list[Row]:
    rows = []
    for states in (32, 64, 128):
        chosen = FreeAutomatonLaw.of(domain_pages().p, states)
        steady = chosen.slot_law(chosen.steady())
        rows.append(new_row(f"R, N = {states}", steady.useful, "exact law"))
        rows.append(new_row(f"rate of updates, N = {states}", steady.updates / pages, "exact law"))
    return rows


def _slots_until_stationary() -> list[Row]:
    """Measure the slots until the totals are stationary."""
    rows = []
    statements = ("the document: stable after 5000 runs", "the document: 10000, almost twice as long")
    for test, statement in zip(TESTS, statements, strict=True):
        chosen = free_law(test)
        end = _steady(test).weight
        slots, chances = 0, chosen.initial()
        while abs(chosen.slot_law(chances).weight - end) > 0.01 * end:
            chances = np.einsum("pi,pij->pj", chances, chosen.transitions)
            slots += 1
        rows.append(new_row(f"slots until the total is within 1 % of its rest, {_described(test)}", slots, statement))
    return rows


def _figures(reading: PollReading, seeds: int) -> tuple[Figure, ...]:
    ratio: list[Series] = []
    found: list[Series] = []
    pages = domain_pages().pages
    slots = list(range(FIGURE_SLOTS))
    for test in TESTS:
        courses = play_test(test, reading, seeds).courses
        updates = np.mean([course.updates[:FIGURE_SLOTS] for course in courses], axis=0)
        polls = np.mean([course.polls[:FIGURE_SLOTS] for course in courses], axis=0)
        exact = [free_law(test).slot_law(free_law(test).after(slot)) for slot in slots]
        ratio += [
            Series(_described(test), slots, (updates / polls).tolist()),
            Series("", slots, [one.useful for one in exact], "dashes"),
        ]
        found += [
            Series(_described(test), slots, (updates / pages).tolist()),
            Series("", slots, [one.updates / pages for one in exact], "dashes"),
        ]
    at_p = Series("polls at f = p", [0.0, float(FIGURE_SLOTS)], [0.1406, 0.1406], "dashes")
    dashes = "The mean of all games; grey dashes are the exact law of free automata."
    third, fourth = Panel("slot", "R", tuple(ratio)), Panel("slot", "updates per page and slot", (*found, at_p))
    return (
        Figure("refresh-figure-3", "The share of polls that find a change (Figure 3)", (third,), dashes),
        Figure("refresh-figure-4", "Updates found in a slot, by page (Figure 4)", (fourth,), dashes),
    )


def exact_law(progress: Progress, reading: PollReading = PollReading.SINCE_POLL, seeds: int = SEEDS) -> Result:
    """Totals, their spread over time, and where an automaton comes to rest."""
    rows: list[Row] = []
    for test in catalogue.with_progress(TESTS, progress, _described):
        played, steady, label = play_test(test, reading, seeds), _steady(test), _described(test)
        rows.extend(
            new_row_with_law(f"total, {label}, slot {runs}", played.total(runs), played.total_law(runs))
            for runs in ((500, 1000, 5000) if test == "first" else (10_000,))
        )
        over = played.sample(lambda course: float(last_half(course.weight).mean()))
        law = ExactLaw(steady.weight, steady.spread)
        rows.append(new_row_with_law(f"total, {label}, mean of the last half", over, law))
        wide = played.sample(lambda course: float(last_half(course.weight).std()))
        rows.append(new_row(f"spread over time, {label}", wide, f"exact law {steady.spread:.2f}"))
    for p in (0.3, 0.25, 0.1, 0.05):
        for states in (8, 16, 256):
            alone = FreeAutomatonLaw(np.array([p]), np.array([1]), states)
            mean, _ = alone.weights(alone.steady())
            rows.append(new_row(f"frequency at rest, p {p}, N {states}", float(mean[0])))
        rows.append(new_row(f"frequency at rest, p {p}, p/(1-p) {p / (1 - p):.4f}", p / (1 - p)))
    remarks = (
        "the law is a chain of the automaton's state and its copy's staleness, solved; it ignores "
        "full nodes, which take little: pages that were lowered are back within some fifty slots",
        "an automaton rests where a poll finds a change as often as not: p/(p + f - pf) = 1/2, so f = "
        "p/(1-p), and not f = p; for p of a half and more it polls always",
    )
    return Result(tuple(rows), remarks=remarks)


def other_readings(progress: Progress) -> Result:
    """Automata that see only changes of the slot, or that rest at f = p."""
    rows: list[Row] = []
    for done, test in enumerate(TESTS):
        for reading in PollReading:
            progress((done + 0.3) / 2, f"N = {_states(test)}: {reading}")
            played = play_test(test, reading, 3, 1500)
            total = played.sample(lambda course: float(last_half(course.weight).mean()))
            bins = played.sample(lambda course: float(np.mean(course.bins[len(course.bins) // 2 :])))
            rows.append(new_row(f"{reading.value}, N {_states(test)}, total", total))
            rows.append(new_row(f"{reading.value}, N {_states(test)}, bins", bins))
    remarks = (
        "printed were 1323.875 in 4 bins (N = 8) and 1199.5 in 4 (N = 16)",
        "half the time: of the changes in the slot of a poll every other is overlooked; then automata rest "
        "at f = p, as the report assumes, and the totals are too small",
    )
    return Result(tuple(rows), remarks=remarks)


_GAMES = "refresh games"

EXPERIMENTS = (
    catalogue.experiment(
        "refresh-measures", "R and the rate of updates, with Figures 3 and 4", r_and_update_rate, shares=_GAMES
    ),
    catalogue.experiment(
        "refresh-law", "The scheme beside the exact law of the free automaton", exact_law, shares=_GAMES
    ),
    catalogue.experiment("refresh-readings", "Other readings of the text", other_readings),
)
