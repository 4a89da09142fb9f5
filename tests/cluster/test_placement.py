"""Data that an agent keeps while it chooses where hosts go: on hosts it holds, and no others."""

from __future__ import annotations

from pathlib import Path

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.cluster.client.pending_calls import HeartbeatDeadline
from fieldmouse.policy.balance.agent_choice import AgentTable
from fieldmouse.types.host_state import AgentConnectFailure, HostState
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.url import Host

from .pending_calls import a_chooser, a_mailbox

A, B = Host("http://a.test"), Host("http://b.test")


def test_no_data_is_kept_on_a_host_that_is_not_held(tmp_path: Path) -> None:
    """A robots.txt may redirect to any number of hosts, and a host may be revoked at any time."""
    clock, chooser = AutoAdvanceClock(1000.0), a_chooser()
    mailbox = a_mailbox(tmp_path, clock, HeartbeatDeadline(100.0, clock.now), chooser)
    chooser.record_round_trip(B, 0.1)
    assert B not in chooser
    for leave in (lambda: mailbox.forget_lost_host(A), lambda: mailbox.return_host(A, 1, HostState(), ())):
        chooser.add_held_host(A, b"")
        chooser.record_queue_time(A, 0.5)
        chooser.record_round_trip(A, 0.1)
        chooser.place_host_at(A, "another")
        assert A in chooser
        leave()
        assert A not in chooser
    for late in (chooser.record_queue_time, chooser.record_round_trip):
        late(A, 0.1)
    chooser.place_host_at(A, "another")
    assert A not in chooser, "its robot was still out"


def test_an_idle_host_is_placed_at_the_agent_it_is_near_to(tmp_path: Path) -> None:
    """It is released because it has no waiting URLs: the coordinator keeps it for this agent until others
    must help."""
    clock, chooser = AutoAdvanceClock(1000.0), a_chooser()
    chooser.set_agent_name("me")
    chooser.update_agents(AgentTable.from_names(["me", "you"]), {"me", "you"})
    mailbox = a_mailbox(tmp_path, clock, HeartbeatDeadline(100.0, clock.now), chooser)
    row = b""
    for _ in range(20):
        row = chooser._balancer.record_visit(row, "me", 0.1, 0.0)
        row = chooser._balancer.record_visit(row, "you", 100.0, 0.0)
    for idle, place in ((True, "me"), (False, "")):
        chooser.add_held_host(A, row)
        chooser.record_round_trip(A, 0.005)
        assert mailbox.should_make_next_visit(A, HostState(), 1)
        mailbox.return_host(A, 1, HostState(), (), idle=idle)
        assert [given.next_agent for given in mailbox.released_hosts.take_all()] == [place]
    chooser.add_held_host(B, b"")
    mailbox.return_host(B, 1, HostState(), (), idle=True)
    assert [given.next_agent for given in mailbox.released_hosts.take_all()] == [""], "nobody has chosen for it"


def test_an_unreachable_host_is_given_back_with_this_agent_excluded(tmp_path: Path) -> None:
    """For as long as the note says, and placed at the chosen agent; expired notes are not sent."""
    clock, chooser = AutoAdvanceClock(1000.0), a_chooser()
    chooser.set_agent_name("me")
    mailbox = a_mailbox(tmp_path, clock, HeartbeatDeadline(100.0, clock.now), chooser)
    notes = tuple(
        AgentConnectFailure(agent, "here", OutcomeReason.NO_CONNECTION, until, counts=False)
        for agent, until in (("me", 1600.0), ("dan", 1000.0))
    )
    chooser.add_held_host(A, b"")
    chooser.place_host_at(A, "you")
    state = HostState(unreached=notes)
    assert not mailbox.should_make_next_visit(A, state, 0)
    mailbox.return_host(A, 1, state, ())
    (given,) = mailbox.released_hosts.take_all()
    assert (given.next_agent, given.excluded_agents) == ("you", {"me": 600.0})
