"""The rules as a live agent asks them: twins of the simulation's, and rows that travel."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.errors import UsageError
from fieldmouse.policy.balance.agent_choice import (
    BALANCERS,
    MOST_AGENTS,
    AgentLoadTracker,
    AgentTable,
    HostDelayEstimates,
    IpMicraBalancer,
    find_balancer,
)
from fieldmouse.policy.balance.baselines import HashRing
from fieldmouse.policy.balance.priced import update_prices
from fieldmouse_lab.network import kernel
from fieldmouse_lab.network.environment import KernelParameters, NetworkTables
from fieldmouse_lab.network.play import NetworkGame, NetworkSetting, web_of_seed

NAMES = ["0", "1", "2", "3", "4"]


def simulation(policy: str) -> tuple[NetworkTables, KernelParameters]:
    """Tables of the lab's network of five agents, to be filled with what a test wants."""
    setting = NetworkSetting(policy, agents=len(NAMES))
    game = NetworkGame(setting, web_of_seed(setting, 1), 1)
    return game.tables, game._knobs


def table_of(tables: NetworkTables) -> AgentTable:
    """What live agents would know of those of the simulation."""
    return AgentTable(
        NAMES,
        tables.backlog.tolist(),
        tables.speed.tolist(),
        tables.price.tolist(),
        tables.alive.tolist(),
        tables.hosts.tolist(),
        tables.load.tolist(),
    )


@pytest.mark.parametrize("policy", [name for name in BALANCERS if name != "ipmicra"])
def test_a_live_agent_decides_as_the_simulation_does(policy: str) -> None:
    """Five agents, seven hosts: after each of 2,000 visits both have learned and chosen the same."""
    tables, knobs = simulation(policy)
    lots, theirs, ours = np.random.default_rng(1), np.random.default_rng(2), np.random.default_rng(2)
    balancer = find_balancer(policy)(ours)
    rows = dict.fromkeys(range(7), b"")
    tables.speed[:], tables.pace[:] = 1.0, 1.0
    chosen = []
    for _ in range(2000):
        tables.backlog[:] = lots.exponential(5.0, 5) * (lots.random(5) < 0.9)
        tables.price[:] = lots.normal(0.0, 0.5, 5)
        tables.hosts[:], tables.load[:] = lots.integers(0, 40, 5), lots.random(5)
        tables.alive[:] = lots.random(5) < 0.8
        tables.alive[lots.integers(5)] = True
        host, here = int(lots.integers(7)), int(lots.integers(5))
        near = abs(host % 5 - here) + 0.2
        tables.took[here] = near * lots.lognormal(0.0, 0.3)
        tables.process[here] = tables.took[here] + tables.backlog[here]
        if policy == "hash":
            alive = HashRing(name for name, lives in zip(NAMES, tables.alive, strict=True) if lives)
            tables.owner[host] = int(alive.owner(host))
        kernel._note(tables, knobs, host, here)
        their_choice = kernel.choose_agent(theirs, tables, knobs, host, here)
        waited = tables.process[here] - tables.took[here]
        rows[host] = balancer.record_visit(rows[host], NAMES[here], float(tables.took[here]), float(waited))
        agents = table_of(tables)
        if policy not in ("kalman", "hash"):
            assert balancer.load_of(NAMES[here]).speed == pytest.approx(tables.speed[here])
            agents.speed = tables.speed.tolist()
        assert balancer.choose(str(host), rows[host], here, agents) == their_choice
        chosen.append(their_choice)
    assert len(set(chosen)) == 5, "all agents are chosen now and then"
    if policy != "hash":
        kind = "delays" if policy == "kalman" else "trips"
        for host, row in rows.items():
            known = HostDelayEstimates.from_row(row, kind)
            for agent, name in enumerate(NAMES):
                place = known.agents.index(name)
                assert known.mean[place] == pytest.approx(tables.mean[host, agent])
                assert known.variance[place] == pytest.approx(tables.variance[host, agent])


