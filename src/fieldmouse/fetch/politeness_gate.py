"""Per-host and per-address gate before every request: one at a time, delays kept.

The workbench already gives a host and its address to one fetch worker at a time. The gate enforces this
for every request, also for a robots.txt that redirects to another host, or after a bug elsewhere.
Invariant: between `enter` and `leave` no other request is inside for that host or that address.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from fieldmouse.clock import Clock
from fieldmouse.http.client import Fetcher
from fieldmouse.http.dns import Resolver
from fieldmouse.robotstxt.parser import RobotsTxtCache
from fieldmouse.url import Host

_SWEEP_AT = 10_000


class PolitenessGate:
    def __init__(self, clock: Clock):
        self._clock = clock
        self._inside: dict[str, deque[asyncio.Future[None]]] = {}
        self._free_at: dict[str, float] = {}
        self._sweep_at = _SWEEP_AT

    async def enter(self, host: Host, address: str) -> None:
        """Wait until host and address are free and rested, then occupy them."""
        inside, free_at = self._inside, self._free_at
        while True:
            queue = inside.get(host)
            if queue is None:
                queue = inside.get(address)
            if queue is not None:
                turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                queue.append(turn)
                await turn
                continue
            early = max(free_at.get(host, 0.0), free_at.get(address, 0.0)) - self._clock.now()
            if early <= 0:
                break
            await self._clock.sleep(early)
        inside[host] = inside[address] = deque()

    def seconds_until_free(self, host: Host) -> float:
        """Seconds until the host may be visited, as far as the gate knows; negative if it may be now."""
        return self._free_at.get(host, 0.0) - self._clock.now()

    def close_host_until(self, host: Host, until: float) -> None:
        """Close the host until then; never shortens a wait.

        For a wait that is known only once the response has been read, such as a Crawl-delay.
        """
        self._free_at[host] = max(until, self._free_at.get(host, 0.0))

    def leave(self, host: Host, address: str, host_free_at: float, address_free_at: float) -> None:
        """Free host and address for the next request, from the given times on."""
        queue = self._inside.pop(host)
        self._inside.pop(address, None)
        self.close_host_until(host, host_free_at)
        self._free_at[address] = max(address_free_at, self._free_at.get(address, 0.0))
        for turn in queue:
            if not turn.done():
                turn.set_result(None)
        if len(self._free_at) > self._sweep_at:
            self._forget_rested()

    def _forget_rested(self) -> None:
        now = self._clock.now()
        self._free_at = {name: at for name, at in self._free_at.items() if at > now}
        self._sweep_at = max(_SWEEP_AT, 2 * len(self._free_at))


@dataclass(frozen=True, slots=True)
class FetchServices:
    """Everything a request passes through."""

    fetcher: Fetcher
    resolver: Resolver
    gate: PolitenessGate
    robots_txt_cache: RobotsTxtCache
    clock: Clock
