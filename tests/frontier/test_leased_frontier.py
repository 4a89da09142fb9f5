"""Leased frontier: hosts that leave, hosts that are wanted, and polls of known pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.frontier.agent_frontier import AgentFrontier
from fieldmouse.frontier.durable_parts import open_frontier_parts
from fieldmouse.frontier.protocol import SettledUrl
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import FrontierEntry, Request
from fieldmouse.url import Host, Url

A = Host("http://a.test")
STATE = HostState(address="10.0.0.1")
TURN = 60.0


class Listener:
    """Lease source that records all calls."""

    are_leases_valid, waiting_urls_in_crawl = True, 1
    cut_off = False  # the agent's view of its network

    def __init__(self) -> None:
        self.wished: list[Host] = []
        self.back: list[tuple[Host, int, list[str]]] = []
        self.taken: list[Host] = []
        self.idle: list[bool] = []  # for each returned host, whether it was idle
        self.dropped_links_by_setting: dict[str, int] = {}

    def report_links(self, links: Sequence[Request], keys: Sequence[int]) -> None: ...

    def should_make_next_visit(self, host: Host, state: HostState, visits: int) -> bool:
        return True

    def request_more_urls(self, host: Host, epoch: int) -> None: ...

    def request_hosts_for_polls(self, hosts: Sequence[Host]) -> None:
        self.wished += hosts

    def return_host(
        self, host: Host, epoch: int, state: HostState, unused: Sequence[Request], *, idle: bool = False
    ) -> None:
        self.idle.append(idle)
        self.back.append((host, epoch, [link.url for link in unused]))

    def forget_lost_host(self, host: Host) -> None:
        self.taken.append(host)

    def return_url_for_retry(self, host: Host, epoch: int, link: Request) -> None: ...

    def report_settled(self, urls: Sequence[SettledUrl]) -> None: ...


@pytest.fixture
def lease_source() -> Listener:
    return Listener()


@pytest.fixture
def clock() -> AutoAdvanceClock:
    return AutoAdvanceClock(1000.0)


@pytest.fixture
def frontier(tmp_path: Path, lease_source: Listener, clock: AutoAdvanceClock) -> Iterator[AgentFrontier]:
    parts = open_frontier_parts(
        tmp_path / "frontier", None, key_seed=7, now=clock.now(), resumed_delay=lambda _: 1.0, run_size=1000
    )
    frontier = AgentFrontier(
        parts,
        lease_source=lease_source,
        clock=clock,
        rule=FrontSizeRule(4, 8),
        key_seed=7,
        errand_links=16,
        state=None,
        turn=lambda: TURN,
        rests=lambda: lease_source.cut_off,
    )
    frontier.roll_back_to_checkpoint()
    yield frontier
    frontier.close()


def link(number: int, not_before: float = 0.0) -> Request:
    return Request(Url(f"{A}/{number}"), not_before=not_before)


def polled(frontier: AgentFrontier, now: float) -> list[str]:
    """Return the polls of the next host visit."""
    visit = frontier.take_visit(now)
    assert visit is not None
    assert all(ticket.link.door is FrontierEntry.POLLED for ticket in visit.tickets)
    return sorted(ticket.link.url for ticket in visit.tickets)


def test_polls_of_a_lost_host_are_made_when_it_is_leased_again(
    frontier: AgentFrontier, lease_source: Listener, clock: AutoAdvanceClock
) -> None:
    """Some of them are online, and one rests."""
    frontier.add_leased_host(A, 1, [link(9)], STATE, 0)
    frontier.enqueue_polls([link(1), link(2), link(3, not_before=clock.now() + 10.0)])
    lease_source.wished.clear()
    frontier.drop_lease(A, 1)
    assert lease_source.wished == [A], "the coordinator is asked for it again"
    assert lease_source.taken == [A]
    assert frontier.waiting_polls == 3
    assert frontier.take_visit(clock.now()) is None
    frontier.add_leased_host(A, 2, [], STATE, 0)
    assert polled(frontier, clock.now()) == [f"{A}/1", f"{A}/2"]
    assert frontier.waiting_polls == 3


def test_a_host_returned_after_its_turn_leaves_its_polls_here(
    frontier: AgentFrontier, lease_source: Listener, clock: AutoAdvanceClock
) -> None:
    """The coordinator gets its URLs back; only this agent can poll its known pages."""
    frontier.add_leased_host(A, 1, [link(8), link(9)], STATE, 0)
    visit = frontier.take_visit(clock.now())
    assert visit is not None
    frontier.enqueue_polls([link(1), link(2)])
    clock.advance(TURN)
    lease_source.wished.clear()
    frontier.end_visit(visit, STATE, visit.tickets)
    assert lease_source.back == [(A, 1, [f"{A}/8", f"{A}/9"])]
    assert lease_source.idle == [False]
    assert (lease_source.wished, frontier.waiting_polls) == ([A], 2)
    frontier.add_leased_host(A, 2, [], STATE, 0)
    assert polled(frontier, clock.now()) == [f"{A}/1", f"{A}/2"]


def test_a_host_revoked_during_a_visit_is_dropped_after_the_visit(
    frontier: AgentFrontier, lease_source: Listener, clock: AutoAdvanceClock
) -> None:
    frontier.add_leased_host(A, 1, [link(8), link(9)], STATE, 0)
    visit = frontier.take_visit(clock.now())
    assert visit is not None
    frontier.drop_all_leases()
    assert (lease_source.taken, frontier.lease_count) == ([], 1)
    frontier.end_visit(visit, STATE, visit.tickets)
    assert (lease_source.taken, lease_source.back, frontier.lease_count) == ([A], [], 0)


def test_an_idle_host_is_returned_as_idle_and_others_are_not(
    frontier: AgentFrontier, lease_source: Listener, clock: AutoAdvanceClock
) -> None:
    frontier.add_leased_host(A, 1, [link(9)], STATE, 0)
    visit = frontier.take_visit(clock.now())
    assert visit is not None
    frontier.end_visit(visit, STATE)
    assert (lease_source.back, lease_source.idle) == ([(A, 1, [])], [True])


def test_an_agent_without_network_keeps_one_idle_host(
    frontier: AgentFrontier, lease_source: Listener, clock: AutoAdvanceClock
) -> None:
    """Hosts with a fetch worker, or with polls that only this agent can make, stay."""
    hosts = [Host(f"http://{letter}.test") for letter in "bcdef"]
    for number, host in enumerate([A, *hosts]):
        state = HostState(address=f"10.0.0.{number}", ready_at=clock.now() + number)
        frontier.add_leased_host(host, number + 1, [Request(Url(f"{host}/{n}")) for n in range(2)], state, 0)
    visit = frontier.take_visit(clock.now())
    assert visit is not None
    assert visit.host == A
    frontier.enqueue_polls([Request(Url(f"{hosts[0]}/9"))])
    frontier.hand_over_unvisited_hosts()
    gone = [host for host, _, _ in lease_source.back]
    assert len(set(gone)) == len(hosts) - 2, "all but the one with a poll, and one to test"
    assert set(gone) < set(hosts[1:])
    assert all(urls == [f"{host}/0", f"{host}/1"] for host, _, urls in lease_source.back)
    assert lease_source.idle == [False] * len(gone), "other agents should get them"
    assert frontier.lease_count == 3
    frontier.hand_over_unvisited_hosts()
    assert frontier.lease_count == 3


def test_an_agent_without_network_wants_only_one_host(frontier: AgentFrontier, lease_source: Listener) -> None:
    assert frontier.hosts_wanted == 4
    lease_source.cut_off = True
    assert frontier.hosts_wanted == 1
    frontier.add_leased_host(A, 1, [link(1)], STATE, 0)
    assert frontier.hosts_wanted == 0
    lease_source.cut_off = False
    assert frontier.hosts_wanted == 3
