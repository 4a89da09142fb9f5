"""Printed tables of the BUbiNG thesis, and the rules of agreement."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse_lab.catalogue import Sample, Verdict
from fieldmouse_lab.papers.bubing.printed import (
    CELL_NOTES,
    FALSE_ALARMS,
    GAMMAS,
    SIMULATED_CELLS,
    compare_approximate,
    compare_exact,
    compare_simulated,
    interval_width,
    last_digit_unit,
    printed_tables,
)

SIMULATED = ("8.1", "8.2", "8.4", "8.5", "8.6", "8.7", "8.8", "8.9", "8.10")
COUNTS = ("7.1", "8.1", "8.4", "8.5", "8.6", "8.7", "8.8", "8.9", "8.10")
SHARES = ("7.2", "8.2", "8.3")

whole = st.integers(0, 5000)
spreads = st.floats(0.1, 100)


def lines(number: str, simulation: int = 1) -> dict[int, list[float]]:
    """A table's rows of one simulation, from left to right."""
    found: dict[int, list[float]] = {}
    for cell in printed_tables()[number].cells:
        if cell.simulation == simulation:
            found.setdefault(cell.row, []).append(float(cell.printed))
    return found


def test_all_twelve_tables_are_complete() -> None:
    shapes = {number: len(table.cells) for number, table in printed_tables().items()}
    assert shapes == {
        **dict.fromkeys(("7.1", "7.2", "8.1", "8.2", "8.3", "8.10"), 80),
        "8.4": 60,
        "8.5": 39,  # 4 columns of 10, and one game that was not played
        "8.6": 54,
        "8.7": 54,
        "8.8": 90,
        "8.9": 90,
    }


def test_the_prediction_interval_accounts_for_every_simulated_cell() -> None:
    assert sum(len(printed_tables()[number].cells) for number in SIMULATED) == SIMULATED_CELLS


@pytest.mark.parametrize("number", COUNTS)
def test_counts_are_whole_numbers_of_colours(number: str) -> None:
    for cell in printed_tables()[number].cells:
        assert cell.printed.isdigit(), cell
        assert int(cell.printed) <= 100_000


@pytest.mark.parametrize("number", SHARES)
def test_shares_lie_between_0_and_1_and_grow_with_gamma(number: str) -> None:
    for row in lines(number).values():
        assert all(0 <= share < 1 for share in row)
        assert row == sorted(row)


@pytest.mark.parametrize("number", ["7.1", "7.2"])
def test_a_larger_beta_never_names_fewer_elephants(number: str) -> None:
    for (low, fewer), (high, more) in pairwise(lines(number).items()):
        assert low < high
        assert all(a <= b for a, b in zip(fewer, more, strict=True))


@pytest.mark.parametrize("number", ["8.8", "8.9"])
def test_the_number_of_elephants_never_falls_during_a_game(number: str) -> None:
    for row in lines(number).values():
        assert row == sorted(row)


def test_the_largest_hosts_have_at_least_the_share_of_the_detected_elephants() -> None:
    bound = lines("8.3")
    for delta, row in lines("8.2").items():
        assert all(share <= most for share, most in zip(row, bound[delta], strict=True))


def test_table_8_6_starts_with_the_games_of_table_8_5() -> None:
    for cell in printed_tables()["8.6"].cells:
        if cell.column == 200_000 and cell.simulation == 1:
            assert cell.printed == printed_tables()["8.5"].cell(cell.row, 0.9).printed


def test_remarks_refer_to_existing_cells() -> None:
    for number, label in CELL_NOTES:
        assert label in {cell.label for cell in printed_tables()[number].cells}


def test_tables_by_gamma_have_the_gammas_of_the_thesis() -> None:
    assert all(printed_tables()[number].columns == GAMMAS for number in (*SHARES, "7.1", "8.1"))


@given(st.decimals(-1000, 1000, places=4, allow_nan=False), st.floats(-0.499, 0.499))
def test_rounding_to_the_printed_digits_is_the_same(value: object, off: float) -> None:
    printed = str(value)
    row = compare_exact("a", printed, float(printed) + off * last_digit_unit(printed))
    assert (row.verdict, row.note) == (Verdict.SAME, "")


@given(whole, st.floats(0.51, 0.99))
def test_a_truncated_number_is_the_same_and_the_row_says_so(value: int, more: float) -> None:
    row = compare_exact("a", str(value), value + more)
    assert row.verdict is Verdict.SAME
    assert "cut off" in row.note


@given(whole, st.floats(1.01, 1e6), st.sampled_from([-1, 1]))
def test_more_than_one_digit_off_is_different(value: int, off: float, side: int) -> None:
    assert compare_exact("a", str(value), value + side * off).verdict is Verdict.DIFFERENT


@settings(deadline=None)  # the first example waits for scipy
@given(whole, whole, spreads, st.integers(2, 50))
def test_moving_closer_never_makes_a_number_different(value: int, mean: int, spread: float, games: int) -> None:
    far = compare_simulated("a", str(value), Sample(mean, spread, games)).verdict
    near = compare_simulated("a", str(value), Sample((mean + value) / 2, spread, games)).verdict
    assert not (far is Verdict.SAME and near is Verdict.DIFFERENT)


@settings(deadline=None)
@given(whole, whole, spreads, st.integers(3, 50))
def test_the_verdict_is_symmetric(value: int, off: int, spread: float, games: int) -> None:
    above = compare_simulated("a", str(value + off), Sample(value, spread, games)).verdict
    below = compare_simulated("a", str(value), Sample(value + off, spread, games)).verdict
    assert above is below


@settings(deadline=None)
@given(st.integers(2, 60))
def test_more_games_narrow_the_prediction_interval(games: int) -> None:
    assert interval_width(games + 1) < interval_width(games)


def test_a_true_reproduction_is_rarely_called_different() -> None:
    rng = np.random.default_rng(3)
    games, rounds = 20, 400
    ours = rng.normal(100, 7, (rounds, SIMULATED_CELLS, games))
    printed = rng.normal(100, 7, (rounds, SIMULATED_CELLS))
    one_more = ours.std(axis=2, ddof=1) * math.sqrt(1 + 1 / games)
    alarms = (np.abs(printed - ours.mean(axis=2)) > interval_width(games) * one_more).any(axis=1)
    assert alarms.mean() < FALSE_ALARMS + 3 * math.sqrt(FALSE_ALARMS / rounds)
    assert alarms.any()  # nor is the rule so lax that nothing could ever fail it


def test_a_cell_from_another_game_is_called_different() -> None:
    ours = Sample.of([237.0 + step for step in range(-9, 11)])
    assert compare_simulated("a", "237", ours).verdict is Verdict.SAME
    assert compare_simulated("a", "329", ours).verdict is Verdict.DIFFERENT


@given(st.floats(1, 1e6), st.floats(-0.099, 0.099))
def test_about_accepts_10_percent(value: float, off: float) -> None:
    assert compare_approximate("a", value, value * (1 + off)).verdict is Verdict.SAME
    assert compare_approximate("a", value, value * (1.11 + off**2)).verdict is Verdict.DIFFERENT
