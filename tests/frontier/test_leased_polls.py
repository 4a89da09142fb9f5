"""Polls that wait for leases of their hosts: none is lost, and each host is requested in time."""

from __future__ import annotations

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.frontier.host_leases import REPEAT_AFTER, UnfinishedPolls
from fieldmouse.frontier.workbench import polls_by_host
from fieldmouse.types.request import FrontierEntry, Request
from fieldmouse.url import Host, Url

A, B = Host("http://a.test"), Host("http://b.test")


def link(host: Host, number: int) -> Request:
    return Request(Url(f"{host}/{number}"))


def test_a_host_is_requested_once_and_again_after_a_while() -> None:
    clock = AutoAdvanceClock(1000.0)
    wishes: list[list[Host]] = []
    polls = UnfinishedPolls(lambda hosts: wishes.append(list(hosts)), clock)
    polls.repeat_host_requests(clock.now())
    polls.wait_for_lease(A, [link(A, 1), link(A, 2)])
    polls.wait_for_lease(A, [link(A, 3)])
    polls.wait_for_lease(B, [link(B, 1)])
    polls.wait_for_lease(B, [])
    assert wishes == [[A], [B]]
    polls.repeat_host_requests(clock.now() + REPEAT_AFTER / 2)
    assert len(wishes) == 2
    polls.repeat_host_requests(clock.now() + REPEAT_AFTER)
    assert wishes[2:] == [[A, B]]
    assert [one.url for one in polls.take_polls_of(A)] == [link(A, n).url for n in (1, 2, 3)]
    assert polls.take_polls_of(A) == []
    polls.repeat_host_requests(clock.now() + 2 * REPEAT_AFTER)
    assert wishes[3:] == [[B]]
    assert len(polls) == 1


def test_a_closing_agent_requests_no_hosts() -> None:
    wishes: list[list[Host]] = []
    polls = UnfinishedPolls(lambda hosts: wishes.append(list(hosts)), AutoAdvanceClock(1000.0))
    polls.wait_for_lease(A, [link(A, 1)], wished=False)
    assert (wishes, len(polls)) == ([], 1)


def test_a_poll_counts_until_its_ticket_is_closed() -> None:
    polls = UnfinishedPolls(lambda hosts: None, AutoAdvanceClock(1000.0))
    polls.wait_for_lease(A, [link(A, 1)])
    (known,) = polls.take_polls_of(A)
    assert len(polls) == 0, "its caller has it"
    polls.add_ticket(7, known)
    assert (7 in polls, 8 in polls, len(polls)) == (True, False, 1)
    assert polls.close_ticket(8) is None
    assert polls.close_ticket(7) == known
    assert not len(polls)


def test_known_pages_become_polls_grouped_by_host() -> None:
    lines = polls_by_host([link(A, 1), link(B, 1), link(A, 2)])
    assert {host: len(line) for host, line in lines.items()} == {A: 2, B: 1}
    assert all((one.door, one.was) == (FrontierEntry.POLLED, "page") for line in lines.values() for one in line)
