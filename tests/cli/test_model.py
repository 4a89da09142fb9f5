"""`fieldmouse model`: the contract of its JSON, and what it says of models that cannot be meant."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.cli.main import run_command

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
THRESHOLDS, INRIA = str(EXAMPLES / "thresholds.json"), str(EXAMPLES / "inria.json")
MEASURES = {"lambda", "P_loss", "P_obs", "P_success", "P_star", "N_act", "V1", "V2", "J", "method", "seconds"}

Said = pytest.CaptureFixture[str]


def told(words: list[str], capsys: Said) -> dict[str, Any]:
    assert run_command([*words, "--json"]) == 0
    said = capsys.readouterr()
    assert not said.err
    found: dict[str, Any] = json.loads(said.out)
    return found


def example(**changes: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(THRESHOLDS).read_text())
    return {key: value for key, value in (found | changes).items() if value is not None}


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def to_file(value: object) -> str:
        path = tmp_path / "model.json"
        path.write_text(json.dumps(value))
        return str(path)

    return to_file


def test_solve_tells_the_measures_of_the_paper(capsys: Said) -> None:
    found = told(["model", "solve", THRESHOLDS], capsys)
    assert set(found) == MEASURES
    assert found["J"] == pytest.approx(63.54, abs=0.01)  # Table 1
    assert found["P_loss"] + found["P_obs"] + found["P_success"] == pytest.approx(1, abs=1e-12)
    weights = example()["cost"]
    assert found["J"] == pytest.approx(
        found["lambda"] * (weights["loss"] * found["P_loss"] + weights["obs"] * found["P_obs"])
        + weights["sojourn"] * found["V1"]
        + weights["robots"] * found["N_act"]
        + weights["star"] * found["P_star"],
        rel=1e-14,
    )


def test_a_model_may_come_from_stdin(capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(Path(THRESHOLDS).read_bytes()))
    monkeypatch.setattr("sys.stdin", stdin)
    from_stdin = told(["model", "solve", "-"], capsys)
    from_file = told(["model", "solve", THRESHOLDS], capsys)
    assert {**from_stdin, "seconds": 0} == {**from_file, "seconds": 0}


def test_simulation_intervals_contain_exact_values(capsys: Said, write: Any) -> None:
    exact = told(["model", "solve", INRIA], capsys)
    words = ["model", "solve", INRIA, "--method", "simulate", "--events", "2000000", "--seed", "3"]
    played = told(words, capsys)
    assert set(played) == MEASURES | {"intervals"}
    assert played["method"] == "simulate"
    for measure, (low, high) in played["intervals"].items():
        assert low <= played[measure] <= high
        assert low - (high - low) / 2 <= exact[measure] <= high + (high - low) / 2, measure
    asked = write(example(method="simulate"))
    assert told(["model", "solve", asked, "--events", "1000"], capsys)["method"] == "simulate"


def test_pages_that_never_grow_obsolete_have_no_v2(capsys: Said, write: Any) -> None:
    never = {"gamma": [1], "Gamma": [[0]]}
    for method in ("auto", "simulate"):
        found = told(["model", "solve", write(example(lifetime=never, method=method))], capsys)
        assert found["V2"] is None
        assert found["P_obs"] == 0


def test_levels_are_told_when_asked_for(capsys: Said) -> None:
    found = told(["model", "solve", THRESHOLDS, "--levels"], capsys)
    assert len(found["levels"]) == 6
    assert sum(found["levels"]) == pytest.approx(1)
    assert found["levels"][0] == pytest.approx(found["P_star"])
    assert found["robots_distribution"] == pytest.approx({"3": sum(found["levels"][:3]), "1": sum(found["levels"][3:])})


def test_optimise_tells_the_best_rule_and_that_of_each_subset(capsys: Said) -> None:
    found = told(["model", "optimise", THRESHOLDS], capsys)
    assert set(found) == MEASURES | {"robots", "limits", "subsets", "exhaustive"}
    assert found["exhaustive"] is True
    assert (found["robots"], found["limits"]) == ([3, 1], [2])
    assert found["J"] == pytest.approx(63.54, abs=0.01)
    assert len(found["subsets"]) == 15
    assert {tuple(one["robots"]) for one in found["subsets"]} >= {(4,), (4, 1), (4, 3, 2, 1)}
    assert found["J"] == min(one["J"] for one in found["subsets"])


def test_the_best_of_a_subset_costs_what_solve_says(capsys: Said, write: Any) -> None:
    for one in told(["model", "optimise", INRIA, "--modes", "1,4"], capsys)["subsets"]:
        rule = {"robots": one["robots"], "limits": one["limits"]}
        found = told(["model", "solve", write(json.loads(Path(INRIA).read_text()) | {"rule": rule})], capsys)
        assert found["J"] == pytest.approx(one["J"], rel=1e-10)


def test_downhill_by_simulation_leads_to_the_same_rule(capsys: Said, write: Any) -> None:
    asked = write(example(method="simulate"))
    found = told(["model", "optimise", asked, "--modes", "1,3", "--events", "100000"], capsys)
    assert (found["robots"], found["limits"]) == ([3, 1], [2])
    assert found["J"] == pytest.approx(63.54, abs=2)
    assert "intervals" in found


def test_the_least_of_a_measure_keeps_within_bounds(capsys: Said) -> None:
    words = ["model", "optimise", THRESHOLDS, "--least", "P_star", "--at-most", "P_loss=0.2"]
    found = told(words, capsys)
    assert found["P_loss"] <= 0.2
    assert found["value"] == pytest.approx(found["P_star"], rel=1e-10)
    assert found["floor"] <= found["value"] * (1 + 1e-9)
    assert set(found["multipliers"]) == {"P_loss"}
    looser = told([*words[:-1], "P_loss=0.3"], capsys)
    assert looser["P_star"] <= found["P_star"]


def test_people_are_told_what_the_numbers_mean(capsys: Said) -> None:
    assert run_command(["model", "solve", THRESHOLDS, "--levels"]) == 0
    said = capsys.readouterr()
    assert "3 robots up to level 2, then 1" in said.err
    assert re.search(r"^P_star +0\.06\d+ +of the time the indexer starves$", said.out, re.MULTILINE)
    assert re.search(r"^level 3 +0\.3286 +#+$", said.out, re.MULTILINE)
    assert run_command(["model", "optimise", THRESHOLDS, "--modes", "3,1"]) == 0
    said = capsys.readouterr()
    assert re.search(r"^63\.54\d+ +3 robots up to level 2, then 1$", said.out, re.MULTILINE)
    assert run_command(["model", "solve", THRESHOLDS, "--method", "simulate", "--events", "3000"]) == 0
    assert "± " in capsys.readouterr().out


MISPRINTED = example()["modes"] | {"3": [[[-2.48, 0.48], [0.48, 3.48]], *example()["modes"]["3"][1:]]}
LONG = {"gamma": [1, 0], "Gamma": [[-1, 1], [0, -1]]}


@pytest.mark.parametrize(
    ("value", "code", "message", "advice"),
    [
        (example(modes=MISPRINTED), 2, "mode 3, D0[1][1] is +3.48: a diagonal entry must be negative", ""),
        (example(modes={"1": [[[-1e300]], [[1e300]]]}, rule=None), 2, "D0[0][0] is -1e+300", "unit of time"),
        (example(cost={"star": 10**400}), 2, "cost star", ""),
        (example(service=None), 2, "the model has no `service`", "K, modes, service, lifetime"),
        (example(rule=None), 2, "several modes and no `rule`", "`fieldmouse model optimise`"),
        (example(lifetime=LONG, method="banded"), 2, "not exponential", "ordered"),
        (example(lifetime=LONG, K=60), 1, "states", '"method": "simulate"'),
    ],
    ids=["sign", "enormous", "endless", "missing", "ruleless", "banded", "large"],
)
def test_a_model_that_cannot_be_solved_is_told_why(
    value: object, code: int, message: str, advice: str, capsys: Said, write: Any
) -> None:
    assert run_command(["model", "solve", write(value), "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert message in found["error"]
    assert advice in found["hint"]


@pytest.mark.parametrize(
    ("words", "message", "advice"),
    [
        (["solve", "nowhere.json"], "cannot read `nowhere.json`", "check the name"),
        (["solve", str(ROOT / "README.md")], "is no JSON", "docs/model.md"),
        (["optimise", THRESHOLDS, "--modes", "one"], "`--modes one` is no list of numbers", "--modes 1,4,16"),
        (["optimise", THRESHOLDS, "--modes", "7"], "there is no mode 7", "1, 2, 3, 4"),
        (["optimise", THRESHOLDS, "--at-most", "P_loss=1"], "bound for `--least`", "--least P_star"),
        (["optimise", THRESHOLDS, "--least", "V1", "--at-most", "P_loss"], "has no bound", "P_loss=0.2"),
        (["optimise", THRESHOLDS, "--least", "V1", "--at-most", "P_loss=nan"], "has no bound", "P_loss=0.2"),
        (["optimise", THRESHOLDS, "--least", "V1", "--at-most", "loss=1"], "names no measure", "P_loss"),
        (["solvr", THRESHOLDS], "there is no command `solvr`", "fieldmouse model solve"),
    ],
)
def test_words_that_cannot_be_meant_are_told(words: list[str], message: str, advice: str, capsys: Said) -> None:
    assert run_command(["model", *words]) == 2
    said = capsys.readouterr()
    assert not said.out
    error, hint = said.err.splitlines()
    assert message in error
    assert advice in hint


def test_a_cost_of_nothing_cannot_be_optimised(capsys: Said, write: Any) -> None:
    assert run_command(["model", "optimise", write(example(cost=None))]) == 2
    assert "no `cost`" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "message"), [("", "is empty"), ("[" * 100_000, "is no JSON")])
def test_a_file_that_holds_no_model_is_told(text: str, message: str, capsys: Said, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(text)
    assert run_command(["model", "solve", str(tmp_path / "model.json")]) == 2
    assert message in capsys.readouterr().err


def test_more_rules_than_can_be_tried_even_in_pairs_are_refused(capsys: Said, write: Any) -> None:
    assert run_command(["model", "optimise", write(example(K=1_000_000))]) == 2
    assert "too many to try them all" in capsys.readouterr().err


def test_the_best_rule_within_bounds_is_told_as_data(capsys: Said) -> None:
    assert run_command(["model", "optimise", THRESHOLDS, "--least", "P_star", "--at-most", "P_loss=0.2"]) == 0
    assert "3 robots up to level 2, then 1" in capsys.readouterr().out


def test_the_file_in_the_documentation_can_be_solved(capsys: Said, write: Any) -> None:
    text = (ROOT / "docs" / "model.md").read_text()
    (shown,) = re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    found = told(["model", "optimise", write(json.loads(shown))], capsys)
    assert math.isfinite(found["J"])


def test_the_python_in_the_documentation_runs(capsys: Said) -> None:
    text = (ROOT / "docs" / "model.md").read_text()
    (shown,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    exec(compile(shown, "docs/model.md", "exec"), {})
    assert re.fullmatch(r"0\.\d+ ± 0\.\d+\n", capsys.readouterr().out)
