"""Division of a host's visits between polls of known pages and new URLs; none is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.frontier.workbench import Workbench
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import FrontierEntry, Request
from fieldmouse.url import Host, Url

from .test_frontier import NOW, frontier_at, links, resolved

HOST = Host("http://a.example")


@given(share=st.floats(0.0, 1.0), most=st.integers(1, 8), used=st.lists(st.integers(0, 8), min_size=1, max_size=40))
def test_polls_get_their_share_for_any_number_of_urls_per_visit(share: float, most: int, used: list[int]) -> None:
    amount = sum(used) + 9  # so that neither queue runs empty
    polls = set(range(1000, 1000 + amount))
    bench = Workbench(polls=polls, share=share)
    bench.add_urls(HOST, HostState(), range(amount))
    bench.add_urls(HOST, HostState(), sorted(polls))
    visited: list[int] = []
    for asked in used:
        lease = bench.take_ready_host(0.0, most, 100)
        assert lease is not None
        visited += lease.numbers[:asked]
        bench.return_host(HOST, HostState(), lease.numbers[asked:])
    asked_again = [number for number in visited if number in polls]
    assert abs(len(asked_again) - share * len(visited)) <= 1.0
    assert asked_again == sorted(asked_again)
    assert [n for n in visited if n not in polls] == list(range(len(visited) - len(asked_again)))
    assert bench.url_count == 2 * amount - len(visited)


@pytest.mark.parametrize(("share", "first"), [(0.0, "new"), (1.0, "poll")])
def test_a_share_of_zero_or_one_only_delays_the_other_kind(share: float, first: str) -> None:
    bench = Workbench(polls={10, 11}, share=share)
    bench.add_urls(HOST, HostState(), [1, 10, 2, 11])
    lease = bench.take_ready_host(0.0, 4, 100)
    assert lease is not None
    assert lease.numbers == ([1, 2, 10, 11] if first == "new" else [10, 11, 1, 2])


def test_after_a_restart_polls_are_still_polls(tmp_path: Path) -> None:
    frontier = frontier_at(tmp_path, share=1.0)
    frontier.discover(links("http://a.example/1", "http://a.example/2"))
    assert frontier.take_visit(NOW) is not None  # brings at least one online
    frontier.enqueue_polls(links("http://a.example/p"))
    state, _ = frontier.seal()
    frontier.close()
    again = frontier_at(tmp_path, AutoAdvanceClock(NOW + 10), share=1.0, state=state)
    visit = again.take_visit(NOW + 20.0)
    assert visit is not None
    assert [ticket.frontier_entry for ticket in visit.tickets][:2] == [FrontierEntry.POLLED, FrontierEntry.DISCOVERED]


def visit_all(frontier: Frontier, clock: AutoAdvanceClock) -> list[str]:
    """Visit every URL that can be taken, one after the other."""
    found: list[str] = []
    while (visit := frontier.take_visit(clock.now())) is not None:
        found += [ticket.link.url for ticket in visit.tickets]
        frontier.mark_durably_done([ticket.number for ticket in visit.tickets])
        frontier.end_visit(visit, resolved(visit, address=visit.host))
    return found


def seen(at: float, *urls: str) -> list[Request]:
    return [Request(Url(url), seen_at=at) for url in urls]


def test_urls_waiting_before_a_refresh_stay_and_new_ones_are_visited(tmp_path: Path) -> None:
    clock = AutoAdvanceClock(NOW)
    frontier = frontier_at(tmp_path, clock, errand_links=2)
    old = [f"http://h{n % 5}.example/{n}" for n in range(400)]
    frontier.discover(seen(NOW, *old))
    visit = frontier.take_visit(NOW)  # some online, some in queues, most of them not drawn yet
    assert visit is not None
    state, _ = frontier.seal()
    frontier.close()

    clock = AutoAdvanceClock(NOW + 100)
    held = frontier_at(tmp_path, clock, errand_links=2, state=state, hold_before=NOW + 50)
    assert held.held_for_refresh_count == held.waiting_count == 400
    assert held.ready_at() is None
    new = [f"http://h{n % 7}.example/new/{n}" for n in range(90)]
    held.discover(seen(NOW + 100, *new))
    held.enqueue_polls(seen(NOW - 5, "http://h0.example/known"))
    state, _ = held.seal()  # a kill, before anything was visited
    held.close()
    held = frontier_at(tmp_path, clock, errand_links=2, state=state, hold_before=NOW + 50)
    assert (held.waiting_count, held.held_for_refresh_count, held.waiting_polls) == (490, 400, 1)
    clock.advance(10.0)
    assert sorted(visit_all(held, clock)) == sorted([*new, "http://h0.example/known"])
    assert (held.waiting_count, held.held_for_refresh_count, held.waiting_polls) == (400, 400, 0)
    assert held.ready_at() is None
    state, _ = held.seal()
    held.close()

    clock.advance(10.0)
    free = frontier_at(tmp_path, clock, errand_links=2, state=state)
    clock.advance(10.0)
    assert sorted(visit_all(free, clock)) == sorted(old)
    assert (free.waiting_count, free.held_for_refresh_count) == (0, 0)
