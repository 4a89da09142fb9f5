"""Tests of the frontier's public interface."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.errors import UsageError
from fieldmouse.frontier.durable_parts import FrontierState
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.frontier.url_lookup import UrlPlace, locate_url
from fieldmouse.policy.distribution.registry import POLICIES
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import FrontierEntry, HostVisit, Request
from fieldmouse.url import Url

NOW = 1_000_000.0


def frontier_at(directory: Path, clock: AutoAdvanceClock | None = None, **given: object) -> Frontier:
    settings = {"policy": POLICIES["index"](), "resumed_delay": lambda _: 1.0} | given
    frontier = Frontier(directory, key_seed=7, clock=clock or AutoAdvanceClock(NOW), **settings)  # type: ignore[arg-type]
    frontier.roll_back_to_checkpoint()
    return frontier


def links(*urls: str) -> list[Request]:
    return [Request(Url(url)) for url in urls]


def resolved(visit: HostVisit, wait: float = 0.0, address: str = "10.0.0.1") -> HostState:
    return msgspec.structs.replace(visit.state, address=address, ready_at=NOW + wait, address_ready_at=NOW + wait)


def test_a_link_can_be_taken_as_soon_as_it_is_discovered(tmp_path: Path) -> None:
    frontier = frontier_at(tmp_path)
    assert frontier.take_visit(NOW) is None
    assert frontier.ready_at() is None
    frontier.discover(links("http://a.example/1"))
    assert frontier.ready_at() == 0.0
    visit = frontier.take_visit(NOW)
    assert visit is not None
    assert [ticket.link for ticket in visit.tickets] == links("http://a.example/1")
    assert visit.address == ""


def test_a_link_discovered_twice_is_visited_once(tmp_path: Path) -> None:
    frontier = frontier_at(tmp_path)
    frontier.discover(links("http://a.example/1", "http://a.example/1"))
    assert frontier.take_visit(NOW) is not None
    frontier.discover(links("http://a.example/1"))
    frontier.seal()
    assert frontier.seen_count == 1
    assert frontier.waiting_count == 1
    assert frontier.take_visit(NOW) is None


def test_unused_tickets_come_back_first_and_keep_their_numbers(tmp_path: Path) -> None:
    frontier = frontier_at(tmp_path, errand_links=3)
    frontier.discover(links(*(f"http://a.example/{n}" for n in range(6))))
    first = frontier.take_visit(NOW)
    assert first is not None
    frontier.end_visit(first, resolved(first), first.tickets)
    second = frontier.take_visit(NOW)
    assert second is not None
    assert second.tickets[0] == first.tickets[0]
    assert second.address == "10.0.0.1"


def test_a_retry_rests_while_other_urls_of_its_host_are_visited(tmp_path: Path) -> None:
    clock = AutoAdvanceClock(NOW)
    frontier = frontier_at(tmp_path, clock, errand_links=1)
    frontier.discover(links("http://a.example/1", "http://a.example/2"))
    visit = frontier.take_visit(NOW)
    assert visit is not None
    (ticket,) = visit.tickets
    frontier.retry_ticket(ticket.number, msgspec.structs.replace(ticket.link, tries=1, not_before=NOW + 60.0))
    frontier.end_visit(visit, resolved(visit))
    other = frontier.take_visit(NOW)
    assert other is not None
    assert [t.link.url for t in other.tickets] == ["http://a.example/2"]
    frontier.end_visit(other, resolved(other))
    assert frontier.take_visit(NOW + 59.0) is None
    assert frontier.ready_at() == NOW + 60.0
    late = frontier.take_visit(NOW + 60.0)
    assert late is not None
    assert late.tickets[0].link.tries == 1
    assert late.tickets[0].number != ticket.number
    assert frontier.waiting_count == 2


def test_an_abandoned_host_is_ready_at_once_and_in_large_batches(tmp_path: Path) -> None:
    frontier = frontier_at(tmp_path, errand_links=2)
    frontier.discover(links(*(f"http://a.example/{n}" for n in range(40))))
    seen = 0
    visit = frontier.take_visit(NOW)
    assert visit is not None
    verdict = msgspec.structs.replace(resolved(visit, wait=3600.0), verdict="host given up")
    visits = 1
    while visit is not None:
        seen += len(visit.tickets)
        frontier.end_visit(visit, verdict)
        visit = frontier.take_visit(NOW)
        visits += visit is not None
    assert seen == 40
    assert visits < 40 // 2


def test_the_front_widens_when_no_host_is_ready(tmp_path: Path) -> None:
    frontier = frontier_at(tmp_path, front=FrontSizeRule(minimum=2, maximum=50))
    frontier.discover(links(*(f"http://h{n}.example/" for n in range(100))))
    taken = 0
    while frontier.take_visit(NOW) is not None:
        taken += 1
    assert frontier._width == 50
    assert taken == 50


def test_many_hosts_behind_one_address_do_not_fill_the_front(tmp_path: Path) -> None:
    frontier = frontier_at(
        tmp_path, front=FrontSizeRule(minimum=10, maximum=10), policy=POLICIES["index"](per_address=2)
    )
    crowd = [f"http://c{n}.example/{page}" for n in range(30) for page in range(3)]
    frontier.discover(links(*crowd, *(f"http://m{n}.example/" for n in range(8))))
    for _ in range(60):
        visit = frontier.take_visit(NOW)
        if visit is None:
            break
        if visit.address:
            continue  # a fetch worker stays there
        name = visit.host.removeprefix("http://")
        address = "10.0.0.1" if name.startswith("c") else name
        frontier.end_visit(visit, resolved(visit, address=address), visit.tickets)
    assert frontier.online_host_count == 10
    assert frontier.ready_host_count(NOW) == 0
    frontier.seal()
    assert frontier.waiting_count == len(crowd) + 8


def test_look_finds_the_place_of_each_url(tmp_path: Path) -> None:
    clock = AutoAdvanceClock(NOW)
    frontier = frontier_at(
        tmp_path, clock, front=FrontSizeRule(minimum=1, maximum=1), policy=POLICIES["index"](), errand_links=1
    )
    frontier.discover(links("http://a.example/1", "http://a.example/2"))
    visit = frontier.take_visit(NOW)
    assert visit is not None
    frontier.end_visit(visit, resolved(visit, wait=30.0))
    frontier.mark_durably_done([visit.tickets[0].number])
    assert frontier.take_visit(NOW) is None
    frontier.discover(links("http://a.example/3", "http://b.example/1", "http://b.example/2"))
    state = frontier.seal().state

    def at(url: str) -> tuple[UrlPlace, int]:
        found = locate_url(tmp_path, state, 7, Url(url))
        return found.place, found.ahead

    assert at("http://a.example/1") == (UrlPlace.DONE, 0)
    assert at("http://a.example/2") == (UrlPlace.ONLINE, 0)
    assert at("http://a.example/3") == (UrlPlace.READY, 0)
    assert at("http://b.example/2") == (UrlPlace.READY, 2)
    assert at("http://nowhere.example/") == (UrlPlace.UNKNOWN, 0)
    standing = locate_url(tmp_path, state, 7, Url("http://a.example/2")).host
    assert standing is not None
    assert standing.ready_at == NOW + 30.0


def test_after_a_restart_no_host_is_visited_before_its_delay(tmp_path: Path) -> None:
    clock = AutoAdvanceClock(NOW)
    frontier = frontier_at(tmp_path, clock)
    frontier.discover(links("http://a.example/1", "http://b.example/1"))
    state = frontier.seal().state
    frontier.on_checkpoint_committed()
    frontier.close()
    again = frontier_at(tmp_path, clock, state=state, resumed_delay=lambda _: 5.0)
    assert again.take_visit(NOW) is None
    assert again.ready_at() == NOW + 5.0
    assert again.take_visit(NOW + 5.0) is not None


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_host_visits_of_a_crawl_without_kills_hold_every_url_once(tmp_path: Path, policy: str) -> None:
    frontier = frontier_at(tmp_path, policy=POLICIES[policy](), front=FrontSizeRule(minimum=3, maximum=20))
    urls = [f"http://h{n * n % 37}.example/{n}" for n in range(3000)]
    frontier.discover(links(*urls))
    met: list[str] = []
    while (visit := frontier.take_visit(NOW)) is not None:
        met += [ticket.link.url for ticket in visit.tickets]
        frontier.end_visit(visit, resolved(visit, address=visit.host))
        frontier.mark_durably_done([ticket.number for ticket in visit.tickets])
    assert sorted(met) == sorted(urls)
    assert frontier.waiting_count == 0


def visited(frontier: Frontier, clock: AutoAdvanceClock) -> list[tuple[str, FrontierEntry]]:
    """Visit and finish everything that can be taken; returns the URLs with their origin."""
    found = []
    while (visit := frontier.take_visit(clock.now())) is not None:
        found += [(str(ticket.link.url), ticket.frontier_entry) for ticket in visit.tickets]
        frontier.end_visit(visit, resolved(visit))
        frontier.mark_durably_done([ticket.number for ticket in visit.tickets])
    return found


def test_a_ticket_names_its_origin_and_a_poll_changes_no_other_counts(tmp_path: Path) -> None:
    clock = AutoAdvanceClock(NOW)
    frontier = frontier_at(tmp_path, clock)
    one, two, three = (f"http://a.example/{n}" for n in range(3))
    frontier.discover(links(one, two))
    assert visited(frontier, clock) == [(one, FrontierEntry.DISCOVERED), (two, FrontierEntry.DISCOVERED)]
    frontier.enqueue_polls(links(one))
    frontier.discover(links(one, three))
    state = frontier.seal().state
    assert (state.seen, state.done, state.waiting, state.polls) == (3, 2, 1, 1)
    frontier.close()
    frontier = frontier_at(tmp_path, clock, state=state)
    clock.advance(1.0)
    assert frontier.waiting_polls == 1
    assert sorted(visited(frontier, clock)) == [(one, FrontierEntry.POLLED), (three, FrontierEntry.DISCOVERED)]
    assert (frontier.seen_count, frontier.settled_count, frontier.waiting_count, frontier.waiting_polls) == (3, 3, 0, 0)


def test_a_poll_that_is_tried_again_is_still_a_poll(tmp_path: Path) -> None:
    clock = AutoAdvanceClock(NOW)
    frontier = frontier_at(tmp_path, clock)
    frontier.discover(links("http://a.example/"))
    visited(frontier, clock)
    frontier.enqueue_polls(links("http://a.example/"))
    visit = frontier.take_visit(NOW)
    assert visit is not None
    frontier.end_visit(visit, resolved(visit))
    (ticket,) = visit.tickets
    frontier.retry_ticket(ticket.number, msgspec.structs.replace(ticket.link, tries=1))
    assert (frontier.settled_count, frontier.waiting_count, frontier.waiting_polls) == (1, 0, 1)
    assert visited(frontier, clock) == [("http://a.example/", FrontierEntry.POLLED)]
    frontier.mark_durably_done([ticket.number])  # a closed number is ignored
    assert (frontier.settled_count, frontier.waiting_count, frontier.waiting_polls) == (1, 0, 0)


def test_a_readmitted_link_waits_like_a_new_one(tmp_path: Path) -> None:
    clock = AutoAdvanceClock(NOW)
    frontier = frontier_at(tmp_path, clock)
    frontier.discover(links("http://a.example/"))
    visited(frontier, clock)
    frontier.requeue_withdrawn_outcomes(links("http://a.example/"))
    assert (frontier.seen_count, frontier.settled_count, frontier.waiting_count, frontier.waiting_polls) == (1, 0, 1, 0)
    assert visited(frontier, clock) == [("http://a.example/", FrontierEntry.DISCOVERED)]
    assert (frontier.seen_count, frontier.settled_count, frontier.waiting_count) == (1, 1, 0)


def test_a_crawl_that_exchanged_hosts_is_refused(tmp_path: Path) -> None:
    frontier = frontier_at(tmp_path)
    sealed = msgspec.to_builtins(frontier.seal().state)
    frontier.close()
    shipments = [[], [], [], 2, [[1, "http://a.example", "b", 3, 120]], {}, [0, 0]]
    early = msgspec.msgpack.encode(sealed | {"shipments": shipments})
    state = msgspec.msgpack.decode(early, type=FrontierState)
    with pytest.raises(UsageError, match="hosts were exchanged by the crawl"):
        frontier_at(tmp_path, state=state)
