"""`lab refresh` at the command line: what programs read, and what people are told."""

from __future__ import annotations

import json

import pytest

from fieldmouse.cli.main import run_command

Said = pytest.CaptureFixture[str]


def asked(said: Said, words: str) -> dict[str, float]:
    assert run_command(["lab", "refresh", *words.split(), "--json"]) == 0
    return dict(json.loads(said.readouterr().out))


@pytest.mark.parametrize("policy", ["automaton", "uniform", "proportional", "learned", "optimal"])
@pytest.mark.parametrize("budget", ["natural", "tight", "250"])
def test_programs_get_every_field_for_every_policy_and_budget(policy: str, budget: str, capsys: Said) -> None:
    found = asked(capsys, f"--population zipf --slots 100 --policy {policy} --budget {budget} --seed 3")
    for field in ("freshness", "useful_ratio", "updates_per_slot"):
        assert 0 < found[field] < 1
    polls = {"natural": 195.4, "tight": 1.1 * 1738 / 16, "250": 250.0}[budget]
    assert found["total_weight"] <= polls * 1.05
    assert found["bins"] >= 1
    assert found["seconds"] > 0


def test_the_same_seed_plays_the_same_game_and_spacing_matters(capsys: Said) -> None:
    words = "--population zipf --slots 200 --policy uniform --seed 4"
    first, again = asked(capsys, words), asked(capsys, words)
    assert first["freshness"] == again["freshness"]
    assert asked(capsys, f"{words} --spacing random")["freshness"] < first["freshness"] - 0.03
    assert asked(capsys, f"{words} --switch-every 20")["freshness"] != first["freshness"]


@pytest.mark.parametrize("words", ["--budget many", "--budget -3", "--slots 0", "--states 1", "--seed -1"])
def test_what_cannot_be_played_is_told(words: str, capsys: Said) -> None:
    assert run_command(["lab", "refresh", *words.split()]) == 2
    assert capsys.readouterr().err.startswith("error: ")
