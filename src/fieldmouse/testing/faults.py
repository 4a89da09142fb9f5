"""Faults: periods in which the network or the nameserver of a synthetic web fails, in the clock's time.

The fault is on our side of the wire: hosts see nothing of it, and requests that cannot be sent do not arrive.
`dead` hosts fail permanently, on their side.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Sequence
from enum import Enum

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.http.dns import DnsAnswer
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Host, hostname_of


class FaultKind(Enum):
    """Kind of fault."""

    NO_NETWORK = errno.ENETUNREACH
    NO_ROUTE = errno.EHOSTUNREACH
    NO_DESCRIPTORS = errno.EMFILE
    REFUSED = errno.ECONNREFUSED
    SILENT = errno.ETIMEDOUT
    DNS_FAILS = -1
    DNS_SILENT = -2
    DNS_DENIES = -3  # "no such name", for every name


class Fault(msgspec.Struct, frozen=True):
    """One fault from `began` until `ended`, in epoch seconds."""

    began: float
    ended: float
    ill: FaultKind

    def is_active(self, now: float) -> bool:
        return self.began <= now < self.ended


def _active_fault(spells: Sequence[Fault], now: float, dns: bool) -> FaultKind | None:
    ills = (spell.ill for spell in spells if spell.is_active(now))
    return next((ill for ill in ills if (ill.value < 0) == dns), None)


class FaultyFetcher(MeadowFetcher):
    """Meadow fetcher with faults. `unsent` records the requests that were not sent."""

    def __init__(self, meadow: Meadow, clock: Clock, spells: Sequence[Fault] = (), *, dead: Collection[Host] = ()):
        super().__init__(meadow, clock)
        self.unsent: list[tuple[float, Host]] = []
        self._spells, self._dead = spells, frozenset(dead)

    def kill_host(self, host: Host) -> None:
        """Make the host refuse connections from now on."""
        self._dead |= {host}

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        began = self._clock.now()
        ill = _active_fault(self._spells, began, dns=False)
        if ill is None and host in self._dead:
            ill = FaultKind.REFUSED
        if ill is not None:
            self.unsent.append((began, host))
            await self._clock.sleep(10.0 if ill is FaultKind.SILENT else 0.001)
            detail = os.strerror(ill.value).lower()
            number = 0 if ill is FaultKind.SILENT else ill.value  # the connection attempt times out on our side
            return Failed(link, OutcomeReason.NO_CONNECTION, self._clock.now(), detail, errno=number)
        answer = await super().fetch(link, host, address, body_limit=body_limit)
        cut = next((s for s in self._spells if began < s.began <= self._clock.now() and s.ill.value > 0), None)
        if cut is None or cut.ill is FaultKind.NO_DESCRIPTORS:
            return answer
        # The fault began while we waited for the response, which therefore never came.
        await self._clock.sleep(max(0.0, began + self._patience - self._clock.now()))
        return Failed(link, OutcomeReason.TIMEOUT, self._clock.now(), f"no answer in {self._patience:g} s")


class FaultyDns:
    """Nameserver of a meadow with names, with faults. Names in `mute` never get an answer."""

    def __init__(self, meadow: Meadow, clock: Clock, spells: Sequence[Fault] = (), *, mute: Collection[str] = ()):
        self._addresses = {hostname_of(Host(site.origin)): site.address for site in meadow.plan.sites}
        self._clock, self._spells, self._mute = clock, spells, frozenset(mute)
        self.queries: list[tuple[float, str]] = []

    async def query(self, name: str, kind: str) -> DnsAnswer:
        self.queries.append((self._clock.now(), name))
        ill = _active_fault(self._spells, self._clock.now(), dns=True)
        offline = (FaultKind.NO_NETWORK, FaultKind.NO_ROUTE, FaultKind.SILENT)
        gone = _active_fault(self._spells, self._clock.now(), dns=False) in offline
        if ill is FaultKind.DNS_FAILS or name in self._mute:
            await self._clock.sleep(0.01)
            return DnsAnswer(error="dns server returned general failure", temporary=True)
        if ill is FaultKind.DNS_SILENT or gone:
            await self._clock.sleep(15.0)
            return DnsAnswer(error="timeout while contacting dns servers", temporary=True)
        await self._clock.sleep(0.01)
        address = self._addresses.get(name)
        if ill is FaultKind.DNS_DENIES or address is None or kind != "A":
            return DnsAnswer(error="domain name not found")
        return DnsAnswer((address,), 60.0)

    async def close(self) -> None:
        """Do nothing: nothing is open."""
