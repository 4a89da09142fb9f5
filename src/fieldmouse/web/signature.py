"""Headers that are for one request and one host only, and how they are shown afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec.structs import replace

from fieldmouse.records import Failed, Link, Response
from fieldmouse.url import Host


@dataclass(frozen=True, slots=True)
class Signature:
    """Header lines for one request, and what the archive has in their place."""

    sent: bytes
    kept: bytes


Sign = Callable[[Link, Host], Awaitable[Signature | str | None]]
"""Signs a request to a host: header lines, None for none, or a word about why it must not be made."""


def shown(answer: Response | Failed, request: bytes) -> Response | Failed:
    """The answer, with the request as it may be shown."""
    if isinstance(answer, Response):
        return replace(answer, request=request)
    if answer.response is None:
        return answer
    return replace(answer, response=replace(answer.response, request=request))
