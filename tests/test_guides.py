"""Code of the guides, extracted and run."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fieldmouse.cli import main
from fieldmouse.policy import change_rate
from fieldmouse.policy.distribution.registry import POLICIES, create_policy
from fieldmouse.policy.polling.registry import create_policy as create_polling_policy
from fieldmouse_lab.replay import replay
from fieldmouse_lab.trial import PolicyTrial, run_trial
from fieldmouse_lab.urn.game import Game
from fieldmouse_lab.urn.play import play_pure
from fieldmouse_lab.urn.sources import power
from fieldmouse_lab.urn.strategies import strategy

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "guides" / "policy.md"
TINY = PolicyTrial(hosts=12, pages=120, gamma=1.2, front=5, time=120.0)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The module of the guide, installed under the name that the guide gives it elsewhere."""
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    (code,) = [block for block in blocks if "class Capped" in block]
    package = tmp_path / "site" / "my_mice"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "capped.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield "my_mice.capped:Capped"
    for module in ("my_mice.capped", "my_mice"):
        sys.modules.pop(module, None)


def test_the_polling_policy_of_its_guide_polls_changed_pages_three_times_as_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (GUIDE.parent / "polling.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "recent_guide.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    policy = create_polling_policy("recent_guide:RecentChanges")
    belief = change_rate.empty_beliefs(3)
    changed = np.array([True, False, False])
    state = policy.observe(policy.initial_state(3), belief, np.ones(3), changed)
    assert policy.plan(state, belief, 5.0).tolist() == pytest.approx([3.0, 1.0, 1.0])
    limited = policy.plan(state, belief, 5.0, host=np.array([0, 1, 1]), host_limit=np.array([1.0, 9.0]))
    assert limited.tolist() == pytest.approx([1.0, 2.0, 2.0])


@pytest.fixture(params=["by its name", "by where it is"])
def named(request: pytest.FixtureRequest, written: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of the strategy: a line in `POLICIES`, or its import path."""
    if request.param == "by where it is":
        return written
    monkeypatch.setitem(POLICIES, "capped", importlib.import_module("my_mice.capped").Capped)
    return "capped"


def test_a_strategy_written_as_the_guide_says_plays_the_game(named: str) -> None:
    def distinct(name: str) -> float:
        return play_pure(
            Game(power(2000, gamma=1.0), capacity=50, steps=2000, strategy=strategy(name)), 1
        ).distinct_mean

    assert distinct("neutral") < distinct(named) <= 50


def test_the_strategy_crawls_and_a_replay_repeats_its_decisions(named: str, tmp_path: Path) -> None:
    ending = run_trial(TINY, named, tmp_path / "c")
    assert ending.summary.lost == 0
    assert 0 < ending.summary.pages <= TINY.ideal()
    (again,) = replay(tmp_path / "c", [named], {}).played
    assert again.same
    (strict,) = replay(tmp_path / "c", [named], {"most": 1}).played
    assert strict.parameters == {"most": 1}
    assert not strict.same


def test_the_commands_of_the_guide_work_with_it(
    written: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_trial(TINY, "index", tmp_path / "c")
    assert (
        main.run_command(["lab", "replay", str(tmp_path / "c"), "--policy", written, "--set", "most=5", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["played"][0]["parameters"] == {"most": 5}
    words = "lab urn --gamma 0.9 --hosts 500 --capacity 20 --steps 200 --seed 1 --json --strategy"
    assert main.run_command([*words.split(), written]) == 0
    assert json.loads(capsys.readouterr().out)["distinct_mean"] > 10


def test_the_strategy_accepts_a_host_eventually(written: str) -> None:
    """The guide asks this of every strategy; a source that holds one host shows it."""
    capped = create_policy(written, {"patience": 10})
    answers = []
    for _ in range(40):
        answers.append(capped.goes_online("a"))
        if answers[-1]:
            capped.came_online("a")
        else:
            capped.added_to_queue("a")
    assert sum(answers) > 3
