"""Whole crawls in virtual time under each distribution policy: a small version of `lab run live-frontier`."""

from __future__ import annotations

import dataclasses
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from fieldmouse.policy.distribution.registry import POLICIES as KNOWN
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse_lab.papers.bubing import live
from fieldmouse_lab.papers.bubing.live import POLICIES
from fieldmouse_lab.replay import replay
from fieldmouse_lab.trial import PolicyTrial, TrialResult, run_trial

SMALL = PolicyTrial(hosts=80, pages=3000, gamma=1.8, front=16, time=300.0)


@pytest.fixture(scope="module")
def tried() -> dict[tuple[PolicyTrial, str], TrialResult]:
    """One small trial of each policy, with few places and with the default front."""
    return {
        (trial, policy): live.crawl((trial, policy))
        for trial in (SMALL, dataclasses.replace(SMALL, front=None))
        for policy in POLICIES
    }


@pytest.fixture(scope="module")
def found(tried: dict[tuple[PolicyTrial, str], TrialResult]) -> dict[str, float]:
    return {policy: tried[SMALL, policy].summary.pages / SMALL.ideal() for policy in POLICIES}


def test_every_distribution_policy_is_tried() -> None:
    assert set(POLICIES) == set(KNOWN)


def test_index_beats_every_other_policy_and_is_near_the_ideal(found: dict[str, float]) -> None:
    others = [share for policy, share in found.items() if policy != "index"]
    assert max(others) < found["index"]
    assert 0.95 <= found["index"] <= 1.0


@pytest.mark.parametrize("listed", [True, False])
def test_a_few_places_are_enough_because_resting_hosts_leave_them(listed: bool, tmp_path: Path) -> None:
    trial = dataclasses.replace(SMALL, front=3, listed=listed)
    shares = {
        policy: run_trial(trial, policy, tmp_path / policy).summary.pages / trial.ideal()
        for policy in ("index", "mice-and-elephants")
    }
    assert shares["mice-and-elephants"] < 0.5
    assert shares["index"] > 0.9


def test_without_an_offline_side_large_hosts_fill_the_front(found: dict[str, float]) -> None:
    assert found["neutral"] == min(found.values()) < 0.8


def test_the_ideal_visits_every_host_as_often_as_its_delay_allows() -> None:
    trial = PolicyTrial(hosts=3, pages=10, gamma=0.5, delay=5.0, time=20.0)
    sizes = [site.size for site in trial.meadow().plan.sites]
    assert sum(sizes) == 10
    assert trial.ideal() == sum(min(size, 4) for size in sizes)
    assert trial.ideal(0.0) == 0.0


def test_the_url_list_has_every_page_once_in_an_order_that_depends_on_the_seed() -> None:
    trial = PolicyTrial(hosts=5, pages=40)
    meadow = trial.meadow()
    starts = trial.starts(meadow)
    assert sorted(starts) == sorted(fact.url for fact in meadow.true_urls())
    assert starts == trial.starts(trial.meadow())
    assert starts != trial.with_seed(2).starts(meadow)


def test_a_trial_is_reproducible_and_polite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = PolicyTrial(hosts=8, pages=60, gamma=1.0, front=3, time=200.0, listed=False)
    webs: list[MeadowFetcher] = []

    class Remembered(MeadowFetcher):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)  # type: ignore[arg-type]
            webs.append(self)

    monkeypatch.setattr("fieldmouse_lab.trial.MeadowFetcher", Remembered)
    first, second = (run_trial(trial, "index", tmp_path / name) for name in "ab")
    assert first.summary.pages == second.summary.pages > 20
    assert webs[0].arrivals == webs[1].arrivals
    assert not any(arrival.busy for arrival in webs[0].arrivals)
    last: dict[str, float] = {}
    for arrival in webs[0].arrivals:
        assert arrival.t - last.get(arrival.host, 0.0) >= trial.delay - 1e-6
        last[arrival.host] = arrival.t


def test_the_experiment_has_a_row_for_each_crawl_and_names_the_best_policy(
    tried: dict[tuple[PolicyTrial, str], TrialResult], found: dict[str, float]
) -> None:
    result = live.result("small", tried)
    rows = {(row.fields["places"], row.fields["policy"]): row for row in result.rows}
    assert set(rows) == {(places, policy) for places in (16, "default") for policy in POLICIES}
    assert [policy for (_, policy), row in rows.items() if row.fields["is_default"]] == ["index", "index"]
    for policy, share in found.items():
        row = rows[16, policy]
        assert row.ours == share
        assert row.fields["pages"] == tried[SMALL, policy].summary.pages
        assert row.fields["bound"] == SMALL.ideal()
    assert any("16 places" in remark and "index is best" in remark for remark in result.remarks)
    (figure,) = result.figures
    assert [panel.y_label for panel in figure.panels] == [
        "hosts online",
        "hosts ready in a delay's time",
        "pages stored",
    ]
    for panel in figure.panels:
        assert {series.label for series in panel.series} >= set(POLICIES)
        assert all(len(series.x) == len(series.y) > 2 for series in panel.series)


def test_the_first_seed_and_the_places_can_be_chosen() -> None:
    tiny = PolicyTrial(hosts=6, pages=40, gamma=1.0, time=60.0)
    told: list[float] = []
    result = live.run(tiny, "tiny", lambda share, doing: told.append(share), 5, places=(2,), seeds=2)
    assert [(row.fields["places"], row.fields["seed"]) for row in result.rows] == [(2, 5)] * 4 + [(2, 6)] * 4
    assert told == [number / 8 for number in range(8)]


THESIS = sorted(point.name for point in entry_points(group="fieldmouse.distribution_policies"))


def test_every_algorithm_of_the_thesis_has_a_name_for_crawls() -> None:
    assert {f"alg{number}" for number in range(1, 13)} <= set(THESIS)


@pytest.mark.parametrize("policy", THESIS)
def test_a_crawl_under_an_algorithm_of_the_thesis_loses_no_page_and_can_be_replayed(
    policy: str, tmp_path: Path
) -> None:
    trial = PolicyTrial(hosts=8, pages=60, gamma=1.0, front=3, time=2000.0, listed=False)
    assert run_trial(trial, policy, tmp_path / "c").summary.pages == 60
    (played,) = replay(tmp_path / "c", [policy], {}).played
    assert played.same
