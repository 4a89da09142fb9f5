"""Polls that wait for leases of their hosts: none is lost, and each host is requested in time."""

from __future__ import annotations

from fieldmouse.clock import ManualClock
from fieldmouse.frontier.host_leases import REMIND, LeasedPolls, polls_by_host
from fieldmouse.types.request import Door, Link
from fieldmouse.url import Host, Url

A, B = Host("http://a.test"), Host("http://b.test")


def link(host: Host, number: int) -> Link:
    return Link(Url(f"{host}/{number}"))


def test_a_host_is_requested_once_and_again_after_a_while() -> None:
    clock = ManualClock(1000.0)
    wishes: list[list[Host]] = []
    polls = LeasedPolls(lambda hosts: wishes.append(list(hosts)), clock)
    polls.remind(clock.now())
    polls.wait(A, [link(A, 1), link(A, 2)])
    polls.wait(A, [link(A, 3)])
    polls.wait(B, [link(B, 1)])
    polls.wait(B, [])
    assert wishes == [[A], [B]]
    polls.remind(clock.now() + REMIND / 2)
    assert len(wishes) == 2
    polls.remind(clock.now() + REMIND)
    assert wishes[2:] == [[A, B]]
    assert [one.url for one in polls.take(A)] == [link(A, n).url for n in (1, 2, 3)]
    assert polls.take(A) == []
    polls.remind(clock.now() + 2 * REMIND)
    assert wishes[3:] == [[B]]
    assert len(polls) == 1


def test_a_closing_agent_requests_no_hosts() -> None:
    wishes: list[list[Host]] = []
    polls = LeasedPolls(lambda hosts: wishes.append(list(hosts)), ManualClock(1000.0))
    polls.wait(A, [link(A, 1)], wished=False)
    assert (wishes, len(polls)) == ([], 1)


def test_a_poll_counts_until_its_ticket_is_closed() -> None:
    polls = LeasedPolls(lambda hosts: None, ManualClock(1000.0))
    polls.wait(A, [link(A, 1)])
    (known,) = polls.take(A)
    assert len(polls) == 0, "its caller has it"
    polls.add(7, known)
    assert (7 in polls, 8 in polls, len(polls)) == (True, False, 1)
    assert polls.strike(8) is None
    assert polls.strike(7) == known
    assert not len(polls)


def test_known_pages_become_polls_grouped_by_host() -> None:
    lines = polls_by_host([link(A, 1), link(B, 1), link(A, 2)])
    assert {host: len(line) for host, line in lines.items()} == {A: 2, B: 1}
    assert all((one.door, one.was) == (Door.POLLED, "page") for line in lines.values() for one in line)
