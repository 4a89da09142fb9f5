"""Labels that share their form become a grid; no number is lost or moved by it."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from fieldmouse_lab import grid
from fieldmouse_lab.catalogue import Row, Verdict
from fieldmouse_lab.grid import Grid


def row(label: str) -> Row:
    return Row(label, None, 1.0, None, Verdict.NEW)


def rows_of(block: grid.Block) -> list[Row]:
    return list(block.cells.values()) if isinstance(block, Grid) else list(block)


words = st.sampled_from(["delta", "gamma", "one queue", "mean", "T"])
values = st.sampled_from(["", " 1", " 2", " 3", " 0.5", "=7"])
labels = st.lists(st.builds(str.__add__, words, values), min_size=1, max_size=4).map(", ".join)


@given(st.lists(labels, max_size=30))
def test_every_row_is_shown_once(labels: list[str]) -> None:
    rows = [Row(label, None, float(number), None, Verdict.NEW) for number, label in enumerate(labels)]
    shown = [one for block in grid.layout_rows(rows) for one in rows_of(block)]
    assert sorted(one.ours or 0.0 for one in shown) == [float(number) for number in range(len(rows))]


@given(st.lists(labels, max_size=30))
def test_a_cell_is_placed_by_its_label(labels: list[str]) -> None:
    for block in grid.layout_rows(map(row, labels)):
        if isinstance(block, Grid):
            for (down, across), cell in block.cells.items():
                said = [value for _, value in grid.parse_label(cell.label)]
                assert down in said
                assert all(value in said for value in across.split(", "))


def test_two_quantities_make_a_grid_as_printed() -> None:
    rows = [row(f"delta {delta}, gamma {gamma}") for delta in (10, 9, 8) for gamma in (0.7, 0.9)]
    (block,) = grid.layout_rows(rows)
    assert isinstance(block, Grid)
    assert (block.down, block.rows) == ("delta", ("10", "9", "8"))
    assert (block.across, block.columns) == ("gamma", ("0.7", "0.9"))
    assert block.cells["9", "0.7"] is rows[2]


def test_the_common_part_of_labels_is_shown_once() -> None:
    (block,) = grid.layout_rows([row(f"K 1000, delta {d}, gamma {g}") for d, g in product((1, 2), (3, 4))])
    assert isinstance(block, Grid)
    assert block.common == "K 1000"


def test_three_quantities_are_two_across() -> None:
    rows = [row(f"delta {d}, T {t}, simulation {s}") for d, t, s in product((5, 4), (100, 200), (1, 2))]
    (block,) = grid.layout_rows(rows)
    assert isinstance(block, Grid)
    assert block.across == "T, simulation"
    assert block.columns == ("100, 1", "100, 2", "200, 1", "200, 2")


def test_a_grid_too_wide_to_read_becomes_several() -> None:
    policies, gammas, measures = ("index", "greedy"), range(8), ("distinct", "draws", "backlog")
    rows = [row(f"{p}, gamma {g}, {m}") for p, g, m in product(policies, gammas, measures)]
    found = grid.layout_rows(rows)
    assert len(found) > 1
    assert all(isinstance(block, Grid) and len(block.columns) <= grid.WIDEST for block in found)


def test_a_grid_may_have_a_few_empty_cells_but_not_many() -> None:
    places = list(product((1, 2, 3), (4, 5, 6)))
    (one_hole,) = grid.layout_rows([row(f"delta {d}, gamma {g}") for d, g in places[:-1]])
    assert isinstance(one_hole, Grid)
    (diagonal,) = grid.layout_rows([row(f"delta {d}, gamma {d + 3}") for d, _ in places[::3]])
    assert isinstance(diagonal, tuple)


def test_rows_around_a_grid_stay_where_they_were() -> None:
    inside = [row(f"delta {d}, gamma {g}") for d, g in product((1, 2), (3, 4))]
    first, second, third = grid.layout_rows([row("before"), row("and before"), *inside, row("after")])
    assert [one.label for one in rows_of(first)] == ["before", "and before"]
    assert isinstance(second, Grid)
    assert [one.label for one in rows_of(third)] == ["after"]


def test_two_numbers_for_one_place_are_no_grid() -> None:
    twice = [row(f"delta {d}, gamma {g}") for d, g in [*product((1, 2), (3, 4)), (1, 3)]]
    (block,) = grid.layout_rows(twice)
    assert isinstance(block, tuple)
    assert len(block) == 5
