"""Experiments of the BUbiNG thesis: all deterministic numbers, and a few simulated cells."""

from __future__ import annotations

from itertools import chain

import pytest

from fieldmouse_lab.catalogue import Result, Row, Sample, Verdict
from fieldmouse_lab.catalogue import experiments as all_experiments
from fieldmouse_lab.papers.bubing import beyond, figures, games, text_numbers
from fieldmouse_lab.papers.bubing import tables as urn_tables
from fieldmouse_lab.papers.bubing.printed import PLACES, UrnCell, compare_simulated, printed_tables
from fieldmouse_lab.urn import exact
from fieldmouse_lab.urn.game import Game
from fieldmouse_lab.urn.play import play_many
from fieldmouse_lab.urn.sources import normal, power
from fieldmouse_lab.urn.strategies import strategy


def quietly(share: float, doing: str) -> None:
    assert 0 <= share <= 1
    assert doing


def differing(rows: tuple[Row, ...] | list[Row]) -> list[str]:
    return [row.label for row in rows if row.verdict is not Verdict.SAME]


def figure_ids() -> set[str]:
    last = {5: 21, 7: 9, 8: 4}
    return {f"thesis-figure-{chapter}.{n}" for chapter, most in last.items() for n in range(1, most + 1)}


def test_every_table_and_figure_and_the_prose_can_be_run() -> None:
    known = {experiment.id for experiment in all_experiments().values() if experiment.group == "urn"}
    assert known == figure_ids() | {f"thesis-table-{number}" for number in printed_tables()} | {"thesis-prose"}


@pytest.mark.parametrize("number", urn_tables.EXACT)
def test_deterministic_tables_agree_to_the_last_digit(number: str) -> None:
    result = urn_tables.RUNS[number](quietly)
    assert len(result.rows) == 80
    assert differing(result.rows) == []


def test_a_deterministic_table_does_not_agree_with_another_law() -> None:
    shares = printed_tables()["7.2"]
    other = power(99_000, 0.9).p
    rows = [
        urn_tables.compare_exact(cell.label, cell.printed, float(other[other >= 1 / (cell.row * PLACES)].sum()))
        for cell in shares.cells
        if cell.column == 0.9
    ]
    assert len(differing(rows)) == 10


def test_deterministic_numbers_in_the_text_agree_to_the_last_digit() -> None:
    sections = (
        text_numbers.introduction,
        text_numbers.initial_phase,
        text_numbers.homogeneous,
        text_numbers.normal_colours,
        text_numbers.poisson_colours,
        text_numbers.power_colours,
    )
    rows = list(chain.from_iterable(section() for section in sections))
    assert len(rows) == 13
    assert differing(rows) == []


CHEAP = (("8.5", 5, 0.9), ("8.5", 10, 1.1), ("8.1", 5, 0.9), ("8.1", 10, 0.7))
GAMES = 10


def games_of(number: str, delta: int, gamma: float, trigger: str) -> tuple[UrnCell, Sample]:
    name = "alg12" if number == "8.5" else "alg11"
    game = Game(power(100_000, gamma), PLACES, 200_000, strategy(name, delta=delta, trigger=trigger))
    outcomes = play_many([game], range(100, 100 + GAMES))[0]
    return printed_tables()[number].cell(delta, gamma), Sample.of([float(one.elephants[-1]) for one in outcomes])


@pytest.mark.parametrize(("number", "delta", "gamma"), CHEAP)
def test_a_simulated_cell_lies_in_the_prediction_interval(number: str, delta: int, gamma: float) -> None:
    cell, ours = games_of(number, delta, gamma, "exceeds")
    assert compare_simulated(cell.label, cell.printed, ours, number).verdict is Verdict.SAME
    assert abs(float(cell.printed) - ours.mean) < 4 * ours.prediction_spread


def test_the_printed_algorithm_12_does_not_give_the_printed_table() -> None:
    cell, ours = games_of("8.5", 5, 0.9, "reaches")
    assert compare_simulated(cell.label, cell.printed, ours, "8.5").verdict is Verdict.DIFFERENT


