"""Agent with a failure that is plainly its own, and the hosts it leaves to another agent, played by the test.

The played agent sends heartbeats, and takes hosts only to look at them. So hosts that the agent gave up by
itself are told apart from hosts that others took. In the end another agent fetches everything in any case.
"""

from __future__ import annotations

import math
import socket
from pathlib import Path

import msgspec
import pytest

from fieldmouse.clock import Clock
from fieldmouse.cluster.client.host_placement import status_or_default
from fieldmouse.cluster.client.identity import read_identity
from fieldmouse.cluster.coordinator import AgentId, AgentReport, HeartbeatRequest, ListedAgent
from fieldmouse.policy.local_outage import NOTE_SECONDS
from fieldmouse.testing import virtual_time
from fieldmouse.testing.faults import FaultKind
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.host_state import HostState
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.url import Host, Url, host_of

from .pair import Pair

STEP, LEASE, HEARTBEAT = 0.25, 30.0, 5.0
LITERAL = MeadowOptions(hosts=12, pages=60, seeds=3, seed=8, page_kb=1.0, links=12, gamma=0.4, latency=0.1)
RESTFUL = msgspec.structs.replace(LITERAL, hosts=24, pages=300, robots=1.0, crawl_delay_share=0.5, crawl_delay=19.0)
NAMED = msgspec.structs.replace(LITERAL, named=True)


class PlayedAgent:
    """Another agent in the cluster, on another machine."""

    name = AgentId("played", 1)

    def __init__(self, pair: Pair, *, resting: bool):
        self._pair, self._board = pair, pair.board()
        # Reports so high a load that no host is sent to it for its proximity.
        advert = AgentReport(backlog=1e6, machine="elsewhere", resting=resting)
        self._advert = msgspec.msgpack.encode(advert)

    async def beat(self) -> ListedAgent | None:
        """Send a heartbeat; returns the status of the other agent, if it is there yet."""
        pulse = await self._board.heartbeat(self.name, HeartbeatRequest(self._advert, LEASE))
        return next((note for note in pulse.agents if note.agent != self.name.agent), None)

    @classmethod
    async def joined(cls, pair: Pair, *, resting: bool = False) -> PlayedAgent:
        played = cls(pair, resting=resting)
        await played._board.join(cls.name, LEASE)
        await played.beat()
        return played

    async def take(self) -> dict[Host, HostState]:
        """All hosts granted to us, as they come."""
        grants = await self._board.lease_hosts(self.name, 99, 99)
        return {each.host: msgspec.msgpack.decode(each.payload.state, type=HostState) for each in grants}

    def held_by_the_other(self) -> int:
        hosts = self._pair.servers[0].crawls["fieldmouse"].hosts.values()
        return sum(record.holder not in (None, self.name) for record in hosts)


FAILS = [
    (FaultKind.NO_NETWORK, LITERAL, 0.0, 3.0, OutcomeReason.NO_CONNECTION),
    (FaultKind.NO_NETWORK, LITERAL, 0.5, 4.0, OutcomeReason.NO_CONNECTION),
    (FaultKind.NO_ROUTE, LITERAL, 0.0, 3.0, OutcomeReason.NO_CONNECTION),
    (FaultKind.NO_DESCRIPTORS, LITERAL, 0.0, 3.0, OutcomeReason.NO_CONNECTION),
    (FaultKind.NO_DESCRIPTORS, LITERAL, 0.5, 4.0, OutcomeReason.NO_CONNECTION),
    (FaultKind.DNS_FAILS, NAMED, 0.0, 3.0, OutcomeReason.NO_ADDRESS),
    (FaultKind.DNS_SILENT, NAMED, 0.0, 18.0, OutcomeReason.NO_ADDRESS),  # 15 s until a lookup is given up
]
"""A failure, its start (robots.txt has been read after half a second), and the deadline for another to have
the host."""


@pytest.mark.parametrize(
    ("ill", "meadow", "since", "by", "reason"), FAILS, ids=[f"{ill.name}-{since:g}" for ill, _, since, *_ in FAILS]
)
def test_a_host_we_cannot_reach_goes_to_another_agent_at_once(
    tmp_path: Path, ill: FaultKind, meadow: MeadowOptions, since: float, by: float, reason: OutcomeReason
) -> None:
    """After one try and the first put-off of 2 s, with a note that says nothing about the host."""

    async def life(clock: Clock) -> tuple[Pair, dict[Host, HostState]]:
        pair = Pair(tmp_path, clock, meadow=meadow)
        await pair.start("ill", [ill], (since, math.inf))
        played = await PlayedAgent.joined(pair)
        given: dict[Host, HostState] = {}
        while clock.now() < virtual_time.EPOCH + by:
            await clock.sleep(STEP)
            await played.beat()
            given |= await played.take()
        await pair.kill("ill")
        return pair, given

    pair, given = virtual_time.run_in_virtual_time(life)
    assert given.keys() == {host_of(Url(seed)) for seed in pair.meadow.seeds}
    identity = read_identity(tmp_path / "ill")
    assert identity is not None
    for state in given.values():
        (note,) = state.unreached
        assert (note.agent, note.machine) == (identity.agent, socket.gethostname())
        assert (note.reason, note.counts, note.until) == (reason, False, pytest.approx(NOTE_SECONDS))
        assert (state.failures, state.verdict) == (0, "")


Seen = tuple[float, bool, int]
"""Time, whether the agent reports that it rests, and the number of hosts it holds."""
CUT, BACK = 8.0, 100.0


def seen_of_one_cut_off(folder: Path, *, both: bool) -> list[Seen]:
    """Half of the hosts ask for rests of 19 s, so that the agent is cut off before it tries them again."""

    async def life(clock: Clock) -> list[Seen]:
        pair = Pair(folder, clock, meadow=RESTFUL)
        await pair.start("ill", [FaultKind.NO_NETWORK], (CUT, BACK))
        played = await PlayedAgent.joined(pair, resting=both)
        seen: list[Seen] = []
        while clock.now() < virtual_time.EPOCH + 180.0:
            await clock.sleep(STEP)
            note = await played.beat()
            assert note is not None
            seen.append((clock.now() - virtual_time.EPOCH, status_or_default(note).resting, played.held_by_the_other()))
        await pair.kill("ill")
        return seen

    seen = virtual_time.run_in_virtual_time(life)
    assert max(held for at, _, held in seen if at < CUT) > 10
    return seen


def test_an_agent_without_network_reports_it_and_returns_untried_hosts(tmp_path: Path) -> None:
    """It keeps one to try, and the worker that checks the network may have another."""
    seen = seen_of_one_cut_off(tmp_path, both=False)
    rests = [at for at, resting, _ in seen if resting]
    assert CUT < rests[0] < 30.0
    assert BACK < rests[-1] < BACK + 60.0 + HEARTBEAT, "it looks every minute"
    assert len(rests) == (rests[-1] - rests[0]) / STEP + 1, "all the time"
    assert min(held for at, _, held in seen if CUT < at < rests[0]) > 5, "not before it knows"
    # Its actions after the outage show in its next heartbeat.
    assert max(held for at, _, held in seen if rests[0] < at < rests[-1] - HEARTBEAT) <= 2
    assert max(held for at, _, held in seen if at > rests[-1]) > 2, "it works again"


def test_an_agent_without_network_keeps_its_hosts_if_all_others_are_down_too(tmp_path: Path) -> None:
    seen = seen_of_one_cut_off(tmp_path, both=True)
    assert min(held for at, resting, held in seen if resting and at < BACK) > 5
