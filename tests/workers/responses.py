"""Responses as fetch workers deliver them, made by hand for tests."""

from __future__ import annotations

from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.policy.scope import Scope
from fieldmouse.types.outcome import Page, Response
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Url

NOW = 1_800_000_000.0
CONFIG = PageProcessingConfig(user_agent="fieldmouse/test", key_seed=7, scope=Scope())


def response(
    body: bytes = b"<p>hello",
    *,
    status: int = 200,
    mime: str = "text/html; charset=utf-8",
    at: float = NOW,
    truncated: str = "",
    **headers: str,
) -> Response:
    named = [("content-type", mime), *((name.replace("_", "-"), value) for name, value in headers.items())]
    if "transfer-encoding" not in dict(named):
        named.append(("content-length", str(len(body))))
    lines = "".join(f"{name.title()}: {value}\r\n" for name, value in named if value)
    return Response(
        status=status,
        head=f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode("latin-1"),
        body=body,
        request=b"GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: fieldmouse/test\r\n\r\n",
        address="192.0.2.7",
        started_at=at,
        answered_at=at + 0.1,
        ended_at=at + 0.2,
        headers=tuple((name, value) for name, value in named if value),
        truncated=truncated,
    )


def page(
    url: str = "http://example.org/",
    body: bytes = b"<p>hello",
    *,
    kind: RequestKind = RequestKind.PAGE,
    depth: int = 0,
    truncated: str = "",
    at: float = NOW,
    mime: str = "text/html; charset=utf-8",
    **headers: str,
) -> Page:
    answer = response(body, truncated=truncated, at=at, mime=mime, **headers)
    return Page(Request(Url(url), depth, kind=kind), answer)


def story(number: int, words: int = 60) -> bytes:
    """Return a distinct HTML page, the same for the same number."""
    text = " ".join(f"w{(number * 7919 + i * i * 31) % 9973}" for i in range(words))
    return f"<html lang=en><title>Story {number}</title><p>unique{number} {text}".encode()
