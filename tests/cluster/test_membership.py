"""Knowledge of the other agents when each heartbeat reply lists only some."""

from __future__ import annotations

import asyncio
from math import ceil

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinators import MemoryWorld
from fieldmouse.cluster.client.host_placement import HostPlacement, KnownAgents, agent_table, share_of_pages
from fieldmouse.cluster.coordinator import (
    MOST_LISTED_AGENTS,
    AgentId,
    AgentReport,
    Coordinator,
    CrawlSpec,
    CrawlTotals,
    HeartbeatReply,
    HeartbeatRequest,
    ListedAgent,
)
from fieldmouse.cluster.sharded.coordinator import ShardedCoordinator
from fieldmouse.cluster.sharded.sharding import merge_agents
from fieldmouse.policy.balance.agent_choice import find_balancer

LEASE = 100.0
ADA = AgentId("ada", 1)


def note(agent: str, *, pages: int = 0, backlog: float = 0.0, alive: bool = True) -> ListedAgent:
    return ListedAgent(agent, 1, alive, False, msgspec.msgpack.encode(AgentReport(backlog, pages=pages)), 0.0)


def pulse(notes: list[ListedAgent], members: int, upto: str = "") -> HeartbeatReply:
    return HeartbeatReply(CrawlTotals(), notes, members, members, upto, "run 1", 0.0, draining=False)


class Listener:
    """Ada, who sends heartbeats and keeps the replies."""

    def __init__(self, board: Coordinator) -> None:
        self.board, self.neighbours, self.upto = board, KnownAgents(), ""

    async def listen(self) -> set[str]:
        heard = await self.board.heartbeat(ADA, HeartbeatRequest(b"", LEASE, self.upto))
        self.upto = heard.last_listed
        return {note.agent for note in self.neighbours.update_from_reply(heard)}


async def founded(board: Coordinator, names: list[str]) -> Listener:
    await board.create_crawl(CrawlSpec(7, "", ()))
    await board.join(ADA, LEASE)
    for name in names:
        await board.join(AgentId(name, 1), LEASE)
    return Listener(board)


@given(st.sets(st.text(min_size=1, max_size=4), max_size=300), st.data())
def test_all_agents_are_known_after_one_round_and_left_ones_forgotten_after_two(
    others: set[str], data: st.DataObject
) -> None:
    others -= {"ada"}
    left = data.draw(st.sets(st.sampled_from(sorted(others)))) if others else set()

    async def story() -> None:
        ada = await founded(MemoryWorld().board(), sorted(others))
        everybody = {"ada", *others}
        for _ in range(ceil(len(everybody) / MOST_LISTED_AGENTS)):
            known = await ada.listen()
        assert known == everybody
        for name in left:
            await ada.board.leave(AgentId(name, 1))
        stay = everybody - left
        for _ in range(2 * ceil(len(stay) / MOST_LISTED_AGENTS)):
            known = await ada.listen()
            if len(stay) <= MOST_LISTED_AGENTS:
                assert known == stay, "as ever"
        assert known == stay

    asyncio.run(story())


def test_no_present_agent_is_forgotten_while_others_come_and_go() -> None:
    async def story() -> None:
        ada = await founded(MemoryWorld().board(), [f"stays {number:03}" for number in range(300)])
        staying = {f"stays {number:03}" for number in range(300)}
        for turn in range(40):
            for number in range(3):
                await ada.board.join(AgentId(f"visitor {turn} {number}", 1), LEASE)
                if turn:
                    await ada.board.leave(AgentId(f"visitor {turn - 1} {number}", 1))
            known = await ada.listen()
            assert turn < 5 or staying <= known
        assert len(known - staying) <= 3 * 13, "and those who went are forgotten"

    asyncio.run(story())


def test_an_agent_reported_dead_is_forgotten_at_once() -> None:
    neighbours, crowd = KnownAgents(), [note(f"{number:03}") for number in range(MOST_LISTED_AGENTS)]
    neighbours.update_from_reply(pulse(crowd, 100, "063"))
    known = neighbours.update_from_reply(pulse([note("001", alive=False)], 100, "001"))
    assert {note.agent for note in known} == {note.agent for note in crowd} - {"001"}


@pytest.mark.parametrize("heard", [2, 65, 999, 1000])
def test_the_share_of_an_agent_does_not_depend_on_how_many_are_listed(heard: int) -> None:
    notes = [note(f"{number:04}", pages=50) for number in range(heard)]
    assert share_of_pages(notes, "0001", 1000) == pytest.approx(1 / 1000)


def test_sent_hosts_count_until_the_receiver_reports_again() -> None:
    chooser = HostPlacement(find_balancer("priced")(np.random.default_rng(1)))
    chooser.set_agent_name("ada")
    notes = [note("ada"), note("bob", backlog=1.0), note("cyd", backlog=1.0)]
    chooser.update_agents(agent_table(notes), {"ada", "bob", "cyd"})
    chooser.agents.record_sent_host(1, 5.0)
    chooser.agents.record_sent_host(2, 5.0)
    chooser.update_agents(agent_table(notes), {"ada", "cyd"})
    assert chooser.agents.backlog == [0.0, 6.0, 1.0]


def test_agents_listed_by_different_servers_are_merged() -> None:
    first, second = [note("ada"), note("bob")], [note("ada"), note("cyd"), note("dan", alive=False)]
    told = {note.agent: note.alive for note in merge_agents([first, second], whole=False)}
    assert told == {"ada": True, "bob": True, "cyd": True, "dan": False}
    assert {note.agent for note in merge_agents([first, second]) if note.alive} == {"ada"}


def test_an_agent_on_one_server_only_hides_no_other() -> None:
    async def story() -> None:
        parts = [MemoryWorld().board() for _ in range(2)]
        names = [f"{number:03}" for number in range(2 * MOST_LISTED_AGENTS)]
        ada = await founded(ShardedCoordinator(dict(zip("xy", parts, strict=True))), names)
        await parts[1].join(AgentId("000 stray", 1), LEASE)
        for _ in range(4):
            known = await ada.listen()
        assert known >= {"ada", *names}

    asyncio.run(story())


def test_an_agent_not_listed_for_two_rounds_is_forgotten() -> None:
    members, neighbours = 3 * MOST_LISTED_AGENTS, KnownAgents()
    neighbours.update_from_reply(pulse([note("ada"), note("gone")], members, "gone"))
    rounds = [
        {one.agent for one in neighbours.update_from_reply(pulse([note("ada")], members, "ada"))} for _ in range(6)
    ]
    assert rounds == [{"ada", "gone"}] * 5 + [{"ada"}]
