"""Outbox of an agent: messages are kept until they are safe at the coordinator."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast
from unittest.mock import Mock

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.cluster.client.coordinator_outbox import (
    KEEP_SENT_SECONDS,
    AckedUrl,
    LinksMessage,
    Outbox,
    OutboxState,
    stored_link_messages,
)
from fieldmouse.cluster.client.pending_calls import ClusterPageQuota, HeartbeatDeadline
from fieldmouse.cluster.client.session import ClusterSession
from fieldmouse.cluster.coordinator import (
    AgentId,
    CrawlSpec,
    HeartbeatId,
    HeartbeatRequest,
    LinkOffer,
    ReservationRequest,
    SiteBounds,
)
from fieldmouse.storage.checkpoint import Checkpoint
from fieldmouse.testing.memory_coordinator import MemoryCoordinator, MemoryServer
from fieldmouse.url import Host

from .pending_calls import a_chooser, a_mailbox, a_session


def found(name: str) -> LinksMessage:
    return LinksMessage(Host(f"http://{name}"), ((1, b"row"),))


def test_an_answer_in_transit_does_not_mark_messages_to_be_sent_again_as_sent(tmp_path: Path) -> None:
    """The server restarts while an answer arrives: it is unknown which of the two runs sent it."""
    tellings = Outbox(tmp_path / "board", None, lambda: 0.0)
    tellings.roll_back_to_checkpoint()
    old, fresh = found("old.example"), found("fresh.example")
    tellings.add_links(old)
    assert tellings.next_batch(1) == [old]
    tellings.mark_sent(1)
    tellings.add_links(fresh)
    assert tellings.next_batch(1) == [fresh]
    tellings.requeue_sent()
    tellings.mark_sent(1)
    assert tellings.next_batch(10) == [old, fresh]
    tellings.mark_sent(2)
    assert not len(tellings)


def test_sent_messages_are_kept_until_long_after_a_later_heartbeat(tmp_path: Path) -> None:
    """Otherwise an old copy of the coordinator's data could not be detected."""
    clock = AutoAdvanceClock(1_000.0)
    tellings = Outbox(tmp_path / "board", None, clock.now)
    tellings.roll_back_to_checkpoint()

    def checkpoint() -> OutboxState:
        state = tellings.seal().state
        tellings.on_checkpoint_committed()
        return state

    def kept() -> int:
        return len(
            [*stored_link_messages(tmp_path / "board", Checkpoint(0.0, {}).with_part("board", checkpoint(), {}))]
        )

    tellings.add_links(found("a.example"))
    assert tellings.next_batch(9)
    tellings.record_answered_heartbeat(clock.now(), HeartbeatId("ada", 1, 1))  # before it was sent
    clock.advance(1.0)
    tellings.mark_sent(1)
    clock.advance(100.0)
    checkpoint()
    tellings.record_answered_heartbeat(clock.now(), HeartbeatId("ada", 1, 2))
    assert (kept(), checkpoint().since.number) == (1, 1), "told before a sign that was heard just now"
    clock.advance(KEEP_SENT_SECONDS + 1)
    assert kept() == 1
    tellings.record_answered_heartbeat(clock.now(), HeartbeatId("ada", 1, 3))
    assert (kept(), checkpoint().since) == (0, HeartbeatId("ada", 1, 2))
    last = Checkpoint(0.0, {}).with_part("board", checkpoint(), {})
    tellings.close()
    assert Outbox(tmp_path / "board", last, clock.now).safe_heartbeat == HeartbeatId("ada", 1, 2)


