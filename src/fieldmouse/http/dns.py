"""Resolver with cache: host name to the address to connect to.

The user's name map is checked first, then the hosts file, then DNS, without blocking the event loop.
Answers are cached for their time to live, failures for a shorter time, and concurrent look-ups of a name
share one query.

`lookup` returns the first address that the SSRF guard allows, so the address that was checked is the one
that is used. IPv4 is preferred, and IPv6 is queried only for a name without IPv4: that halves the
queries, and most crawling machines have no IPv6.

`DnsBackend` has two implementations: c-ares over sockets, and the nameserver of the synthetic web without
sockets, for crawls in virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.http.ssrf import forbidden_reason
from fieldmouse.policy.dns_and_header_options import NameOverrides, is_address

if TYPE_CHECKING:
    import aiodns


QUERIES_PER_CHANNEL = 20_000  # queries after which the DNS library is restarted
_TROUBLES = 3
NO_ADDRESS = "the name has no address"

# c-ares' numbers, copied so that the library is loaded only when DNS is needed.
_NO_DATA, _NO_SUCH_NAME, _BAD_NAME = 1, 4, 8


class DnsAnswer(msgspec.Struct, frozen=True):
    """Addresses, valid for `ttl` seconds; or none, and the reason."""

    addresses: tuple[str, ...] = ()
    ttl: float = 0.0
    error: str = ""
    temporary: bool = False  # DNS or this machine failed; it is unknown whether the name exists


class DnsBackend(Protocol):
    async def query(self, name: str, kind: str) -> DnsAnswer:
        """Return the addresses of `name`, of the kind `A` or `AAAA`; never raises."""
        ...

    async def close(self) -> None: ...


class CaresDns:
    """DNS through c-ares. `nameservers` are `address` or `address:port`; none means the system's."""

    def __init__(self, nameservers: Sequence[str] = (), *, timeout: float = 5.0, tries: int = 3):
        self._nameservers = list(nameservers)
        self._timeout, self._tries = timeout, tries
        self._channel: aiodns.DNSResolver | None = None
        self._questions = 0  # sent on this channel
        self._troubles = 0  # consecutive failures

    async def query(self, name: str, kind: str) -> DnsAnswer:
        import aiodns
        import pycares

        # c-ares also caches every answer, and pycares cannot limit that cache. A replaced channel closes
        # itself after its last pending query. It is also replaced after several failures in a row: another
        # network may have brought other nameservers.
        try:
            if self._channel is None or self._questions >= QUERIES_PER_CHANNEL or self._troubles >= _TROUBLES:
                self._channel = aiodns.DNSResolver(
                    nameservers=self._nameservers or None, timeout=self._timeout, tries=self._tries
                )
                self._questions = self._troubles = 0
            self._questions += 1
            answer = await self._channel.query_dns(name, kind)
        except aiodns.error.DNSError as error:
            number = error.args[0] if error.args else 0
            if number == _NO_DATA:
                self._troubles = 0
                return DnsAnswer(error=NO_ADDRESS)
            definite = number in (_NO_SUCH_NAME, _BAD_NAME)
            self._troubles = 0 if definite else self._troubles + 1
            return DnsAnswer(error=_error_text(error), temporary=not definite)
        except UnicodeError:  # the name cannot be encoded in a query
            return DnsAnswer(error="not a DNS name")
        except (OSError, pycares.AresError) as error:  # no descriptors or no memory for a channel
            return DnsAnswer(error=_error_text(error), temporary=True)
        self._troubles = 0
        addresses = tuple(record.data.addr for record in answer.answer if hasattr(record.data, "addr"))
        if not addresses:
            return DnsAnswer(error=NO_ADDRESS)
        return DnsAnswer(addresses, min(record.ttl for record in answer.answer))

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None


def _error_text(error: Exception) -> str:
    return str(error.args[1] if len(error.args) > 1 else error).lower()


class HostsFile:
    """Names in a hosts file; changes are checked at most once a second."""

    def __init__(self, path: Path, clock: Clock):
        self._path, self._clock = path, clock
        self._names: dict[str, tuple[str, ...]] = {}
        self._checked_at = float("-inf")
        self._signature: tuple[int, int, int] | None = None

    def addresses_of(self, name: str) -> tuple[str, ...]:
        """Return the addresses of a name, IPv4 first; none if the file does not have it."""
        now = self._clock.now()
        if now - self._checked_at >= 1.0:
            self._checked_at = now
            self._reload()
        return self._names.get(name, ())

    def _reload(self) -> None:
        try:
            stat = self._path.stat()
            signature = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if signature != self._signature:
                self._names = _parse_hosts(self._path.read_text("utf-8", "replace"))
                self._signature = signature
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            self._names, self._signature = {}, None  # a machine without the file has no such names
        except OSError:
            self._signature = None  # for example no descriptors: the previous content stays valid


def _parse_hosts(text: str) -> dict[str, tuple[str, ...]]:
    table: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if is_address(address):
            for name in names:
                table.setdefault(name.lower().rstrip("."), []).append(address)
    return {name: tuple(sorted(addresses, key=lambda text: ":" in text)) for name, addresses in table.items()}


NEVER_EXPIRES = float("inf")


class CachedAddresses(msgspec.Struct, frozen=True):
    """Addresses of a name, or none and the reason; valid until `expires_at`."""

    addresses: tuple[str, ...]
    expires_at: float
    error: str = ""
    temporary: bool = False  # an error of DNS, not of the name