def test_a_live_subnet_is_given_away_as_in_the_simulation() -> None:
    """One host, a subnet of its own, that all agents have measured."""
    tables, knobs = simulation("ipmicra")
    lots, dice = np.random.default_rng(3), np.random.default_rng(4)
    balancer = IpMicraBalancer(dice)
    row, here = b"", 0
    for name in NAMES * 2:
        row = balancer.record_visit(row, name, 3.0, 0.0)
    row = balancer.record_visit(row, NAMES[0], 1.0, 0.0)
    tables.subnet[0], tables.region[0], tables.keeper[0] = 0, 99, 0
    tables.complaints[:] = 0
    moves = 0
    for _ in range(500):
        tables.alive[:] = lots.random(5) < 0.9
        tables.alive[lots.integers(5)] = True
        tables.took[here] = lots.lognormal(0.7, 0.5)
        row = balancer.record_visit(row, NAMES[here], float(tables.took[here]), 0.0)
        tables.trip[0], _ = balancer.beliefs(HostDelayEstimates.from_row(row, "trips"), NAMES)
        agents = table_of(tables)
        chosen = kernel.choose_agent(dice, tables, knobs, 0, here)
        assert balancer.choose("0", row, here, agents) == chosen
        moves += chosen != here
        here = chosen
    assert moves > 50


def test_a_subnet_without_a_near_agent_is_probed_by_all_and_goes_to_the_nearest() -> None:
    balancer, agents = IpMicraBalancer(np.random.default_rng(5)), AgentTable.from_names(["a", "b", "c"])
    trips, row, here, visitors = {"a": 6.0, "b": 3.0, "c": 9.0}, b"", -1, []
    for _ in range(6):
        here = balancer.choose("h", row, here, agents)
        visitors.append(agents.names[here])
        row = balancer.record_visit(row, agents.names[here], trips[agents.names[here]], 0.0)
    assert sorted(visitors[:3]) == ["a", "b", "c"]
    assert visitors[3:] == ["b", "b", "b"]
    agents = AgentTable.from_names(["a", "b", "c", "d"])
    trips["d"], visitors = 2.5, []
    for _ in range(10):
        here = balancer.choose("h", row, here, agents)
        visitors.append(agents.names[here])
        row = balancer.record_visit(row, agents.names[here], trips[agents.names[here]], 0.0)
    assert visitors[-1] == "d", "complaints have it offered to the new one too"
    near = IpMicraBalancer(np.random.default_rng(5))
    row = near.record_visit(b"", "c", 0.5, 0.0)
    assert near.choose("h", row, 2, agents) == 2, "near enough: nobody else is asked"


@pytest.mark.parametrize("policy", BALANCERS)
@given(alive=st.lists(st.booleans(), min_size=1, max_size=6), here=st.integers(-1, 5), seed=st.integers(0, 99))
def test_only_live_agents_are_chosen(policy: str, alive: list[bool], here: int, seed: int) -> None:
    agents = AgentTable.from_names([f"agent-{place}" for place in range(len(alive))])
    agents.alive = alive
    balancer = find_balancer(policy)(np.random.default_rng(seed))
    row = balancer.record_visit(b"", "agent-0", 0.3, 1.0)
    row = balancer.record_visit(row, "one who has left", 0.1, 1.0)
    chosen = balancer.choose("a.example", row, min(here, len(alive) - 1), agents)
    assert alive[chosen] if any(alive) else chosen == -1


@pytest.mark.parametrize("policy", BALANCERS)
def test_an_unreadable_row_counts_as_empty(policy: str) -> None:
    agents = AgentTable.from_names(["a", "b"])
    for row in (b"\xc1", b"spam", HostDelayEstimates("of another kind", 3, ["a"], [1.0], [1.0]).to_row()):
        balancer, fresh = (
            find_balancer(policy)(np.random.default_rng(1)),
            find_balancer(policy)(np.random.default_rng(1)),
        )
        assert balancer.choose("h", row, 0, agents) == fresh.choose("h", b"", 0, agents)
        if policy != "hash":
            assert balancer.record_visit(row, "a", 1.0, 2.0) == fresh.record_visit(b"", "a", 1.0, 2.0)


