"""Plans that pack sites onto nodes: nothing is lost or doubled, no node is too full, and few sites move."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.policy.site_packing.plan import HostWeight, PackingPlan, SiteShare, SiteWeight, plan_packing

polls = st.one_of(st.just(0.0), st.floats(1e-6, 1000), st.integers(1, 900).map(float))


@st.composite
def sites(draw: st.DrawFn) -> list[SiteWeight]:
    weights = draw(st.lists(polls, max_size=25))
    found = []
    for number, weight in enumerate(weights):
        name, hosts = f"s{number}.org", draw(st.integers(0, 4))
        parts = tuple(HostWeight(f"h{part}.{name}", weight / hosts, 10 * number) for part in range(hosts))
        found.append(SiteWeight(name, weight, 10 * number * (hosts or 1), parts))
    return found


def key(share: SiteShare) -> tuple[str, str, int]:
    return share.site, share.host, share.part


def check(plan: PackingPlan, wanted: list[SiteWeight]) -> None:
    shares = [share for node in plan.nodes for share in node.sites]
    assert len(set(map(key, shares))) == len(shares)
    for site in wanted:
        mine = [share for share in shares if share.site == site.site]
        assert sum(share.polls for share in mine) == pytest.approx(site.polls)
        assert sum(share.pages for share in mine) == (site.pages if site.polls else 0)
        assert all(share.polls <= plan.capacity for share in mine)
        if site.polls <= plan.capacity:
            assert [share.host for share in mine] == [""] * bool(site.polls)
        else:
            assert {share.host for share in mine} == ({host.host for host in site.hosts} or {""})
            assert site.site in plan.large
    for node in plan.nodes:
        assert node.sites
        assert node.polls == pytest.approx(sum(share.polls for share in node.sites))
        assert node.polls <= plan.capacity * (1 + 1e-9)
        assert len({(share.site, share.host) for share in node.sites}) == len(node.sites), "parts together"
    assert len({node.node for node in plan.nodes}) == len(plan.nodes)
    assert math.ceil(plan.polls / plan.capacity * (1 - 1e-6)) <= plan.at_least + 1
    assert plan.at_least <= len(plan.nodes)


@settings(deadline=None)
@given(sites())
def test_a_plan_has_every_site_once_and_no_node_too_full(wanted: list[SiteWeight]) -> None:
    check(plan_packing(wanted, 400, 0.0), wanted)


@settings(deadline=None)
@given(sites(), sites())
def test_the_next_plan_is_one_too_and_tells_every_move(first: list[SiteWeight], later: list[SiteWeight]) -> None:
    before = plan_packing(first, 400, 0.0)
    after = plan_packing(later, 400, 1.0, before)
    check(after, later)
    was = {key(share): node.node for node in before.nodes for share in node.sites}
    now = {key(share): node.node for node in after.nodes for share in node.sites}
    moved = {(move.site, move.host, move.part): (move.before, move.after) for move in after.moved}
    assert moved == {name: (was[name], now[name]) for name in was.keys() & now.keys() if was[name] != now[name]}


@settings(deadline=None)
@given(sites())
def test_nothing_moves_while_nothing_changes(wanted: list[SiteWeight]) -> None:
    before = plan_packing(wanted, 400, 0.0)
    after = plan_packing(wanted, 400, 1.0, before)
    assert after.moved == ()
    assert after.nodes == before.nodes


def test_weights_that_fill_nodes_exactly_need_no_extra_node() -> None:
    for share in range(1, 17):
        wanted = [SiteWeight(f"s{number}.org", 400 / share) for number in range(3 * share)]
        plan = plan_packing(wanted, 400, 0.0)
        assert len(plan.nodes) == plan.at_least == 3, share


def test_a_site_larger_than_a_node_is_cut_and_named() -> None:
    plan = plan_packing([SiteWeight("large.org", 1000, 7), SiteWeight("small.org", 50)], 400, 0.0)
    assert plan.large == ("large.org",)
    assert len(plan.nodes) == plan.at_least == 3
    parts = [share for node in plan.nodes for share in node.sites if share.site == "large.org"]
    assert sorted(share.part for share in parts) == [1, 2, 3]
    assert sum(share.pages for share in parts) == 7


def test_a_site_larger_than_a_node_is_packed_host_by_host() -> None:
    hosts = tuple(HostWeight(f"h{number}.large.org", 200, 10) for number in range(5))
    plan = plan_packing([SiteWeight("large.org", 1000, 50, hosts), SiteWeight("small.org", 150)], 400, 0.0)
    assert len(plan.nodes) == plan.at_least == 3
    shares = [share for node in plan.nodes for share in node.sites if share.site == "large.org"]
    assert {share.host: share.parts for share in shares} == {host.host: 1 for host in hosts}


def test_nodes_keep_their_numbers_when_one_is_saved() -> None:
    names = ("a.org", "b.org", "c.org")
    before = plan_packing([SiteWeight(name, 300) for name in names], 400, 0.0)
    after = plan_packing([SiteWeight("b.org", 50), SiteWeight("c.org", 300)], 400, 1.0, before)
    home = {share.site: node.node for node in before.nodes for share in node.sites}
    assert [node.node for node in after.nodes] == [home["c.org"]]
    assert [(move.site, move.after) for move in after.moved] == [("b.org", home["c.org"])]


def test_drifting_weights_move_few_sites() -> None:
    rng = np.random.default_rng(5)
    weights = rng.uniform(5, 150, 80)
    plan, moved = None, 0
    for step in range(20):
        weights = weights * np.exp(0.02 * rng.standard_normal(80))
        wanted = [SiteWeight(f"s{number}.org", float(weight)) for number, weight in enumerate(weights)]
        plan = plan_packing(wanted, 400, float(step), plan)
        moved += len(plan.moved)
    assert 0 < moved < 20 * 80 * 0.1
