"""DNS query interface and its implementation on c-ares.

The resolver (`resolver.py`) caches and checks; this module sends queries. `Dns` has two implementations:
c-ares over sockets, and the lab's nameserver without sockets, for crawls in virtual time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    import aiodns

RENEW = 20_000  # queries after which the DNS library is restarted
_TROUBLES = 3
NOTHING = "the name has no address"

# c-ares' numbers, copied so that the library is loaded only when DNS is needed.
_NO_DATA, _NO_SUCH_NAME, _BAD_NAME = 1, 4, 8


class DnsAnswer(msgspec.Struct, frozen=True):
    """Addresses, valid for `ttl` seconds; or none, and the reason."""

    addresses: tuple[str, ...] = ()
    ttl: float = 0.0
    trouble: str = ""
    temporary: bool = False  # DNS or this machine failed; it is unknown whether the name exists


class Dns(Protocol):
    async def ask(self, name: str, kind: str) -> DnsAnswer:
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

    async def ask(self, name: str, kind: str) -> DnsAnswer:
        import aiodns
        import pycares

        # c-ares also caches every answer, and pycares cannot limit that cache. A replaced channel closes
        # itself after its last pending query. It is also replaced after several failures in a row: another
        # network may have brought other nameservers.
        try:
            if self._channel is None or self._questions >= RENEW or self._troubles >= _TROUBLES:
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
                return DnsAnswer(trouble=NOTHING)
            definite = number in (_NO_SUCH_NAME, _BAD_NAME)
            self._troubles = 0 if definite else self._troubles + 1
            return DnsAnswer(trouble=_sentence(error), temporary=not definite)
        except UnicodeError:  # the name cannot be encoded in a query
            return DnsAnswer(trouble="not a DNS name")
        except (OSError, pycares.AresError) as error:  # no descriptors or no memory for a channel
            return DnsAnswer(trouble=_sentence(error), temporary=True)
        self._troubles = 0
        return _read(answer)

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None


def _read(answer: Any) -> DnsAnswer:
    addresses = tuple(record.data.addr for record in answer.answer if hasattr(record.data, "addr"))
    if not addresses:
        return DnsAnswer(trouble=NOTHING)
    return DnsAnswer(addresses, min(record.ttl for record in answer.answer))


def _sentence(error: Exception) -> str:
    return str(error.args[1] if len(error.args) > 1 else error).lower()
