"""Share prices: agents with fewer hosts than others are cheaper, within bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.policy.balance.agent_choice import AgentTable, find_balancer
from fieldmouse.policy.balance.priced import PRICING, SHARING, SharePriceParameters, apparent_host_count, share_price

held = st.floats(0.0, 5000.0)
load = st.floats(0.0, 1.0)


def price_of(hosts: float, busy: float, mean: float, rule: SharePriceParameters = SHARING) -> float:
    full = apparent_host_count(hosts, busy, rule.few, rule.busy, rule.fuller)
    return share_price(full, mean, rule.most, rule.even, rule.slope)


@given(held, held, load, load, st.floats(4.0, 5000.0))
def test_more_hosts_or_more_load_never_make_an_agent_cheaper(
    hosts: float, more: float, busy: float, busier: float, mean: float
) -> None:
    price = price_of(hosts, busy, mean)
    assert price <= price_of(hosts + more, busy, mean)
    assert price <= price_of(hosts, max(busy, busier), mean)
    assert abs(price) <= SHARING.most


@given(st.lists(st.tuples(held, load), min_size=1, max_size=8))
def test_agents_that_are_alike_have_no_share_price(agents: list[tuple[float, float]]) -> None:
    for hosts, busy in agents:
        table = AgentTable.from_names(["a", "b", "c"])
        table.hosts, table.load = [hosts] * 3, [busy] * 3
        assert table.fair_share_prices(range(3)) == [0.0] * 3


def test_an_agent_without_a_host_count_has_no_share_price() -> None:
    table = AgentTable.from_names(["old", "full", "empty"])
    table.hosts = [-1.0, 100.0, 0.0]
    assert table.fair_share_prices(range(3)) == [0.0, SHARING.most, -SHARING.most]
    assert AgentTable.from_names(["a", "b"]).fair_share_prices(range(2)) == [0.0, 0.0]


@pytest.mark.parametrize(("hosts", "moves"), [((100, 0), True), ((100, 55), True), ((100, 80), False)])
@pytest.mark.parametrize("trip", [0.01, 1.0, 30.0])
def test_a_host_moves_for_a_fair_share_and_not_for_less(hosts: tuple[float, float], moves: bool, trip: float) -> None:
    assert moves_away(hosts, (0.0, 0.0), trip, trip) == moves


@pytest.mark.parametrize("hosts", [(1, 0), (2, 1), (4, 3)])
def test_a_difference_of_one_host_moves_nothing(hosts: tuple[float, float]) -> None:
    assert not moves_away(hosts, (0.0, 0.0), 1.0, 1.0)


def test_a_host_does_not_move_to_an_agent_that_is_several_times_as_far() -> None:
    """As much as a share can bring: one agent holds everything."""
    assert moves_away((1000, 0), (0.0, 0.0), 1.0, 1.5)
    assert not moves_away((1000, 0), (0.0, 0.0), 1.0, 3.0)


def test_a_busy_agent_gives_hosts_to_one_that_holds_as_many_and_is_not_busy() -> None:
    assert moves_away((50, 50), (1.0, 0.5), 1.0, 1.0)
    assert not moves_away((50, 50), (1.0, 1.0), 1.0, 1.0)
    assert not moves_away((50, 50), (0.0, 0.6), 1.0, 1.0), "a load below the limit is no reason to move"


def moves_away(hosts: tuple[float, float], busy: tuple[float, float], trip: float, trip_there: float) -> bool:
    """Whether most visits end with the host sent away, when both agents know it well."""
    balancer = find_balancer("priced")(np.random.default_rng(1))
    row = b""
    for _ in range(200):
        row = balancer.record_visit(row, "here", trip, 0.0)
        row = balancer.record_visit(row, "there", trip_there, 0.0)
    sent = 0
    for _ in range(300):
        table = AgentTable.from_names(["here", "there"])
        table.hosts, table.load = list(map(float, hosts)), list(busy)
        sent += balancer.choose("h", row, 0, table)
    assert sent <= 300 * (1.0 - PRICING.sticky) * 1.2
    return sent > 150 * (1.0 - PRICING.sticky)


@pytest.mark.parametrize("names", [2, 4, 10])
def test_hosts_of_one_agent_are_shared_and_then_stay(names: int) -> None:
    """Later they move only to try agents that never visited them, which becomes rare."""
    counts, moves = played(names)
    assert counts.max() <= 2 * counts.min(), counts
    assert sum(moves[40:]) <= 0.25 * 20 * 20 * names, moves
    assert sum(moves[40:]) <= 0.7 * sum(moves[:20]), moves


def played(names: int) -> tuple[np.ndarray, list[int]]:
    """Hosts of each agent at the end, and moves from one sign of life to the next.

    Agents decide by what all told at the last sign of life, after which each makes about 20 visits.
    """
    agents = [f"agent {number}" for number in range(names)]
    dice = np.random.default_rng(2)
    balancer = find_balancer("priced")(dice)
    hosts = 50 * names
    rows, at = [b""] * hosts, [0] * hosts
    moves: list[int] = []
    for _ in range(60):
        told = np.bincount(at, minlength=names).astype(float).tolist()
        tables = [AgentTable.from_names(agents) for _ in agents]
        moves.append(0)
        for table in tables:
            table.hosts = list(told)
        for host in dice.integers(0, hosts, 20 * names).tolist():
            here = at[host]
            tables[here].hosts[here] = float(at.count(here))
            rows[host] = balancer.record_visit(rows[host], agents[here], float(dice.lognormal(0.0, 0.1)), 0.0)
            at[host] = balancer.choose(f"h{host}", rows[host], here, tables[here])
            if at[host] != here:
                tables[here].record_sent_host(at[host], 0.0)
                moves[-1] += 1
    return np.bincount(at, minlength=names), moves
