"""From a name to the address we will talk to.

The user's map is asked first, then the hosts file, then the DNS, without ever
blocking the loop. Answers are kept for their time to live, failures for a shorter
time, and while one question about a name is on its way everybody else who asks
it waits for the same answer.

`lookup` is what robots ask: it takes the first address the guard lets pass, so
the address that was judged is the address that is used. IPv4 is preferred, and
IPv6 is asked for only where a name has nothing else: half the questions, and most
crawling machines have no IPv6 to use the answers with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.policy.names import NameMap, is_address
from fieldmouse.web.dns import NOTHING, CaresDns, Dns
from fieldmouse.web.guard import is_forbidden
from fieldmouse.web.hostsfile import HostsFile

FOR_EVER = float("inf")


class Resolved(msgspec.Struct, frozen=True):
    """A name's addresses, or none and why; good until `expires_at`."""

    addresses: tuple[str, ...]
    expires_at: float
    trouble: str = ""
    temporary: bool = False  # the DNS was in trouble, and not only the name


class FoundAddress(msgspec.Struct, frozen=True):
    """Connect here."""

    address: str
    expires_at: float


class Forbidden(msgspec.Struct, frozen=True):
    """The name leads only to addresses we do not visit."""

    address: str
    why: str
    expires_at: float


class NoAddress(msgspec.Struct, frozen=True):
    """The name leads nowhere; if `temporary`, ask again after `expires_at`."""

    why: str
    temporary: bool
    expires_at: float


class Resolver:
    """Names to addresses, remembered.

    Times to live are held between `least` and `most` seconds. `nameservers`, `timeout` and
    `tries` are for c-ares; another `dns` has none of them.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        allow_private: bool = False,
        names: NameMap | None = None,
        hosts_file: Path = Path("/etc/hosts"),
        nameservers: Sequence[str] = (),
        least: float = 60.0,
        most: float = 24 * 3600.0,
        negative: float = 300.0,
        temporary: float = 30.0,
        timeout: float = 5.0,
        tries: int = 3,
        size: int = 100_000,
        dns: Dns | None = None,
    ):
        self._clock = clock
        self._allow_private = allow_private
        self._names = names or NameMap()
        self._hosts = HostsFile(hosts_file, clock)
        self._dns: Dns = dns or CaresDns(nameservers, timeout=timeout, tries=tries)
        self._least, self._most = least, most
        self._negative, self._temporary = negative, temporary
        self._size = size
        self._cache: dict[str, Resolved] = {}  # oldest first
        self._asking: dict[str, asyncio.Task[Resolved]] = {}
        self.heard_at = float("-inf")  # when the DNS last named an address

    async def lookup(self, name: str, *, fresh: bool = False) -> FoundAddress | Forbidden | NoAddress:
        """The one address to visit `name` at; if `fresh`, no earlier answer will do."""
        resolved = await self.addresses(name, fresh=fresh)
        expires_at = resolved.expires_at
        if not resolved.addresses:
            return NoAddress(resolved.trouble, resolved.temporary, expires_at)
        refused = ""
        for address in resolved.addresses:
            why = is_forbidden(address, self._allow_private)
            if why is None:
                return FoundAddress(address, expires_at)
            refused = refused or why
        return Forbidden(resolved.addresses[0], refused, expires_at)

    async def addresses(self, name: str, *, fresh: bool = False) -> Resolved:
        """All addresses of `name`, in the order to try them; cached."""
        name = name.lower().rstrip(".")
        written = self._written_down(name)
        if written is not None:
            return written
        cached = None if fresh else self._cache.get(name)
        if cached is not None and self._clock.now() < cached.expires_at:
            return cached
        task = self._asking.get(name)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(name))
            self._asking[name] = task
            task.add_done_callback(lambda _: self._asking.pop(name, None))
        # One asker who leaves must not take the answer away from the others.
        return await asyncio.shield(task)

    def is_written_down(self, name: str) -> bool:
        """Is its address known without asking the DNS?"""
        return self._written_down(name.lower().rstrip(".")) is not None

    def forget(self, name: str) -> None:
        """The next who wants this name's addresses shall ask."""
        self._cache.pop(name.lower().rstrip("."), None)

    def forget_failures(self) -> None:
        """The DNS was in trouble: what it said while it was is not to be believed."""
        for name in [name for name, known in self._cache.items() if not known.addresses]:
            del self._cache[name]

    def port(self, name: str) -> int | None:
        """The port the user's map sends this name to, or None for the URL's own."""
        return self._names.port(name.lower().rstrip("."))

    async def close(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._dns.close()

    def _written_down(self, name: str) -> Resolved | None:
        pin = self._names.find(name)
        if pin is not None:
            return Resolved((pin.address,), FOR_EVER)
        if is_address(name):
            return Resolved((name,), FOR_EVER)
        if name == "localhost" or name.endswith(".localhost"):  # RFC 6761, 6.3: never ask the DNS
            return Resolved(("127.0.0.1", "::1"), FOR_EVER)
        addresses = self._hosts.find(name)
        return Resolved(addresses, self._clock.now() + self._least) if addresses else None

    async def _ask(self, name: str) -> Resolved:
        resolved = await self._question(name, "A")
        if not resolved.addresses and resolved.trouble == NOTHING:
            resolved = await self._question(name, "AAAA")
        known = self._cache.get(name)
        if resolved.temporary and known and known.addresses and self._clock.now() < known.expires_at:
            return resolved  # asked afresh in passing trouble: what was known before is still good
        self._cache.pop(name, None)
        while len(self._cache) >= self._size:
            del self._cache[next(iter(self._cache))]
        self._cache[name] = resolved
        return resolved

    async def _question(self, name: str, kind: str) -> Resolved:
        answer = await self._dns.ask(name, kind)
        now = self._clock.now()
        if answer.addresses:
            self.heard_at = now
            return Resolved(answer.addresses, now + min(max(answer.ttl, self._least), self._most))
        kept = self._temporary if answer.temporary else self._negative
        return Resolved((), now + kept, answer.trouble, answer.temporary)