def test_rows_of_earlier_versions_are_read() -> None:
    """A list whose fields are known by their order, as stored on coordinators."""
    told = ["trips", 40, 0.2, ["near", "far"], [0.1, 10.0], [0.01, 0.02], False, "near", 0]
    row, agents = msgspec.msgpack.encode(told), AgentTable.from_names(["far", "near"])
    for here in (-1, 0, 1):
        assert find_balancer("priced")(np.random.default_rng(1)).choose("h", row, here, agents) == 1


def test_a_row_identifies_agents_by_name_and_not_by_place() -> None:
    balancer = find_balancer("shortest-delay")(np.random.default_rng(1))
    row = b""
    for _ in range(20):
        row = balancer.record_visit(row, "near", 0.01, 0.0)
        row = balancer.record_visit(row, "far", 0.4, 0.0)
    for names in (["near", "far"], ["far", "near"], ["new", "far", "near"]):
        agents = AgentTable.from_names(names)
        assert names[balancer.choose("h", row, -1, agents)] == "near"


def test_the_belief_about_a_new_agent_gets_less_certain_with_visits_of_others() -> None:
    row = HostDelayEstimates("trips")
    for _ in range(10):
        row.learn_visit("a", 2.0, observation=1.0, transition=0.1, mean=1.0, variance=9.0)
    means, variances = row.beliefs(["b", "a"], mean=1.0, variance=9.0, transition=0.1)
    assert (means[0], variances[0]) == (1.0, pytest.approx(10.0))
    assert variances[1] < 1.0
    row.learn_visit("b", 3.0, observation=1.0, transition=0.1, mean=1.0, variance=9.0)
    assert row.mean[1] == pytest.approx((10.1 * 3.0 + 1.0) / 11.1)


def test_a_row_forgets_the_agents_it_knows_least_when_there_are_too_many() -> None:
    row = HostDelayEstimates("trips")
    for number in range(MOST_AGENTS + 5):
        row.learn_visit(f"a{number}", 1.0, observation=1.0, transition=0.1, mean=1.0, variance=9.0)
    assert len(row.agents) == len(row.mean) == len(row.variance) == MOST_AGENTS
    assert row.agents[0] == "a5"
    assert row.agents[-1] == f"a{MOST_AGENTS + 4}"


def test_agents_that_set_their_own_prices_reach_the_prices_of_the_simulation() -> None:
    agents, lots = AgentTable.from_names(NAMES), np.random.default_rng(7)
    prices = np.zeros(5)
    for _ in range(50):
        backlog = lots.exponential(5.0, 5)
        agents.backlog = backlog.tolist()
        update_prices(prices, backlog, np.ones(5, bool), 0.02)
        agents.price = [agents.next_price(agent, 0.02) for agent in range(5)]
        assert agents.price == pytest.approx(prices.tolist())


def test_an_unknown_balancer_raises_a_usage_error() -> None:
    with pytest.raises(UsageError, match="there is no balancer `best`") as told:
        find_balancer("best")
    assert "priced" in told.value.hint


def test_a_live_agent_needs_no_compiler() -> None:
    probe = "import sys, fieldmouse.policy.balance.agent_choice; print('numba' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True, text=True).stdout
    assert told.strip() == "False"


@pytest.mark.parametrize("beats", [1, 100, 4000])
@pytest.mark.parametrize("others", [1, 2, 9])
def test_agents_that_were_idle_for_long_still_have_a_price(beats: int, others: int) -> None:
    """What is left of an old backlog is smoothed away until it cannot be divided any more."""
    pace = AgentLoadTracker()
    pace.next_advert(12)
    backlog = [pace.next_advert(0) for _ in range(beats)][-1]
    assert backlog > 0.0
    table = AgentTable.from_names(["ada", *(f"bob {number}" for number in range(others))])
    table.backlog[0] = backlog
    assert abs(table.next_price(0)) < 1.0
