"""The simulated network of agents: laws it must obey, and what its policies reach."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from fieldmouse.cli.main import run_command as fieldmouse
from fieldmouse.policy.balance.priced import PricingParameters
from fieldmouse_lab.network.environment import Measured, TripReading, make_web, min_max_load, throughput_limit
from fieldmouse_lab.network.play import RULES, NetworkGame, NetworkSetting, Shock, play_network, web_of_seed

pytest.importorskip("numba", reason="without a compiler a run takes a minute")


def test_the_hosts_are_those_of_the_thesis() -> None:
    ground = make_web(np.random.default_rng(1))
    own = ground.trip.min(axis=1)
    assert own.mean() == pytest.approx(1.488, abs=0.001)
    far = ground.trip[:6, 3] / ground.trip[:6, 0]  # partition 1, seen from partition 4
    assert far == pytest.approx(1 + 7 / 4 * np.log(3))


def load_by_prices(service: np.ndarray, rounds: int = 4000) -> float:
    """From below, by the dual: no prices of agents, which add up to 1, give more than the least load."""
    every, agents = np.arange(len(service)), service.shape[1]
    price, best = np.full(agents, 1.0 / agents), 0.0
    for turn in range(1, rounds + 1):
        priced = service * price
        chosen = priced.argmin(axis=1)
        best = max(best, float(priced[every, chosen].sum()))
        load = np.bincount(chosen, service[every, chosen], agents)
        price *= np.exp((load / load.sum() * agents - 1.0) * 0.5 / np.sqrt(turn))
        price /= price.sum()
    return best


@pytest.mark.parametrize("reading", list(TripReading))
@pytest.mark.parametrize("agents", [3, 4, 6])
def test_prices_and_programme_agree_on_the_limit(reading: TripReading, agents: int) -> None:
    service = make_web(np.random.default_rng(2), times=3, agents=agents, reading=reading).service
    least = min_max_load(service)
    assert least * 0.995 <= load_by_prices(service) <= least * (1 + 1e-9)
    other = service * np.random.default_rng(3).uniform(0.5, 2.0, service.shape)  # none like another
    assert min_max_load(other) * 0.995 <= load_by_prices(other) <= min_max_load(other) * (1 + 1e-9)


def test_the_limit_is_proportional_to_the_number_of_agents() -> None:
    """Agents in turn in each partition: twenty-five networks of four, side by side, and nothing to gain."""
    four = throughput_limit(make_web(np.random.default_rng(2), times=10).service)
    hundred = throughput_limit(make_web(np.random.default_rng(2), times=10, agents=100).service)
    assert hundred == pytest.approx(25 * four)


def test_no_division_by_chance_beats_the_limit() -> None:
    service = make_web(np.random.default_rng(3)).service
    least, rng = min_max_load(service), np.random.default_rng(4)
    for _ in range(300):
        chosen = np.where(rng.random(100) < 0.9, service.argmin(axis=1), rng.integers(0, 4, 100))
        assert np.bincount(chosen, service[np.arange(100), chosen], 4).max() >= least * (1 - 1e-9)


@pytest.mark.parametrize("reading", list(TripReading))
def test_hashing_visits_each_host_as_often_as_its_agent_comes_round(reading: TripReading) -> None:
    """An agent with fixed hosts goes round them in turn: a round takes the sum of their visits."""
    setting = NetworkSetting("hash", reading=reading)
    ground = web_of_seed(setting, 11)
    game = NetworkGame(setting, ground, 11)
    owner = game.tables.owner.copy()
    service = ground.service[np.arange(100), owner]
    round_trip = np.bincount(owner, service, 4)
    found = play_network(setting, 11)
    assert found.throughput == pytest.approx((np.bincount(owner, minlength=4) / round_trip).sum(), rel=0.01)
    assert found.harmonic_throughput == pytest.approx(100 / round_trip[owner].mean(), rel=0.01)
    assert (found.exchanges, found.moves_per_task) == (0, 0.0)


@pytest.mark.parametrize("policy", RULES)
@pytest.mark.parametrize("shock", list(Shock))
def test_every_host_is_always_in_exactly_one_queue(policy: str, shock: Shock) -> None:
    setting = NetworkSetting(policy, shock=shock, seconds=21_000.0, transfer=0.7)
    game = NetworkGame(setting, web_of_seed(setting, 5), 5)
    game.advance(20_000.0, measuring=False)
    if shock in (Shock.SLOW, Shock.DIE, Shock.JOIN):
        game.apply_shock()
    game.advance(21_000.0, measuring=True)
    t = game.tables
    places = [host for host in t.serving if host >= 0]
    places += [
        t.queue[agent, (t.head[agent] + place) % t.queue.shape[1]]
        for agent in range(len(t.head))
        for place in range(t.length[agent])
    ]
    places += list(t.waiting[: int(t.measured[Measured.HEAP])])
    assert sorted(places) == list(range(100))
    if shock is Shock.DIE:
        assert t.length[3] == 0
        assert t.serving[3] < 0


def test_a_delay_is_kept_between_two_visits_of_a_host() -> None:
    setting = NetworkSetting("priced", seconds=40_000.0, delay=100.0)
    game = NetworkGame(setting, web_of_seed(setting, 6), 6)
    game.advance(20_000.0, measuring=False)
    game.advance(40_000.0, measuring=True)
    assert game.tables.visits.max() <= 200
    assert game.tables.visits.min() > 150, "the network has time for all of them"


@pytest.mark.parametrize("times", [1, 10])
def test_prices_come_near_the_limit_with_few_moves_on_webs_not_seen_before(times: int) -> None:
    for seed in (101, 102):
        found = play_network(NetworkSetting("priced", times=times), seed)
        assert 0.97 <= found.fraction_of_limit <= 1.01
        assert found.moves_per_task < 0.15
        assert found.fraction_of_limit > play_network(NetworkSetting("hash", times=times), seed).fraction_of_limit + 0.2
        assert (
            found.fraction_of_limit > play_network(NetworkSetting("kalman", times=times), seed).fraction_of_limit + 0.05
        )


def test_prices_are_paid_for_all_the_time_that_a_visit_takes() -> None:
    """Half a second of each visit is work that no distance makes longer; who forgot it would move too far."""
    for seed in (111, 112):
        assert play_network(NetworkSetting("priced", reading=TripReading.CALIBRATED), seed).fraction_of_limit >= 0.98


@pytest.mark.parametrize("unit", [10.0, 0.1, 0.01])
def test_prices_find_their_way_whatever_the_unit_of_time(unit: float) -> None:
    """The same web with trips ten times longer or a hundred times shorter, and adverts as seldom as ever."""
    setting = NetworkSetting("priced")
    seconds, ground = setting.seconds * unit, web_of_seed(setting, 104)
    game = NetworkGame(setting, replace(ground, trip=ground.trip * unit, spread=ground.spread * unit), 104)
    game.advance(seconds / 2, measuring=False)
    game.advance(seconds, measuring=True)
    found = game.figures()
    assert found.fraction_of_limit >= 0.97
    assert found.moves_per_task < 0.15


@pytest.mark.parametrize("advert", [5.0, 300.0])
def test_prices_tolerate_outdated_adverts(advert: float) -> None:
    """In 300 s a host is visited seven times."""
    found = play_network(NetworkSetting("priced", pricing=PricingParameters(agent_status=advert)), 105)
    assert found.fraction_of_limit >= 0.97
    assert found.moves_per_task < 0.15


def test_prices_work_with_a_hundred_agents() -> None:
    """Ten hosts for each agent, and more agents than a host is visited times at first."""
    setting = NetworkSetting("priced", times=10, agents=100, seconds=10_000.0)
    assert play_network(setting, 106).fraction_of_limit > 0.85
    assert play_network(replace(setting, policy="hash"), 106).fraction_of_limit < 0.6


@pytest.mark.parametrize("shock", [shock for shock in Shock if shock is not Shock.NONE])
def test_prices_hold_under_shocks(shock: Shock) -> None:
    found = play_network(NetworkSetting("priced", shock=shock), 103)
    assert found.fraction_of_limit > 0.93


def test_the_compiled_simulation_does_what_the_plain_one_does() -> None:
    """The same source, once compiled and once as it stands, visit by visit the same."""
    script = (
        "import json; from fieldmouse_lab.network.play import *\n"
        "def facts(policy):\n"
        "    setting = NetworkSetting(policy, seconds=600.0, shock=Shock.DRIFT, transfer=0.1)\n"
        "    game = NetworkGame(setting, web_of_seed(setting, 9), 9)\n"
        "    game.advance(600.0, measuring=True)\n"
        "    t = game.tables\n"
        "    return [t.visits.tolist(), t.at.tolist(), t.price.tolist(), t.mean.tolist()]\n"
        "print(json.dumps([facts(policy) for policy in RULES]))"
    )
    told = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", script],
                env={**os.environ, "NUMBA_DISABLE_JIT": off},
                check=True,
                capture_output=True,
            ).stdout
        )
        for off in ("0", "1")
    ]
    for compiled, plain in zip(*told, strict=True):
        assert compiled[:2] == plain[:2]
        assert np.allclose(compiled[2], plain[2])
        assert np.allclose(compiled[3], plain[3])
        assert sum(compiled[0]) > 500


def told_at_the_command_line(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, float]:
    assert fieldmouse(["lab", "network", *words, "--json"]) == 0
    found: dict[str, float] = json.loads(capsys.readouterr().out)
    return found


def test_the_command_prints_the_measurements(capsys: pytest.CaptureFixture[str]) -> None:
    found = told_at_the_command_line(capsys, "--policy", "two-choices", "--seconds", "4000", "--seed", "3")
    played = play_network(NetworkSetting("two-choices", seconds=4000.0), 3)
    assert found["throughput"] == played.throughput
    assert found["fraction_of_limit"] == pytest.approx(found["harmonic_throughput"] / found["limit"])
    assert set(found) == {
        "throughput",
        "harmonic_throughput",
        "limit",
        "fraction_of_limit",
        "fairness",
        "jain",
        "exchanges",
        "moves_per_task",
        "seconds",
    }
    assert fieldmouse(["lab", "network", "--policy", "hash", "--seconds", "4000"]) == 0
    assert "the best there could be" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--seconds", "5"), "too short to measure anything"),
        (("--seconds", "nan"), "too short to measure anything"),
        (("--shock", "slow", "--agents", "3"), "strikes agent 4"),
        (("--agents", "0"), "cannot be played"),
        (("--hosts", "150"), "cannot be played by 4 agents"),
        (("--hosts", "0"), "cannot be played by 4 agents"),
        (("--hosts", "1000000", "--agents", "100"), "cannot be played by 100 agents"),
        (("--sigma-ob", "0"), "makes no sense"),
        (("--seed", "-1"), "is negative"),
    ],
)
def test_invalid_network_settings_are_refused_with_a_message(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], complaint: str
) -> None:
    assert fieldmouse(["lab", "network", *words]) == 2
    assert complaint in capsys.readouterr().err
