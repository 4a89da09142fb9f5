"""`lab urn` and `lab exact` on the command line: JSON and text output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.cli.main import run_command
from fieldmouse_lab.urn import exact
from fieldmouse_lab.urn.game import Game
from fieldmouse_lab.urn.play import play
from fieldmouse_lab.urn.sources import power
from fieldmouse_lab.urn.strategies import strategy, strategy_names

Said = pytest.CaptureFixture[str]

SMALL = ("--hosts", "500", "--capacity", "40", "--steps", "2000")


def told(said: Said, *words: str, expect: int = 0) -> Any:
    assert run_command(["lab", *words, "--json"]) == expect
    heard = said.readouterr()
    assert not heard.err
    return json.loads(heard.out)


def test_the_printed_numbers_are_those_of_the_game(capsys: Said) -> None:
    found = told(
        capsys,
        "urn",
        "--source",
        "power",
        "--gamma",
        "1.1",
        *SMALL,
        "--strategy",
        "alg12",
        "--delta",
        "2",
        "--trigger",
        "reaches",
        "--stop-search",
        "900",
        "--queues",
        "per-host",
        "--seed",
        "3",
    )
    chosen = strategy("alg12", delta=2, trigger="reaches", stop_search=900, queues="per-host")
    outcome = play(Game(power(500, 1.1), 40, 2000, chosen), 3)
    assert found["distinct_mean"] == outcome.distinct_mean
    assert found["distinct_fraction"] == pytest.approx(outcome.distinct_mean / 40)
    assert found["elephants"] == outcome.elephants[-1]
    assert found["backlog"] == outcome.backlog[-1]
    for count, totals in (
        ("draws_per_step", outcome.draws),
        ("appends_per_step", outcome.appends),
        ("reads_per_step", outcome.reads),
    ):
        assert found[count] == pytest.approx((totals[-1] - totals[outcome.index_of(0)]) / 2000)
    brought_along = outcome.backlog[outcome.index_of(0)]
    kept = 2000 * (found["appends_per_step"] - found["reads_per_step"])
    assert found["backlog"] == pytest.approx(brought_along + kept)
    assert found["seconds"] >= 0


@pytest.mark.parametrize("name", strategy_names())
def test_every_strategy_can_be_named(capsys: Said, name: str) -> None:
    """Also with an option it has no use for, and whether or not it can go on for ever."""
    found = told(capsys, "urn", *SMALL, "--strategy", name, "--delta", "3", "--gamma", "0.5")
    assert 0 < found["distinct_fraction"] <= 1
    assert found["strategy"] == name


def test_queues_default_to_those_of_the_algorithm(capsys: Said) -> None:
    def game(name: str, *words: str) -> Any:
        found = told(capsys, "urn", *SMALL, "--gamma", "1.2", "--strategy", name, "--delta", "2", *words)
        del found["seconds"], found["strategy"]
        return found

    assert game("alg11") == game("alg12", "--queues", "per-host")
    assert game("alg12") == game("alg11", "--queues", "one")
    assert game("alg11") != game("alg12")


def test_changing_and_finite_sources_can_be_chosen(capsys: Said) -> None:
    words = ("urn", "--gamma", "1.2", *SMALL, "--strategy", "none")
    assert told(capsys, *words, "--permute-every", "100") != told(capsys, *words)
    ended = told(capsys, *words, "--balls", "300")
    assert ended["steps"] == 300
    assert ended["fewest_draws_per_step"] is None  # it is about sources that stay


@pytest.mark.parametrize("source", ["uniform", "exponential", "normal", "poisson", "power"])
def test_exact_values_are_printed_and_agree_with_the_game(capsys: Said, source: str) -> None:
    words = ("--source", source, "--hosts", "300", "--capacity", "20")
    found = told(capsys, "exact", *words)
    played = told(capsys, "urn", *words, "--steps", "200000", "--strategy", "none")
    assert played["distinct_mean"] == pytest.approx(found["stationary_mean_step"], rel=0.05)
    assert found["stationary_mean_time"] <= found["stationary_mean_step"]
    assert found["initial_mean"] <= 20


def test_printed_formulas_match_the_library(capsys: Said) -> None:
    found = told(capsys, "exact", "--source", "power", "--gamma", "0.9", "--hosts", "3000", "--capacity", "70")
    p = power(3000, 0.9).p
    means = exact.stationary_means(p, 70)
    assert found["initial_mean"] == exact.initial_colours(p, 70)
    assert (found["stationary_mean_time"], found["stationary_mean_step"]) == (means.per_time, means.per_step)
    assert told(capsys, "exact", "--hosts", "10", "--capacity", "50")["fewest_draws_per_step"] is None


def test_text_output_has_a_table_and_the_lower_bound(capsys: Said) -> None:
    assert run_command(["lab", "urn", *SMALL, "--strategy", "index"]) == 0
    heard = capsys.readouterr()
    assert "different hosts online" in heard.out
    assert "of 40" in heard.out
    assert "in the long run 40 different hosts need" in heard.out
    assert "2,000 steps in" in heard.err
    assert run_command(["lab", "exact", *SMALL[:4]]) == 0
    assert "over steps" in capsys.readouterr().out


def test_a_game_that_ends_early_says_why(capsys: Said) -> None:
    assert (
        run_command(["lab", "urn", "--hosts", "30", "--capacity", "20", "--steps", "5000", "--strategy", "alg4"]) == 0
    )
    assert "the game ended early: no draw could go online" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["urn", "--gamma", "-1"], "gamma -1"),
        (["urn", "--steps", "0"], "steps 0"),
        (["urn", "--capacity", "0"], "capacity 0"),
        (["urn", "--hosts", "0"], "0 hosts"),
        (["urn", "--seed", "-4"], "--seed -4"),
        (["urn", "--balls", "-1"], "-1 balls"),
        (["urn", "--strategy", "alg13"], "no strategy `alg13`"),
        (["urn", "--strategy", "alg12", "--delta", "0"], "delta 0"),
        (["urn", "--strategy", "alg9", "--set", "r=2"], "2 is none"),
        (["urn", "--set", "speed=9"], "no parameter `speed`"),
        (["urn", "--set", "draws"], "has no value"),
        (["urn", "--set", "draws=many"], "is no number"),
        (["urn", "--set", "draws=nan"], "cannot be nan"),
        (["urn", "--set", "burst=-3"], "cannot be -3"),
        (["urn", "--set", "depth=0"], "cannot be 0"),
        (["urn", "--strategy", "alg12", "--stop-search", "-1"], "-1 is not in the range"),
        (["urn", "--strategy", "mice-and-elephants", "--set", "adapted=perhaps"], "neither true nor false"),
        (["urn", "--source", "empirical"], "need each other"),
        (["urn", "--crawl", "atlas"], "need each other"),
        (["urn", "--source", "normal", "--deviation", "0"], "deviation of 0"),
        (["urn", "--balls", "50", "--permute-every", "5"], "hosts that end"),
        (["exact", "--capacity", "0"], "0 places"),
        (["exact", "--capacity", "200000"], "would take hours"),
        (["exact", "--source", "poisson", "--mean", "-1"], "no mean of -1"),
        (["exact", "--source", "poisson", "--mean", "nan"], "no mean of nan"),
        (["exact", "--source", "normal", "--mean", "-4"], "mean of -4"),
        (["exact", "--source", "normal", "--mean", "inf"], "mean of inf"),
        (["exact", "--source", "exponential", "--mean", "inf"], "mean of inf"),
    ],
)
def test_wrong_arguments_get_an_error_and_a_hint(capsys: Said, words: list[str], says: str) -> None:
    found = told(capsys, *words, expect=2)
    assert says in found["error"]
    assert found["hint"]


def test_a_directory_without_a_crawl_is_named(capsys: Said, tmp_path: Path) -> None:
    found = told(capsys, "urn", "--source", "empirical", "--crawl", str(tmp_path), expect=1)
    assert "holds no crawl" in found["error"]
