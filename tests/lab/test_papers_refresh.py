"""Experiments of the automata-and-packing report: printed numbers, agreement rules and verdicts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse_lab.catalogue import Result, Sample, Verdict, select_experiments
from fieldmouse_lab.papers.polling import measures, packing, policies, tests
from fieldmouse_lab.papers.polling import printed as refresh_printed
from fieldmouse_lab.papers.polling import zipf as refresh_zipf
from fieldmouse_lab.papers.polling.games import free_law, play_test
from fieldmouse_lab.papers.polling.printed import (
    ExactLaw,
    compare_deterministic,
    compare_initial_state,
    compare_with_law,
    normal_interval_width,
)
from fieldmouse_lab.refresh.automaton_law import FreeAutomatonLaw
from fieldmouse_lab.refresh.contest import CONDITIONS, CONTEST_POLICIES, domain_pages, zipf_pages
from fieldmouse_lab.refresh.two_phase import PollReading, Scheme, play_scheme

WRONG = [PollReading.THIS_SLOT, PollReading.HALF]
SEEDS = 3


def quietly(done: float, doing: str) -> None:
    pass


def verdicts(result: Result) -> Counter[Verdict]:
    return Counter(row.verdict for row in result.rows)


# -- as printed


def test_the_table_of_sites_has_the_sizes_of_the_population() -> None:
    assert [site.pages for site in refresh_printed.sites()] == domain_pages().sizes


def test_weights_of_automata_are_multiples_of_their_step() -> None:
    for site in refresh_printed.sites():
        assert (float(site.first) * 8).is_integer()
        assert (float(site.second) * 16).is_integer()


def test_printed_totals_contradict_each_other_in_test_1_and_agree_in_test_2() -> None:
    first = sum(float(site.first) for site in refresh_printed.sites())
    second = sum(float(site.second) for site in refresh_printed.sites())
    assert first == 1323.0
    assert {float(text) for text in refresh_printed.TEST_1_TOTALS.values()} == {1323.625, 1321.0}
    assert second == float(refresh_printed.TEST_2_TOTAL) == sum(map(float, refresh_printed.TEST_2))


def test_every_listed_misprint_is_a_compared_number() -> None:
    labels = {row.label for row in tests.optimum(quietly).rows}
    labels |= {row.label for row in tests.first_test(quietly, seeds=2, longest=500).rows}
    assert set(refresh_printed.MISPRINTS) <= labels


# -- when a number is ours


@given(st.floats(-20, 20), st.floats(0.1, 5))
def test_a_printed_number_is_compared_with_the_law_if_ours_agrees_with_it(off: float, spread: float) -> None:
    twin = ExactLaw(100.0, spread)
    printed = f"{100 + off * spread:.9f}"
    right = compare_with_law("a", printed, Sample(100.0, spread, 10), twin).verdict
    assert right is (Verdict.SAME if abs(off) <= normal_interval_width() else Verdict.OUTLIER)
    wrong = compare_with_law("a", printed, Sample(100 + 1.1 * spread, spread, 10), twin).verdict
    assert wrong is Verdict.DIFFERENT


def test_polls_taken_by_full_nodes_allow_a_lower_mean_but_not_a_higher_one() -> None:
    twin = ExactLaw(100.0, 1.0, taken=20.0)
    assert [twin.agrees(Sample(mean, 1.0, 5)) for mean in (78.0, 79.5, 100.5, 102.0)] == [False, True, True, False]


def test_a_misprint_accepts_only_the_corrected_number() -> None:
    assert compare_deterministic("optimal bin 1", "399.01", 399.1).verdict is Verdict.MISPRINT
    assert compare_deterministic("optimal bin 1", "399.01", 399.01).verdict is Verdict.DIFFERENT
    assert compare_deterministic("optimal bin 0", "399.2", 399.1).verdict is Verdict.DIFFERENT


def test_the_initial_state_is_a_misprint_only_if_the_automata_have_left_it() -> None:
    law = ExactLaw(195.0, 2.0)
    left, stayed = Sample(194.0, 2.0, 5), Sample(108.625, 0.0, 5)
    assert compare_initial_state("a", "108.625", 108.625, left, left, law).verdict is Verdict.MISPRINT
    assert compare_initial_state("a", "108.625", 108.625, stayed, stayed, law).verdict is Verdict.DIFFERENT
    assert compare_initial_state("a", "108.625", 100.0, left, left, law).verdict is Verdict.DIFFERENT


# -- the scheme and its law


@pytest.mark.parametrize("test", ["first", "second"])
def test_totals_of_the_scheme_are_within_the_spread_of_the_free_automatons_law(test: str) -> None:
    played = play_test(test, PollReading.SINCE_POLL, SEEDS, 600)  # type: ignore[arg-type]
    settled = played.sample(lambda course: float(course.weight[400:].mean()))
    steady = free_law(test).slot_law(free_law(test).steady())  # type: ignore[arg-type]
    assert abs(settled.mean - steady.weight) < steady.spread


@pytest.mark.parametrize("reading", WRONG)
@pytest.mark.parametrize("test", ["first", "second"])
def test_totals_of_a_wrong_automaton_are_outside_the_spread_of_the_law(test: str, reading: PollReading) -> None:
    played = play_test(test, reading, 2, 300)  # type: ignore[arg-type]
    settled = played.sample(lambda course: float(course.weight[250:].mean()))
    steady = free_law(test).slot_law(free_law(test).steady())  # type: ignore[arg-type]
    assert abs(settled.mean - steady.weight) > 4 * steady.spread


def test_the_alternative_reading_rests_at_p() -> None:
    pages = replace(domain_pages(), p=np.full(5028, 0.3))
    for reading, rest in {PollReading.SINCE_POLL: 0.3 / 0.7, PollReading.HALF: 0.3}.items():
        course = play_scheme(Scheme(pages, 64, 1000, 0, reading=reading), 1)
        assert course.weight[-300:].mean() / 5028 == pytest.approx(rest, abs=0.02)


def test_a_game_without_limits_takes_no_polls_and_moves_no_sites() -> None:
    free = play_scheme(Scheme(zipf_pages(), 16, 300, 0), 1, [300])
    assert (free.taken, free.moves, free.moments[300].used) == (0.0, 0, 1)
    exact = FreeAutomatonLaw.of(zipf_pages().p, 16)
    spell = exact.slot_law(exact.after(300))
    assert abs(free.weight[-1] - spell.weight) < 4 * spell.spread


def test_the_totals_of_a_game_course_are_consistent() -> None:
    pages = zipf_pages()
    course = play_scheme(Scheme(pages, 16, 400, pages.capacity), 1, [0, 200, 400])
    assert course.moments[0].total == 1738 / 16
    for slot in (200, 400):
        moment = course.moments[slot]
        assert moment.total == pytest.approx(course.weight[slot - 1])
        assert sum(moment.bins) == pytest.approx(moment.total)
        assert moment.used == course.bins[slot - 1]
        assert max(moment.bins) <= pages.capacity + 3  # a node is mended in the slot after it overflowed
    assert (course.updates <= course.polls).all()
    assert course.moves > 0
    assert course.taken > 0


# -- verdicts, and what turns them


def test_numbers_from_the_probabilities_agree_except_for_misprints() -> None:
    found = verdicts(tests.optimum(quietly))
    assert found[Verdict.DIFFERENT] == found[Verdict.OUTLIER] == 0
    assert found[Verdict.MISPRINT] == 6


@pytest.mark.parametrize("reading", PollReading)
def test_wrong_automata_change_the_verdicts_of_test_1(reading: PollReading) -> None:
    found = verdicts(tests.first_test(quietly, reading, SEEDS, 500))
    assert (found[Verdict.DIFFERENT] > 0) == (reading in WRONG)
    assert (found[Verdict.DIFFERENT] > found[Verdict.SAME] + found[Verdict.OUTLIER]) == (reading in WRONG)


@pytest.mark.parametrize("reading", PollReading)
def test_wrong_automata_change_the_verdicts_of_the_zipf_and_dynamic_tests(reading: PollReading) -> None:
    results = (
        refresh_zipf.zipf_test(quietly, reading, SEEDS),
        refresh_zipf.dynamic_test(quietly, reading, SEEDS, longest=2500),
    )
    for found in map(verdicts, results):
        assert (found[Verdict.DIFFERENT] > 0) == (reading in WRONG)
        assert (found[Verdict.MISPRINT] > 0) == (reading not in WRONG)


def test_a_normalised_zipf_law_changes_the_verdicts() -> None:
    pages = zipf_pages()
    right = {row.verdict for row in refresh_zipf.zipf_optimum(pages)}
    normalised = replace(pages, p=pages.p / pages.by_site(pages.p)[pages.sites])
    wrong = {row.verdict for row in refresh_zipf.zipf_optimum(normalised)}
    assert right == {Verdict.SAME}
    assert wrong == {Verdict.DIFFERENT}


def test_figures_show_the_scheme_beside_its_law() -> None:
    (figure,) = tests.first_test(quietly, seeds=2, longest=500).figures
    bins, totals = figure.panels
    assert len(bins.series) >= 4
    scheme, exact = totals.series
    assert np.abs(np.array(scheme.y) - np.array(exact.y))[-5:].max() < 60
    assert scheme.y[0] == exact.y[0] == 5028 / 8


def test_r_tends_to_one_half() -> None:
    rows = {row.label: row.ours for row in measures._more_states(5028)}
    assert 0.499 < (rows["R, N = 32"] or 0) < (rows["R, N = 64"] or 0) < (rows["R, N = 128"] or 0) < 0.5


# -- packing again


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 100))
def test_few_moves_needs_fewer_moves_than_repacking_and_few_more_nodes(seed: int) -> None:
    anew = packing.repack_drifting_weights(packing.repack_all, 60, 30, seed)
    few = packing.repack_drifting_weights(packing.repack_few_moves, 60, 30, seed)
    assert few.sites < anew.sites / 3
    assert few.nodes <= 1.15 * anew.nodes + 1


def test_the_experiments_are_in_the_catalogue() -> None:
    ids = {experiment.id for experiment in select_experiments("refresh")}
    assert {"refresh-test-1", "refresh-test-2", "refresh-weights", "refresh-zipf", "refresh-dynamic"} <= ids


# -- all policies


def test_every_policy_is_compared_with_the_optimum_for_every_kind_of_change() -> None:
    result = policies.compare_policies("zipf", quietly, (1,), 60)
    rows = {row.label: row.ours or 0.0 for row in result.rows}
    assert len(rows) == len(CONTEST_POLICIES) * len(CONDITIONS) * (len(policies.MEASURES) + 1)
    for policy, spacing in CONTEST_POLICIES:
        for weather in CONDITIONS:
            mine = {name: rows[f"{policy} ({spacing}), {weather}, {name}"] for name in policies.MEASURES}
            best = rows[f"optimal (even), {weather}, freshness"]
            assert best - mine["freshness"] == rows[f"{policy} ({spacing}), {weather}, below optimal"]
            assert 0 < mine["freshness"] < 1
            assert 0 < mine["R"] <= 1
    (figure,) = result.figures
    assert [panel.title for panel in figure.panels] == list(CONDITIONS)
    assert {len(panel.series) for panel in figure.panels} == {len(CONTEST_POLICIES)}
