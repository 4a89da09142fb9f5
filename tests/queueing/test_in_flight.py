"""The model with fetches in flight: against a simulation, the solver of the paper's model, and all rules."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.cli.main import run_command
from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.in_flight import model as in_flight
from fieldmouse.queueing.in_flight.model import InFlightModel, WhenFull, solve_in_flight
from fieldmouse.queueing.in_flight.search import RuleSearch
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import CostWeights, Model, cost_of
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import ModelError
from fieldmouse.queueing.solve.solve import solve
from queueing.in_flight_simulation import Simulation

UNEVEN = PhaseType.hyperexponential([0.9, 0.1], [20.0, 1 / 0.55])
EVEN = PhaseType.exponential(10.0)
ERLANG = PhaseType.erlang(2, 20.0)
WEIGHTS = CostWeights(loss=1.0, obs=1.0, sojourn=1.0, robots=0.05, star=10.0)

CASES: list[tuple[InFlightModel, Thresholds, WhenFull]] = [
    (InFlightModel(10, 4, 5.0, EVEN), Thresholds((3,)), "wait"),
    (InFlightModel(10, 4, 5.0, UNEVEN), Thresholds((4, 1), (6,)), "wait"),
    (InFlightModel(10, 4, 5.0, UNEVEN), Thresholds((4, 1), (3,)), "lose"),
    (InFlightModel(6, 5, 5.0, ERLANG), Thresholds((5, 2, 0), (2, 3)), "wait"),
    (InFlightModel(8, 4, 5.0, UNEVEN, 0.25), Thresholds((4,)), "wait"),
    (InFlightModel(8, 4, 5.0, UNEVEN, 0.25), Thresholds((4, 2), (4,)), "lose"),
    (InFlightModel(1, 2, 5.0, EVEN), Thresholds((2,)), "wait"),
]


@pytest.mark.parametrize(("model", "rule", "when_full"), CASES)
def test_the_solution_agrees_with_a_simulation(model: InFlightModel, rule: Thresholds, when_full: WhenFull) -> None:
    exact = solve_in_flight(model, rule, when_full)
    runs = [Simulation(model, rule, when_full, np.random.default_rng(seed)).run(2000) for seed in range(8)]
    for measure in runs[0]:
        values = np.array([run[measure] for run in runs])
        # Four standard errors: about one in two hundred falls outside with eight runs; the seeds are fixed.
        allowed = 4 * values.std(ddof=1) / math.sqrt(len(values)) + 1e-12
        assert abs(values.mean() - getattr(exact, measure)) <= allowed, measure


@pytest.mark.parametrize("service", [EVEN, UNEVEN, ERLANG])
@pytest.mark.parametrize("lifetime", [0.0, 0.5])
def test_workers_that_never_stop_are_a_poisson_stream_of_the_papers_model(service: PhaseType, lifetime: float) -> None:
    lives = PhaseType.exponential(lifetime) if lifetime else PhaseType.never()
    paper = solve(Model(7, {3: BatchArrivals.poisson(15.0)}, service, lives), Thresholds((3,)))
    ours = solve_in_flight(InFlightModel(7, 3, 5.0, service, lifetime), Thresholds((3,)), "lose")
    for measure in ("rate", "loss", "obs", "success", "star", "robots", "mean_level", "sojourn", "sojourn_served"):
        assert getattr(ours, measure) == pytest.approx(getattr(paper, measure), rel=1e-9), measure
    np.testing.assert_allclose(ours.levels, paper.levels, rtol=1e-9)


@settings(max_examples=40)
@given(
    st.integers(1, 12),
    st.integers(1, 6),
    st.floats(0.5, 30.0),
    st.sampled_from([EVEN, UNEVEN, ERLANG]),
    st.sampled_from([0.0, 0.3]),
    st.data(),
)
def test_work_and_pages_are_conserved(
    capacity: int, workers: int, rate: float, service: PhaseType, fading: float, data: st.DataObject
) -> None:
    robots = sorted(data.draw(st.sets(st.integers(0, workers), min_size=1, max_size=3)), reverse=True)
    if not robots[0]:
        robots[0] = workers
    limits = sorted(data.draw(st.lists(st.integers(0, capacity), min_size=len(robots) - 1, max_size=len(robots) - 1)))
    when_full = data.draw(st.sampled_from(["wait", "lose"]))
    found = solve_in_flight(
        InFlightModel(capacity, workers, rate, service, fading), Thresholds(tuple(robots), tuple(limits)), when_full
    )
    assert found.loss + found.obs + found.success == pytest.approx(1.0)
    assert found.rate * found.success * service.mean == pytest.approx(1 - found.star)
    assert found.levels.sum() == pytest.approx(1.0)
    assert found.mean_level == pytest.approx(found.rate * found.sojourn)
    assert found.loss == 0.0 or when_full == "lose"
    assert found.robots <= workers + 1e-9


def test_a_rule_that_stops_all_workers_in_time_never_fills_the_buffer() -> None:
    model = InFlightModel(10, 4, 5.0, UNEVEN)
    waiting, losing = (solve_in_flight(model, Thresholds((4, 0), (5,)), way) for way in ("wait", "lose"))
    assert waiting.levels[10] == losing.loss == 0.0
    assert waiting.sojourn_served == pytest.approx(losing.sojourn_served)
    assert waiting.levels[9] > 0.0, "four workers that were stopped at level 6 bring three more pages"


def test_workers_counted_in_units_give_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rule = InFlightModel(40, 16, 1.5, UNEVEN), Thresholds((16, 4), (20,))
    counted = solve_in_flight(model, rule)
    monkeypatch.setattr(in_flight, "MOST_UNITS", 16)
    exact = solve_in_flight(model, rule)
    assert cost_of(counted, WEIGHTS) == pytest.approx(cost_of(exact, WEIGHTS), rel=0.03)
    assert counted.levels.tolist() != exact.levels.tolist()


@pytest.mark.parametrize("fading", [0.0, 0.3])
@pytest.mark.parametrize("service", [EVEN, UNEVEN])
def test_the_search_finds_a_rule_as_cheap_as_the_best_of_all(service: PhaseType, fading: float) -> None:
    model = InFlightModel(7, 3, 6.0, service, fading)
    found = RuleSearch(model, WEIGHTS, (1, 2, 3)).best()
    every = [
        cost_of(solve_in_flight(model, Thresholds(robots, limits), way), WEIGHTS)
        for count in (1, 2, 3)
        for robots in itertools.combinations((3, 2, 1, 0), count)
        if robots[0]
        for limits in itertools.combinations_with_replacement(range(7), count - 1)
        for way in ("wait", "lose")
    ]
    assert found.cost <= min(every) * 1.002
    assert found.cost == pytest.approx(cost_of(found.measures, WEIGHTS))


@pytest.mark.parametrize("service", [EVEN, UNEVEN, ERLANG])
def test_waiting_is_never_dearer_than_dropping(service: PhaseType) -> None:
    search = RuleSearch(InFlightModel(4, 3, 6.0, service, 0.3), WEIGHTS, (1, 2, 3))
    for robots, limits in (((3,), ()), ((3, 1), (2,)), ((3, 2, 1), (1, 3))):
        waits, loses = (search.solve(robots, limits, way).cost for way in ("wait", "lose"))
        assert waits < loses
    assert search.best().when_full == "wait"
    assert search.best(("lose",)).when_full == "lose"


def test_a_rule_without_workers_at_an_empty_buffer_is_refused() -> None:
    with pytest.raises(ModelError, match="no page would ever come"):
        solve_in_flight(InFlightModel(5, 2, 1.0, EVEN), Thresholds((0,)))


def test_the_command_line_finds_the_rule_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["model", "optimise", "examples/thresholds.json", "--in-flight"]
    assert run_command([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["when_full"] == "wait"
    assert told["P_loss"] + told["P_obs"] + told["P_success"] == pytest.approx(1.0)
    assert told["P_loss"] == 0.0
    assert run_command(words) == 0
    assert "the best rule: " in capsys.readouterr().err
    assert run_command([*words, "--least", "P_star"]) == 2
    assert "leave out `--least`" in capsys.readouterr().err


def test_lifetimes_with_phases_are_refused() -> None:
    paper = Model(5, {2: BatchArrivals.poisson(10.0)}, EVEN, PhaseType.erlang(2, 1.0))
    with pytest.raises(ModelError, match="exponential"):
        in_flight.in_flight_model(paper)


@pytest.mark.parametrize("rate", [1e-3, 10.0, 5000.0])
def test_a_large_system_is_solved_however_fast_pages_come(rate: float) -> None:
    found = solve_in_flight(InFlightModel(256, 128, rate, UNEVEN), Thresholds((128, 2), (200,)))
    assert found.rate * found.success * UNEVEN.mean == pytest.approx(1 - found.star)
    assert found.levels.sum() == pytest.approx(1.0)
    # 128 workers bring 0.128 pages per second at most, or more than ten, which is what the indexer serves.
    assert found.rate == pytest.approx(min(128 * rate, 1 / UNEVEN.mean), rel=0.01)