def test_games_are_played_once_and_keep_the_measures_of_the_tables() -> None:
    played = games.play_elephants(0.9, 5, "one", 100_000, seeds=3)
    assert games.play_elephants(0.9, 5, "one", 100_000, seeds=3) is played
    assert list(played.elephants) == [50_000, 100_000]
    assert played.elephants[50_000].mean < played.elephants[100_000].mean
    assert played.course.t[-1] == 100_000
    assert played.course.distinct.max() <= PLACES
    largest = float(games.power_law(0.9).p[: round(played.elephants[100_000].mean)].sum())
    assert 0 < played.share.mean < largest * 1.02


def test_a_normal_law_near_the_edge_has_a_super_colour() -> None:
    """Section 5.3: few colours are left when the mean is one deviation, and P_new is large all the same."""
    edge, inside = normal(100_000, 100, 100), normal(100_000, 300, 100)
    assert edge.p[0] > 0.1 > 10 * edge.p[1:].max()
    assert (
        exact.stationary_means(edge.p, PLACES).per_step < 10 < 200 < exact.stationary_means(inside.p, PLACES).per_step
    )


def curves(result: Result) -> list[tuple[str, str, list[float], list[float]]]:
    return [
        (panel.y_label, series.label, list(series.x), list(series.y))
        for figure in result.figures
        for panel in figure.panels
        for series in panel.series
    ]


def test_a_figure_of_chapter_5_starts_empty_and_follows_the_lemma_while_filling() -> None:
    sheet = next(sheet for sheet in figures.FIGURE_SPECS if sheet.number == "5.4")
    drawn = curves(figures.draw_figure(sheet, quietly))
    lines = {(y, label): (xs, ys) for y, label, xs, ys in drawn if label}
    assert len(lines) == 2 * len(sheet.cases)
    for case in sheet.cases:
        xs, ys = lines[figures.DISTINCT, case.label]
        assert 0 < xs[0] < case.places < xs[-1]
        full = ys[xs.index(case.places)]
        assert full == pytest.approx(exact.initial_colours(case.source().p, case.places), rel=0.1)


def test_the_greedy_figure_ends_where_nearly_everything_is_offline() -> None:
    chosen = strategy("alg4")
    result = figures.draw_by_colours("7.2", "greedy", chosen, 20_000, 0, 0.99, quietly)
    ended = [ys[-1] for y, _, _, ys in curves(result) if y == figures.P_OFFLINE]
    assert len(ended) == 3
    assert all(0.99 < share < 1 for share in ended)


def test_every_policy_of_the_crawler_gets_every_measure() -> None:
    policies = {name: beyond.compared_strategies()[name] for name in ("index", "neutral", "alg12 with T*")}
    found = list(beyond.scores(policies, (0.9,), 20_000, quietly))
    assert len(found) == 3 * 2 * len(beyond.MEASURES)
    means = {(score.policy, score.source, score.measure): score.ours.mean for score in found}
    for source in beyond.SOURCES:
        assert means["index", source, "distinct / K"] > 0.999
        assert means["neutral", source, "draws per step"] == 1
        assert means["neutral", source, "backlog growth per step"] == 0
        for policy in policies:  # what is drawn and not used waits
            growth, appends, reads = (
                means[policy, source, measure]
                for measure in ("backlog growth per step", "appends per step", "reads per step")
            )
            assert growth == pytest.approx(appends - reads)
            assert growth == pytest.approx(means[policy, source, "draws per step"] - 1)
    assert {"index", "neutral", "greedy", "mice-and-elephants"} <= set(beyond.compared_strategies())


def test_memory_grows_with_the_number_of_hosts() -> None:
    small, large = (beyond.measure_cost("index", 100, hosts, 1000) for hosts in (10_000, 100_000))
    assert small.distinct == large.distinct == 1
    assert 3 < large.megabytes / small.megabytes < 12
    assert small.microseconds > 0
