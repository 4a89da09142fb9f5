"""Whole crawls refreshed in virtual time: a small version of `lab run live-refresh`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.policy.change_rate import fresh_share
from fieldmouse.policy.polling.registry import POLICIES as KNOWN
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.serve import MeadowChange
from fieldmouse.testing.meadow.server import Arrival
from fieldmouse.url import Url
from fieldmouse_lab.papers.polling.live import REFRESH_EXPERIMENTS, RefreshExperiment, UpkeepResults
from fieldmouse_lab.refresh.truth import change_times, current_share, request_times
from fieldmouse_lab.refresh.upkeep import RefreshTrial, run_live_refresh

SMALL = RefreshExperiment(
    "small",
    RefreshTrial(hosts=4, pages=150, pace=5000.0, delay=1.0, checkpoints=6),
    policies=("learned", "uniform", "multiplicative", "automaton"),
    seeds=(1,),
)

moments = st.lists(st.integers(0, 40), max_size=12, unique=True)


@pytest.fixture(scope="module")
def tried() -> UpkeepResults:
    return SMALL.run_all(lambda share, doing: None)


def test_the_learned_policy_keeps_more_copies_current_than_the_others(tried: UpkeepResults) -> None:
    fresh = {policy: kept.fresh for (policy, _), kept in tried.items()}
    assert fresh["learned"] > fresh["uniform"] > fresh["automaton"]
    assert fresh["learned"] > fresh["multiplicative"]
    assert fresh["learned"] < SMALL.upkeep.optimum(Meadow(SMALL.upkeep.options(1))) + 0.03


def test_all_policies_spend_the_same_budget(tried: UpkeepResults) -> None:
    whole = SMALL.upkeep.pages * SMALL.upkeep.rounds
    for kept in tried.values():
        # Where intervals grow from look to look, pages come due later than a plan of that moment has it.
        assert 0.8 * whole <= kept.report.polls <= whole + 10


def test_freshness_of_uniform_polls_follows_the_law(tried: UpkeepResults) -> None:
    meadow, upkeep = Meadow(SMALL.upkeep.options(1)), SMALL.upkeep
    rates = np.array([meadow.change_rate(fact.url) for fact in meadow.true_urls()])
    assert tried["uniform", 1].fresh == pytest.approx(fresh_share(rates * upkeep.round).mean(), abs=0.03)


def test_estimated_freshness_agrees_with_the_truth_of_the_meadow(tried: UpkeepResults) -> None:
    for kept in tried.values():
        assert abs(kept.error) < 0.05, "few pages and few polls: 5,000 pages are within 0.03"
        assert abs(kept.error_now) < 0.07, "one moment of 150 pages: two spreads of chance"


def test_the_experiment_shows_rows_a_figure_and_remarks(tried: UpkeepResults) -> None:
    result = SMALL.result(tried)
    assert [row.label for row in result.rows] == [
        *(f"policy {policy}, seed 1" for policy in SMALL.policies),
        "learned above uniform",
        "learned above multiplicative",
        "learned above automaton",
        "the optimum that knows the rates, by its law",
    ]
    (figure,) = result.figures
    assert [series.label for series in figure.panels[0].series][1:] == list(SMALL.policies)
    told = " ".join(result.remarks)
    (ahead,) = re.findall(r"learned is at least (.*? above \w+, .*? above \w+, .*? above \w+) ", told)
    leads = [part.split(" above ") for part in ahead.split(", ")]
    assert leads == sorted(leads), "the strongest opponent comes first"
    assert {policy for _, policy in leads} == set(SMALL.policies) - {"learned"}


def test_remarks_report_a_wrong_freshness_estimate_and_a_losing_policy(tried: UpkeepResults) -> None:
    kept = tried["learned", 1]
    measured, expected = kept.report.measured, kept.report.expected
    assert measured is not None
    assert expected is not None
    right = {place: replace(kept, fresh=measured, fresh_now=expected) for place in tried}
    assert "right within 0.03 in 4 of 4 crawls" in " ".join(SMALL.result(right).remarks)
    wrong = {**right, ("learned", 1): replace(kept, fresh=measured - 0.1, fresh_now=expected)}
    result = SMALL.result(wrong)
    assert "is WRONG with" in result.rows[0].note
    assert "is WRONG with" not in result.rows[1].note
    told = " ".join(result.remarks)
    assert "right within 0.03 in 3 of 4 crawls" in told
    assert "at least -0.100 above uniform" in told


def test_the_experiments_compare_existing_policies() -> None:
    for arena, _, _ in REFRESH_EXPERIMENTS:
        assert set(arena.policies) <= set(KNOWN)
        assert {"learned", "uniform"} <= set(arena.policies)


@given(moments, moments, st.integers(0, 39), st.integers(1, 40))
def test_a_copy_is_current_from_a_poll_to_the_next_change(
    looks: list[int], changes: list[int], start: int, span: int
) -> None:
    """Counted tick by tick, with looks between ticks."""
    end = start + span
    asked = request_times(Arrival(at + 0.5, "a", "", "/", 0, "") for at in looks)
    changed = change_times(MeadowChange(float(at), Url("http://a/"), 1) for at in changes)
    good = whole = 0
    held = False
    for half in range(2 * max(end, 41)):
        if half % 2 and half // 2 in looks:
            held = True
        elif not half % 2 and half // 2 in changes:
            held = False
        if 2 * start <= half < 2 * end and any(at + 0.5 <= half / 2 for at in looks):
            whole, good = whole + 1, good + held
    share = current_share(["http://a/"], asked, changed, start, end)
    assert share == pytest.approx(good / whole if whole else 0.0)


def test_freshness_of_real_processes_is_computed_from_the_files_of_the_meadow(tmp_path: Path) -> None:
    upkeep = RefreshTrial(hosts=5, pages=100, pace=72_000.0, rounds=2, counted=1, delay=0.02, checkpoints=12)
    kept = run_live_refresh(upkeep, "uniform", tmp_path / "upkeep", 1)
    assert kept.report.polls > 0
    assert kept.report.pages == 100
    assert kept.report.budget == pytest.approx(upkeep.pace)
    assert 0.0 < kept.fresh < 1.0
    assert 0.0 < kept.fresh_now < 1.0