def test_pages_in_flight_stay_reserved_after_a_server_restart(tmp_path: Path) -> None:
    """Sent messages are sent again, and must not be taken off twice."""
    clock, limit, air = AutoAdvanceClock(1_700_000_000.0), 40, 0
    server = MemoryServer(clock)
    board, ada, bob = MemoryCoordinator(server), AgentId("ada", 1), AgentId("bob", 1)
    tellings = Outbox(tmp_path / "board", None, clock.now)
    tellings.roll_back_to_checkpoint()
    tellings.set_agent(ada)
    lease = HeartbeatDeadline(60.0, clock.now)
    lease.set_holder(ada)
    mailbox = a_mailbox(tmp_path, clock, lease, a_chooser(), tellings)
    allowance = ClusterPageQuota(limit, mailbox, hosts=lambda: 4, every=5.0)
    allowance.set_in_flight_counter(lambda: air)
    session = a_session(board, tmp_path, mailbox, allowance)

    async def bring() -> None:
        await session._send_outbox()
        clock.advance(2.0)
        await allowance.renew_if_due(board, ada)

    async def life() -> None:
        nonlocal air
        await board.create_crawl(CHARTER)
        for name in (ada, bob):
            await board.join(name, 60.0)
        await board.offer_links([LinkOffer(A, "test", [(key, b"row") for key in range(60)])], SiteBounds())
        (grant,) = await board.lease_hosts(ada, 1, 60)
        for _ in range(20):
            await bring()
        while allowance.has_room() and air < 20:
            air += 1
        assert air > 12
        air -= 12
        tellings.add_acks({(A, grant.epoch): [AckedUrl(key, f"{A}/{key}", "page") for key in range(12)]})
        tellings.seal()
        tellings.on_checkpoint_committed()
        await bring()
        server.restart()
        allowance.make_renewal_due(tellings.requeue_sent())  # as the session does
        await bring()
        for _ in range(9):
            for name in (ada, bob):
                await board.heartbeat(name, HeartbeatRequest(b"", 60.0))
            clock.advance(10.0)
        others = 0
        for _ in range(100):
            others = await board.reserve_pages(bob, ReservationRequest(limit, others, limit))
        booked = (await board.acked_page_count()).acked
        assert booked == 12
        assert booked + air + others <= limit

    asyncio.run(life())


CHARTER = CrawlSpec(key_seed=7, settings="", seeds=())
A = Host("http://a.test")


def test_an_acknowledged_outcome_is_not_rejected_when_it_is_sent_again_after_a_fence(tmp_path: Path) -> None:
    """One of two outcomes is sent in time; then the agent is fenced, joins again, and sends both."""
    clock = AutoAdvanceClock(1_700_000_000.0)
    board = MemoryCoordinator(MemoryServer(clock))
    first, second = AgentId("ada", 1), AgentId("ada", 2)
    urls = [AckedUrl(1, "http://a.test/in-time", "page"), AckedUrl(2, "http://a.test/late", "page")]

    lease = HeartbeatDeadline(10.0, clock.now)

    def opened(last: Checkpoint | None) -> tuple[Outbox, ClusterSession, Mock]:
        tellings = Outbox(tmp_path / "board", last, clock.now)
        tellings.roll_back_to_checkpoint()
        tellings.set_agent(first)
        mailbox = a_mailbox(tmp_path, clock, lease, a_chooser(), tellings)
        session = a_session(board, tmp_path, mailbox, ClusterPageQuota(0, mailbox, hosts=lambda: 0, every=5.0))
        return tellings, session, cast(Mock, mailbox.outcomes.record_rejected)

    async def life() -> None:
        await board.create_crawl(CHARTER)
        await board.join(first, 10.0)
        await board.offer_links([LinkOffer(A, "test", [(url.key, b"row") for url in urls])], SiteBounds())
        (grant,) = await board.lease_hosts(first, 1, 10)
        tellings, session, rejected = opened(None)
        lease.set_holder(first)
        for number, url in enumerate(urls):
            tellings.add_acks({(A, grant.epoch): [url]})
            sealed = tellings.seal()
            tellings.on_checkpoint_committed()
            if number == 0:
                await session._send_outbox()
        await board.join(second, 10.0)  # fences the first

        lease.set_holder(second)
        await session._send_outbox()
        rejected.assert_called_once_with([urls[1]], clock.now())

        # The same after a kill: both are sent again, and the coordinator knows which it received.
        again, session, rejected = opened(Checkpoint(0.0, {}).with_part("board", sealed.state, {}))
        assert len(again) == 2
        await session._send_outbox()
        rejected.assert_called_once_with([urls[1]], clock.now())
        assert len(again) == 0

    asyncio.run(life())
