"""Choice of the agent to ask when a host cannot be reached, from the status of the agents."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from fieldmouse.clock import ManualClock
from fieldmouse.cluster.client.membership import table_of
from fieldmouse.cluster.client.placement import Colleagues
from fieldmouse.cluster.coordinator import Advert, AgentNote
from fieldmouse.policy.outage import WHILE
from fieldmouse.types.host import HostState, Unreached
from fieldmouse.types.reason import Reason


def note(
    agent: str, machine: str, *, alive: bool = True, draining: bool = False, resting: bool = False
) -> AgentNote:
    advert = msgspec.msgpack.encode(Advert(machine=machine, resting=resting))
    return AgentNote(agent, 1, alive, draining, advert, 0.0)


ME = note("me", "here")
WELL = note("well", "there")
GONE = [note("dead", "a", alive=False), note("leaving", "b", draining=True)]
GONE += [note("cut off", "c", resting=True)]


def meeting(notes: Sequence[AgentNote], clock: ManualClock | None = None) -> Colleagues:
    colleagues = Colleagues(clock or ManualClock(1000.0), np.random.default_rng(1), "here")
    colleagues.meet("me", notes)
    return colleagues


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("other", GONE, ids=lambda other: other.agent)
def test_agents_that_take_no_hosts_are_not_asked(other: AgentNote, final: bool) -> None:
    colleagues = meeting([ME, other])
    assert not colleagues.present
    assert colleagues.hand_on(HostState(), Reason.NO_CONNECTION, final=final) is None
    both = meeting([ME, other, WELL])
    assert both.present
    noted = both.hand_on(HostState(), Reason.NO_CONNECTION, final=final)
    assert noted is not None
    assert noted.unreached == (Unreached("me", "here", Reason.NO_CONNECTION, 1000.0 + WHILE, counts=final),)
    assert {both.heir(HostState(), noted) for _ in range(20)} == {"well"}


def test_no_host_is_sent_to_a_draining_or_offline_agent() -> None:
    table = table_of([ME, WELL, *GONE])
    takes = dict(zip(table.names, table.alive, strict=True))
    assert takes == {"cut off": False, "leaving": False, "me": True, "well": True}


def test_a_local_network_failure_is_no_second_opinion() -> None:
    """One has no network, the host refuses the other: a third is asked before that counts."""
    ours = meeting([ME, WELL]).hand_on(HostState(), Reason.NO_CONNECTION, final=False)
    assert ours is not None
    theirs = Colleagues(ManualClock(1000.0), np.random.default_rng(1), "there")
    theirs.meet("well", [ME, WELL, note("third", "elsewhere")])
    refused = theirs.hand_on(ours, Reason.NO_CONNECTION, final=True)
    assert refused is not None
    assert theirs.heir(ours, refused) == "third"
    verdict = meeting([ME, WELL]).hand_on(HostState(), Reason.NO_CONNECTION, final=True)
    assert verdict is not None
    assert theirs.hand_on(verdict, Reason.NO_CONNECTION, final=True) is None, "two machines agree"


def test_a_host_handed_on_does_not_come_back_for_a_while() -> None:
    clock = ManualClock(1000.0)
    mine = meeting([ME, WELL]).hand_on(HostState(), Reason.NO_ADDRESS, final=False)
    assert mine is not None
    theirs = Colleagues(clock, np.random.default_rng(1), "there")
    theirs.meet("well", [ME, WELL])
    assert theirs.hand_on(mine, Reason.NO_ADDRESS, final=False) is None
    clock.advance(WHILE)
    again = theirs.hand_on(mine, Reason.NO_ADDRESS, final=False)
    assert again is not None
    assert theirs.heir(mine, again) == "me"
