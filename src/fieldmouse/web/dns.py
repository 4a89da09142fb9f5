"""One question to the DNS and what came of it.

The resolver (`resolver.py`) remembers and judges; here the question is put. `Dns` is
a seam of two ends: c-ares over sockets, and the lab's nameserver without any, for
crawls in virtual time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    import aiodns

RENEW = 20_000  # questions after which the DNS library is started afresh
NOTHING = "the name has no address"

# c-ares' numbers, kept here so that the library is loaded only when the DNS is needed.
_NO_DATA, _NO_SUCH_NAME, _BAD_NAME = 1, 4, 8


class DnsAnswer(msgspec.Struct, frozen=True):
    """Addresses, good for `ttl` seconds; or none, and why."""

    addresses: tuple[str, ...] = ()
    ttl: float = 0.0
    trouble: str = ""
    temporary: bool = False  # nobody said that there is no such name: the DNS was in trouble, or we were


class Dns(Protocol):
    async def ask(self, name: str, kind: str) -> DnsAnswer:
        """The addresses of `name`, of the kind `A` or `AAAA`; raises nothing."""
        ...

    async def close(self) -> None: ...


class CaresDns:
    """The DNS by way of c-ares. `nameservers` are `address` or `address:port`; none means the system's."""

    def __init__(self, nameservers: Sequence[str] = (), *, timeout: float = 5.0, tries: int = 3):
        self._nameservers = list(nameservers)
        self._timeout, self._tries = timeout, tries
        self._channel: aiodns.DNSResolver | None = None
        self._questions = 0  # asked of this channel

    async def ask(self, name: str, kind: str) -> DnsAnswer:
        import aiodns

        # c-ares keeps every answer for itself as well, and pycares has no way to say how many. An
        # old channel closes itself when the last question that holds it has its answer.
        if self._channel is None or self._questions >= RENEW:
            self._channel = aiodns.DNSResolver(
                nameservers=self._nameservers or None, timeout=self._timeout, tries=self._tries
            )
            self._questions = 0
        self._questions += 1
        channel = self._channel
        try:
            answer = await channel.query_dns(name, kind)
        except aiodns.error.DNSError as error:
            number = error.args[0] if error.args else 0
            if number == _NO_DATA:
                return DnsAnswer(trouble=NOTHING)
            return DnsAnswer(trouble=_sentence(error), temporary=number not in (_NO_SUCH_NAME, _BAD_NAME))
        except UnicodeError:  # no such name can be written in a question
            return DnsAnswer(trouble="not a DNS name")
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
