"""Choice of the agent to ask when a host cannot be reached, from the status of the agents."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.cluster.client.host_placement import UnreachableHostReferrer, agent_table
from fieldmouse.cluster.coordinator import AgentReport, ListedAgent
from fieldmouse.policy.local_outage import NOTE_SECONDS
from fieldmouse.types.host_state import AgentConnectFailure, HostState
from fieldmouse.types.reason import OutcomeReason


def note(agent: str, machine: str, *, alive: bool = True, draining: bool = False, resting: bool = False) -> ListedAgent:
    advert = msgspec.msgpack.encode(AgentReport(machine=machine, resting=resting))
    return ListedAgent(agent, 1, alive, draining, advert, 0.0)


ME = note("me", "here")
WELL = note("well", "there")
GONE = [note("dead", "a", alive=False), note("leaving", "b", draining=True)]
GONE += [note("cut off", "c", resting=True)]


def meeting(notes: Sequence[ListedAgent], clock: AutoAdvanceClock | None = None) -> UnreachableHostReferrer:
    colleagues = UnreachableHostReferrer(clock or AutoAdvanceClock(1000.0), np.random.default_rng(1), "here")
    colleagues.set_other_agents("me", notes)
    return colleagues


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("other", GONE, ids=lambda other: other.agent)
def test_agents_that_take_no_hosts_are_not_asked(other: ListedAgent, final: bool) -> None:
    colleagues = meeting([ME, other])
    assert not colleagues.other_agents_take_hosts
    assert colleagues.offer_to_others(HostState(), OutcomeReason.NO_CONNECTION, final=final) is None
    both = meeting([ME, other, WELL])
    assert both.other_agents_take_hosts
    noted = both.offer_to_others(HostState(), OutcomeReason.NO_CONNECTION, final=final)
    assert noted is not None
    assert noted.unreached == (
        AgentConnectFailure("me", "here", OutcomeReason.NO_CONNECTION, 1000.0 + NOTE_SECONDS, counts=final),
    )
    assert {both.next_agent_to_try(HostState(), noted) for _ in range(20)} == {"well"}


def test_no_host_is_sent_to_a_draining_or_offline_agent() -> None:
    table = agent_table([ME, WELL, *GONE])
    takes = dict(zip(table.names, table.alive, strict=True))
    assert takes == {"cut off": False, "leaving": False, "me": True, "well": True}


def test_a_local_network_failure_is_no_second_opinion() -> None:
    """One has no network, the host refuses the other: a third is asked before that counts."""
    ours = meeting([ME, WELL]).offer_to_others(HostState(), OutcomeReason.NO_CONNECTION, final=False)
    assert ours is not None
    theirs = UnreachableHostReferrer(AutoAdvanceClock(1000.0), np.random.default_rng(1), "there")
    theirs.set_other_agents("well", [ME, WELL, note("third", "elsewhere")])
    refused = theirs.offer_to_others(ours, OutcomeReason.NO_CONNECTION, final=True)
    assert refused is not None
    assert theirs.next_agent_to_try(ours, refused) == "third"
    verdict = meeting([ME, WELL]).offer_to_others(HostState(), OutcomeReason.NO_CONNECTION, final=True)
    assert verdict is not None
    assert theirs.offer_to_others(verdict, OutcomeReason.NO_CONNECTION, final=True) is None, "two machines agree"


def test_a_host_handed_on_does_not_come_back_for_a_while() -> None:
    clock = AutoAdvanceClock(1000.0)
    mine = meeting([ME, WELL]).offer_to_others(HostState(), OutcomeReason.NO_ADDRESS, final=False)
    assert mine is not None
    theirs = UnreachableHostReferrer(clock, np.random.default_rng(1), "there")
    theirs.set_other_agents("well", [ME, WELL])
    assert theirs.offer_to_others(mine, OutcomeReason.NO_ADDRESS, final=False) is None
    clock.advance(NOTE_SECONDS)
    again = theirs.offer_to_others(mine, OutcomeReason.NO_ADDRESS, final=False)
    assert again is not None
    assert theirs.next_agent_to_try(mine, again) == "me"
