"""Small site with one page of each kind (compressed, duplicate, empty, listed) and non-page responses."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import brotli

from fieldmouse.clock import Clock
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.request import Request
from fieldmouse.url import Host, path_of

HOME = "http://127.0.0.1:8000"

_WORDS = " ".join(f"hedgerow{number * number * 7919 % 99991} mouse" for number in range(200))
_TWIN = f"<title>Twins</title><p>{_WORDS} acorn <a href='/plain.txt'>plain</a>".encode()

PAGES: dict[str, tuple[str, bytes]] = {
    "/": (
        "Content-Type: text/html",
        b"<title>Door</title><a href=/zipped.html>a</a><a href=/twin-1.html>b</a><a href=/twin-2.html>c</a>"
        b"<a href=/brotli.html>d</a><a href=/empty.html>e</a><a href=/plain.txt>f</a><a href=/gone.html>g</a>"
        b"<a href=/moved.html>h</a><a href=/latin.html>i</a><a href=http://elsewhere.example/>j</a>"
        b"<a href=/secret/x.html>k</a><a href='/zipped.html#again'>l</a><a rel=nofollow href=/no.html>m</a>"
        b"<a href=/chunked.html>n</a><a href=/>o</a><a href='/#p'>p</a>"
        b"<link rel=alternate type='application/rss+xml' href=/feed.rss><p>the door of the burrow",
    ),
    "/zipped.html": (
        "Content-Type: text/html; charset=utf-8\r\nContent-Encoding: gzip",
        gzip.compress("<html lang=de><title>Zip</title><p>Grüße aus dem Garten".encode() + b" fern" * 400),
    ),
    "/twin-1.html": ("Content-Type: text/html\r\nContent-Encoding: gzip", gzip.compress(_TWIN, mtime=0)),
    "/twin-2.html": ("Content-Type: text/html\r\nContent-Encoding: gzip", gzip.compress(_TWIN, mtime=0)),
    "/brotli.html": (
        "Content-Type: text/html\r\nContent-Encoding: br\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2",
        brotli.compress(b"<title>Br</title>" + b"brooklime " * 300),
    ),
    "/empty.html": ("Content-Type: text/html", b""),
    "/plain.txt": ("Content-Type: text/plain", b"no title, only words about voles\r\n\r\nand more"),
    "/latin.html": ("Content-Type: text/html; charset=latin-1", "<title>Café</title>été".encode("latin-1")),
    "/chunked.html": ("Content-Type: text/html\r\nTransfer-Encoding: chunked", b"<title>Pieces</title>joined"),
    "/feed.rss": (
        "Content-Type: application/rss+xml",
        b"<rss><channel><item><link>http://127.0.0.1:8000/fed.html</link></item></channel></rss>",
    ),
    "/fed.html": ("Content-Type: text/html", b"<title>Fed</title>from the feed"),
    "/map.xml": (
        "Content-Type: application/xml",
        b'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
        b"<url><loc>http://127.0.0.1:8000/mapped.html</loc></url></urlset>",
    ),
    "/mapped.html": ("Content-Type: text/html", b"<title>Mapped</title>on the map"),
    "/robots.txt": (
        "Content-Type: text/plain",
        b"User-agent: *\nDisallow: /secret/\nSitemap: http://127.0.0.1:8000/map.xml\n",
    ),
}

STORED = {HOME + path for path in PAGES if path != "/robots.txt"}
"""The stored pages: every 2xx response except robots.txt."""


class SmallWeb:
    """Fetcher that answers from `PAGES`; other paths are 404, and `/moved.html` redirects."""

    def __init__(self, clock: Clock):
        self._clock = clock

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        path = path_of(link.url)
        status, headers, body = 404, "Content-Type: text/html", b"not here"
        if path == "/moved.html":
            status, headers, body = 301, "Location: /plain.txt", b""
        elif path in PAGES:
            status, (headers, body) = 200, PAGES[path]
        length = "" if "chunked" in headers else f"Content-Length: {len(body)}\r\n"
        head = f"HTTP/1.1 {status} Fine\r\n{headers}\r\n{length}\r\n".encode("latin-1")
        now = self._clock.now()
        request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        return Response(status, head, body, request, address, now, now, now, tuple(_pairs(head)))

    async def close(self) -> None:
        """Nothing is open."""


def _pairs(head: bytes) -> Iterator[tuple[str, str]]:
    for line in head.decode("latin-1").split("\r\n")[1:-2]:
        name, _, value = line.partition(": ")
        yield name.lower(), value
