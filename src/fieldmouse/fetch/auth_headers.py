"""Request signer: headers from the user's `sign` plug-in, such as logins and tokens for their own sites.

They are sent only to the host they were made for. A redirect does not get around that: its target is
another request, for which `sign` is called again, and only if its host (scheme, name and port) is one of
the signed hosts. In the archive the values are blanked. An exception of `sign` may hold a secret, so only
its type is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from fieldmouse.errors import UsageError
from fieldmouse.http.client import SentAndStoredHeaders
from fieldmouse.plugins.page import OutgoingRequest
from fieldmouse.plugins.runner import (
    InvalidPluginResult,
    PluginFailure,
    PluginWarnings,
    ThreadedPluginCaller,
    type_with_article,
)
from fieldmouse.policy.dns_and_header_options import BLANK, OURS, check_header
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Host

MAX_HEADER_CHARS = 16 << 10  # characters of all headers together


class AuthHeadersPlugin:
    """Calls `sign` for requests to `hosts`; with `keep` its headers stay readable in the archive."""

    def __init__(
        self,
        sign: Callable[[OutgoingRequest], Any],
        name: str,
        *,
        hosts: Collection[Host],
        patience: float,
        keep: bool = False,
        taken: Collection[str] = (),
    ):
        """`taken` are names of headers that every request already has."""
        self._sign, self._hosts, self._keep = sign, frozenset(hosts), keep
        self._taken = OURS | {name.lower() for name in taken}
        self._threads, self._gossip = ThreadedPluginCaller(name, patience), PluginWarnings()

    async def __call__(self, link: Request, host: Host) -> SentAndStoredHeaders | str | None:
        """Header lines for this request, None without any, or the reason the request cannot be made."""
        if host not in self._hosts:
            return None
        request = OutgoingRequest(link.url, host)
        result = await self._threads.call(lambda: self._validated_headers(self._sign(request)))
        if not isinstance(result, PluginFailure):
            return result
        if link.kind is RequestKind.ROBOTS_TXT:
            return None  # robots.txt is requested without the headers rather than not at all
        what = result.message.partition(":")[0] if result.message.startswith("raised ") else result.message
        reason = str(PluginFailure(result.plugin, what))
        self._gossip.warn(f"{reason}, on {link.url[:200]}")
        return reason

    def _validated_headers(self, answer: object) -> SentAndStoredHeaders | None:
        if answer is None:
            return None
        if not isinstance(answer, Mapping):
            raise InvalidPluginResult(f"gave {type_with_article(answer)} and not a mapping of headers")
        headers: dict[str, str] = {}
        for name, value in answer.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise InvalidPluginResult("gave a header that is no text")
            self._check_header(name, value)
            headers[name] = value
        result = SentAndStoredHeaders.encode(headers, headers if self._keep else dict.fromkeys(headers, BLANK))
        if len(result.sent) > MAX_HEADER_CHARS:
            raise InvalidPluginResult(f"gave headers of more than {MAX_HEADER_CHARS} characters")
        return result if headers else None

    def _check_header(self, name: str, value: str) -> None:
        shown = name[:50] if name.isprintable() else "?"
        if name.lower() in self._taken:
            raise InvalidPluginResult(f"gave the header `{shown}`, which requests have already")
        try:
            check_header(name, value)
            value.encode("latin-1")
        except (UsageError, UnicodeEncodeError):
            raise InvalidPluginResult(f"gave the header `{shown}`, which cannot be sent") from None
