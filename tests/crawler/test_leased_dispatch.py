"""Requests of a leasing agent end with its lease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from cluster.pending_calls import a_chooser, a_mailbox
from fieldmouse.clock import Clock
from fieldmouse.cluster.client.pending_calls import LEASE_MARGIN, AddressLeases, HeartbeatDeadline
from fieldmouse.crawler.cluster_agent import LeasedFetcher
from fieldmouse.policy.politeness import Politeness
from fieldmouse.testing import virtual_time
from fieldmouse.testing.memory_coordinator import MemoryCoordinator, MemoryServer
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url

LEASE, TAKES = 10.0, 30.0
HERE, THERE = "10.0.0.1", "10.0.0.2"
HOST = Host("http://a.test")


class SlowWeb:
    """Responds to everything, late."""

    def __init__(self, clock: Clock):
        self._clock = clock

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        began = self._clock.now()
        await self._clock.sleep(TAKES)
        now = self._clock.now()
        return Response(200, b"", b"", b"", address, began, now, now)

    async def close(self) -> None:
        """There is nothing to close."""


Answered = tuple[Response | Failed, float]
"""A result, and the seconds it took."""


def asked(
    folder: Path, meanwhile: Callable[[LeasedFetcher, HeartbeatDeadline, Clock], Awaitable[None]]
) -> list[Answered]:
    """Request at two addresses at once; the results of both."""

    async def life(clock: Clock) -> list[Answered]:
        lease = HeartbeatDeadline(LEASE, clock.now)
        addresses = AddressLeases(MemoryCoordinator(MemoryServer(clock)), lease, clock, lambda address: None)
        calls = a_mailbox(folder, clock, lease, a_chooser())
        fetcher = LeasedFetcher(SlowWeb(clock), calls, addresses, Politeness())
        lease.renew(clock.now())

        async def ask(address: str) -> Answered:
            with fetcher.allow_address_during_visit(address):
                began = clock.now()
                return await fetcher.fetch(Request(Url("http://a.test/")), HOST, address), clock.now() - began

        both = asyncio.gather(ask(HERE), ask(THERE))
        await asyncio.sleep(0)
        await meanwhile(fetcher, lease, clock)
        return await both

    return virtual_time.run_in_virtual_time(life)


async def beat(fetcher: LeasedFetcher, lease: HeartbeatDeadline, clock: Clock) -> None:
    for _ in range(10):
        await clock.sleep(4.0)
        lease.renew(clock.now())
        fetcher.extend_request_deadlines()


def test_a_request_may_take_longer_than_a_lease_that_is_renewed(tmp_path: Path) -> None:
    for answer, seconds in asked(tmp_path, beat):
        assert isinstance(answer, Response)
        assert seconds == TAKES


def test_a_request_is_aborted_when_the_lease_expires(tmp_path: Path) -> None:
    async def silence(fetcher: LeasedFetcher, lease: HeartbeatDeadline, clock: Clock) -> None:
        await clock.sleep(20.0)
        lease.renew(clock.now())
        fetcher.extend_request_deadlines()  # too late: it was over

    for answer, seconds in asked(tmp_path, silence):
        assert isinstance(answer, Failed)
        assert (answer.reason, answer.detail) == (OutcomeReason.NO_CONNECTION, "our lease is over")
        assert seconds == LEASE * (1 - LEASE_MARGIN)


def test_requests_to_a_withdrawn_address_are_aborted_at_once(tmp_path: Path) -> None:
    async def refused(fetcher: LeasedFetcher, lease: HeartbeatDeadline, clock: Clock) -> None:
        await clock.sleep(3.0)
        fetcher.abort_requests_to_address(HERE)
        lease.renew(clock.now())
        fetcher.extend_request_deadlines()
        await beat(fetcher, lease, clock)

    (here, left_after), (there, took) = asked(tmp_path, refused)
    assert isinstance(here, Failed)
    assert left_after == 3.0
    assert isinstance(there, Response)
    assert took == TAKES
