"""Header lines as they are sent, and as archive and logs may show them: without secrets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from fieldmouse.records import Failed, Link, Response
from fieldmouse.url import Host


@dataclass(frozen=True, slots=True)
class Signature:
    """Header lines, and what the archive has in their place."""

    sent: bytes
    kept: bytes

    @classmethod
    def of(cls, headers: Mapping[str, str], shown: Mapping[str, str]) -> Signature:
        """Lines of `headers`, and of `shown` for the archive; characters beyond latin-1 become `?`."""
        return cls(_lines(headers), _lines(shown))


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1", "replace")


Sign = Callable[[Link, Host], Awaitable[Signature | str | None]]
"""Signs a request to a host: header lines, None for none, or a word about why it must not be made."""


def shown(answer: Response | Failed, request: bytes) -> Response | Failed:
    """The answer, with the request as it may be shown."""
    if isinstance(answer, Response):
        return replace(answer, request=request)
    if answer.response is None:
        return answer
    return replace(answer, response=replace(answer.response, request=request))
