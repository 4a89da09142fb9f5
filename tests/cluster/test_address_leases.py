"""Address leases of an agent after a server restart."""

from __future__ import annotations

import asyncio

from fieldmouse.clock import Clock
from fieldmouse.cluster.client.pending_calls import AddressLeases, HeartbeatDeadline
from fieldmouse.cluster.coordinator import AgentId, CrawlSpec, LinkOffer, SiteBounds
from fieldmouse.testing import virtual_time
from fieldmouse.testing.memory_coordinator import MemoryCoordinator, MemoryServer
from fieldmouse.url import Host

ADA, A = AgentId("ada", 1), Host("http://a.test")
KEPT, FREED = "10.0.0.1", "10.0.0.2"


def test_an_address_that_a_restarted_server_forgot_is_left_at_once() -> None:
    async def life(clock: Clock) -> list[list[str]]:
        server = MemoryServer(clock)
        board = MemoryCoordinator(server)
        await board.create_crawl(CrawlSpec(7, "", ()))
        await board.join(ADA, 100.0)
        await board.offer_links([LinkOffer(A, "test", [(1, b"row")])], SiteBounds())
        (grant,) = await board.lease_hosts(ADA, 1, 10)
        lease = HeartbeatDeadline(100.0, clock.now)
        lease.set_holder(ADA)
        lease.renew(clock.now())
        refused = list[str]()
        addresses = AddressLeases(board, lease, clock, refused.append)
        serving = asyncio.ensure_future(addresses.send_calls_forever())
        before, told = server.snapshot(), []
        for address in (KEPT, FREED):
            assert (await addresses.lease_address(address, A, grant.epoch, 1.0)).granted
        addresses.release_address(FREED, clock.now())
        await clock.sleep(1.0)
        server.restart()  # it loses nothing
        await addresses.reacquire_held_addresses()
        told.append([*refused])
        for _ in range(2):
            server.restart(before)
            await addresses.reacquire_held_addresses()
            told.append([*refused])
        serving.cancel()
        return told

    assert virtual_time.run_in_virtual_time(life) == [[], [KEPT], [KEPT]]
