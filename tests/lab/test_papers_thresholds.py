"""Experiments of the threshold paper: every printed number agrees with ours or is a proved misprint."""

from __future__ import annotations

from functools import cache

import pytest

from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.model.model import cost_of
from fieldmouse.queueing.solve.solve import solve
from fieldmouse_lab.catalogue import Result, Row, Verdict
from fieldmouse_lab.papers.thresholds import figures, policy, tables
from fieldmouse_lab.papers.thresholds.printed import (
    COST,
    INRIA_COST,
    PrintedCell,
    compare,
    example_model,
    inria_model,
    misprints,
    table_cells,
    text_numbers,
)

BY_ID = {experiment.id: experiment for module in (tables, figures, policy) for experiment in module.EXPERIMENTS}
QUICK = [name for name in BY_ID if name != "thresholds-policy"]


@cache
def result(name: str) -> Result:
    told: list[tuple[float, str]] = []
    found = BY_ID[name].run(lambda done, what: told.append((done, what)))
    assert all(0 <= done <= 1 and what for done, what in told)
    return found


def row(name: str, label: str) -> Row:
    return next(one for one in result(name).rows if one.label == label)


@pytest.mark.parametrize("name", QUICK)
def test_no_printed_number_is_left_unexplained(name: str) -> None:
    for one in result(name).rows:
        assert one.verdict in (Verdict.SAME, Verdict.MISPRINT, Verdict.NEW), one
        assert (one.printed is None) == (one.verdict is Verdict.NEW), one


def test_every_cell_of_every_table_is_compared() -> None:
    for number, cells in (("1", 32), ("2", 84), ("3", 134), ("4", 176), ("5", 32)):
        rows = result(f"thresholds-table-{number}").rows
        assert [one.label for one in rows] == [cell.label for cell in table_cells(number)]
        assert len(rows) == cells
        assert [one.printed for one in rows] == [float(cell.printed) for cell in table_cells(number)]


def test_only_proved_misprints_are_listed() -> None:
    found = {
        (name.removeprefix("thresholds-table-"), one.label)
        for name in QUICK
        if "table" in name
        for one in result(name).rows
        if one.verdict is Verdict.MISPRINT
    }
    assert found == {
        ("1", "modes 431, cost"),
        ("2", "K 1, R"),
        ("2", "K 3, j*"),
        ("2", "K 6, j*"),
        ("2", "K 7, j*"),
        ("2", "K 8, C1"),
        ("2", "K 9, C1"),
        ("2", "K 10, C1"),
        ("3", "s 3, modes"),
        ("3", "s 15, C*"),
        ("4", "s 0.01, C*"),
        ("4", "s 30, C1"),
    }


def test_limits_of_inrias_crawler_are_all_as_printed_and_costs_within_a_third_of_a_percent() -> None:
    for one in result("thresholds-table-5").rows:
        assert one.verdict is Verdict.SAME
        assert one.printed is not None
        assert one.ours is not None
        if one.label.endswith("cost"):
            assert abs(one.ours / one.printed - 1) < 0.003
        else:
            assert one.ours == one.printed


def test_the_cost_beside_a_misprinted_limit_is_that_of_our_limit() -> None:
    """At K = 3, 6 and 7 the printed limit costs more than the printed cost."""
    for K, printed, ours in ((3, 2, 1), (6, 3, 2), (7, 3, 2)):
        costs = {j: cost_of(solve(example_model(K), Thresholds((3, 1), (j,))), COST) for j in (printed, ours)}
        cell = next(one for one in table_cells("2") if one.label == f"K {K}, C*")
        assert abs(costs[ours] - float(cell.printed)) < cell.unit
        assert costs[printed] > costs[ours]


def test_a_misprint_accepts_only_the_corrected_number() -> None:
    cell = next(one for one in table_cells("1") if one.label == "modes 431, cost")
    assert compare("1", cell, 67.52).verdict is Verdict.MISPRINT
    assert compare("1", cell, 70.0).verdict is Verdict.DIFFERENT
    assert compare("1", cell, 80.5).verdict is Verdict.DIFFERENT
    assert "67.52" in compare("1", cell, 67.52).note
    plain = PrintedCell("", "", "x", "1.25", 0.01)
    assert compare("1", plain, 1.2599).verdict is Verdict.SAME
    assert compare("1", plain, 1.2601).verdict is Verdict.DIFFERENT


def test_every_listed_misprint_names_an_existing_cell() -> None:
    for where in ("1", "2", "3", "4"):
        assert set(misprints(where)) <= {cell.label for cell in table_cells(where)}
    for where in ("scalars", "inria"):
        assert set(misprints(where)) <= {cell.label for cell in text_numbers(where)}


def test_inrias_best_rule_holds_on_the_ordered_chain_too() -> None:
    """Its lifetime is exponential with one phase: two chains, one answer."""
    one, other = (solve(inria_model(), Thresholds((4, 1), (2,)), method) for method in ("banded", "ordered"))
    assert cost_of(one, INRIA_COST) == pytest.approx(cost_of(other, INRIA_COST), rel=1e-10)


def test_figures_have_a_curve_for_each_line_of_the_paper() -> None:
    for number, lines in ((1, 6), (2, 5), (3, 5), (4, 5)):
        (figure,) = result(f"thresholds-figure-{number}").figures
        assert len(figure.panels[0].series) == lines
        assert all(len(series.x) == len(series.y) == 6 for series in figure.panels[0].series)
    # The optimum of table 1 is a point of figure 1.
    assert row("thresholds-figure-1", "modes 31, j 2").ours == pytest.approx(63.54, abs=0.01)


def test_the_first_curve_of_figure_4_is_the_exponential_one() -> None:
    """alpha1 = 0.2 is an exponential lifetime; the others go through the ordered chain."""
    for limit in range(6):
        exponential = row("thresholds-figure-1", f"modes 31, j {limit}").ours
        assert row("thresholds-figure-4", f"alpha1 0.2, j {limit}").ours == pytest.approx(exponential, rel=1e-10)
