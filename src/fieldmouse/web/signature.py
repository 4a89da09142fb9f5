"""Request headers as sent, and with secrets blanked as archive and logs show them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from fieldmouse.records import Failed, Link, Response
from fieldmouse.url import Host


@dataclass(frozen=True, slots=True)
class Signature:
    """Header lines as sent, and as stored in the archive."""

    sent: bytes
    kept: bytes

    @classmethod
    def of(cls, headers: Mapping[str, str], shown: Mapping[str, str]) -> Signature:
        """Encode `headers` to send and `shown` for the archive; characters outside latin-1 become `?`."""
        return cls(_lines(headers), _lines(shown))


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1", "replace")


Sign = Callable[[Link, Host], Awaitable[Signature | str | None]]
"""Signs a request to a host: returns header lines, None for none, or the reason not to send it."""


def shown(answer: Response | Failed, request: bytes) -> Response | Failed:
    """Return the response with `request` in place of the request that was sent."""
    if isinstance(answer, Response):
        return replace(answer, request=request)
    if answer.response is None:
        return answer
    return replace(answer, response=replace(answer.response, request=request))