class FoundAddress(msgspec.Struct, frozen=True):
    """The address to connect to."""

    address: str
    expires_at: float


class ForbiddenAddress(msgspec.Struct, frozen=True):
    """The name resolves only to forbidden addresses."""

    address: str
    reason: str
    expires_at: float


class FailedLookup(msgspec.Struct, frozen=True):
    """The name has no address; if `temporary`, try again after `expires_at`."""

    reason: str
    temporary: bool
    expires_at: float


class Resolver:
    """Resolver of host names with a cache.

    Times to live are limited to `least` and `most` seconds. `nameservers`, `timeout` and `tries` are for
    c-ares and unused with another `dns`.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        allow_private: bool = False,
        names: NameOverrides | None = None,
        hosts_file: Path = Path("/etc/hosts"),
        nameservers: Sequence[str] = (),
        least: float = 60.0,
        most: float = 24 * 3600.0,
        negative: float = 300.0,
        temporary: float = 30.0,
        timeout: float = 5.0,
        tries: int = 3,
        size: int = 100_000,
        dns: DnsBackend | None = None,
    ):
        self._clock, self._allow_private, self._names = clock, allow_private, names or NameOverrides()
        self._hosts = HostsFile(hosts_file, clock)
        self._dns: DnsBackend = dns or CaresDns(nameservers, timeout=timeout, tries=tries)
        self._least, self._most, self._negative, self._temporary = least, most, negative, temporary
        self._size = size
        self._cache: dict[str, CachedAddresses] = {}  # oldest first
        self._queries: dict[str, asyncio.Task[CachedAddresses]] = {}
        self.answered_at = float("-inf")  # time of the last DNS answer with an address

    async def lookup(self, name: str, *, fresh: bool = False) -> FoundAddress | ForbiddenAddress | FailedLookup:
        """Return the address at which to visit `name`; if `fresh`, the cache is skipped."""
        resolved = await self.resolve_addresses(name, fresh=fresh)
        expires_at = resolved.expires_at
        if not resolved.addresses:
            return FailedLookup(resolved.error, resolved.temporary, expires_at)
        refused = ""
        for address in resolved.addresses:
            why = forbidden_reason(address, self._allow_private)
            if why is None:
                return FoundAddress(address, expires_at)
            refused = refused or why
        return ForbiddenAddress(resolved.addresses[0], refused, expires_at)

    async def resolve_addresses(self, name: str, *, fresh: bool = False) -> CachedAddresses:
        """Return all addresses of `name`, in the order to try them; cached."""
        name = name.lower().rstrip(".")
        resolved = self._without_dns(name)
        if resolved is not None:
            return resolved
        cached = None if fresh else self._cache.get(name)
        if cached is not None and self._clock.now() < cached.expires_at:
            return cached
        task = self._queries.get(name)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._resolve_and_cache(name))
            self._queries[name] = task
            task.add_done_callback(lambda _: self._queries.pop(name, None))
        # A cancelled caller must not cancel the query for the others.
        return await asyncio.shield(task)

    def is_known_without_dns(self, name: str) -> bool:
        """Tell whether the address of a name is known without DNS."""
        return self._without_dns(name.lower().rstrip(".")) is not None

    def forget_name(self, name: str) -> None:
        """Remove a name from the cache."""
        self._cache.pop(name.lower().rstrip("."), None)

    def forget_failures(self) -> None:
        """Remove failures from the cache, after DNS had problems."""
        for name in [name for name, resolved in self._cache.items() if not resolved.addresses]:
            del self._cache[name]

    def mapped_port(self, name: str) -> int | None:
        """Return the port that the user mapped this name to, or None for the URL's port."""
        return self._names.port_for(name.lower().rstrip("."))

    async def close(self) -> None:
        tasks = list(self._queries.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._dns.close()

    def _without_dns(self, name: str) -> CachedAddresses | None:
        pin = self._names.fixed_endpoint_of(name)
        if pin is not None:
            return CachedAddresses((pin.address,), NEVER_EXPIRES)
        if is_address(name):
            return CachedAddresses((name,), NEVER_EXPIRES)
        if name == "localhost" or name.endswith(".localhost"):  # RFC 6761, 6.3: never query DNS
            return CachedAddresses(("127.0.0.1", "::1"), NEVER_EXPIRES)
        addresses = self._hosts.addresses_of(name)
        return CachedAddresses(addresses, self._clock.now() + self._least) if addresses else None

    async def _resolve_and_cache(self, name: str) -> CachedAddresses:
        resolved = await self._query_dns(name, "A")
        if not resolved.addresses and resolved.error == NO_ADDRESS:
            resolved = await self._query_dns(name, "AAAA")
        cached = self._cache.get(name)
        if resolved.temporary and cached and cached.addresses and self._clock.now() < cached.expires_at:
            return resolved  # a temporary failure of a fresh query: the cached answer stays valid
        self._cache.pop(name, None)
        while len(self._cache) >= self._size:
            del self._cache[next(iter(self._cache))]
        self._cache[name] = resolved
        return resolved

    async def _query_dns(self, name: str, kind: str) -> CachedAddresses:
        answer = await self._dns.query(name, kind)
        now = self._clock.now()
        if answer.addresses:
            self.answered_at = now
            return CachedAddresses(answer.addresses, now + min(max(answer.ttl, self._least), self._most))
        kept = self._temporary if answer.temporary else self._negative
        return CachedAddresses((), now + kept, answer.error, answer.temporary)
