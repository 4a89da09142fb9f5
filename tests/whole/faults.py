"""All known tricks of servers, each with its expected outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from fieldmouse.types.reason import OutcomeReason

from .hostile import (
    PAGE,
    YEAR,
    End,
    Trick,
    brotli_bomb,
    endless,
    failed,
    gzip_bomb,
    gzipped,
    http,
    page,
    refused,
    reset,
    self_signed,
    silence,
    streamed,
    urls_of_a_sitemap,
    zstd_bomb,
)

MOVED = End("moved")
CUT = End("page", "", "cut by the limit on length")
CHAIN = 10  # redirects followed in a row, by default


def alone(name: str, answer: object, end: End, **rest: object) -> Trick:
    """A trick with one path."""
    return Trick(name, {"/x": answer}, {"/x": end}, **rest)  # type: ignore[dict-item, arg-type]


def too_much() -> list[Trick]:
    """Far too many bytes."""
    start = http(length=False)
    return [
        alone("an endless body", endless(start, b"<p>and on</p>" * 1000), CUT),
        alone("a body without haste", endless(start, b"x" * 2000, every=0.05), End("page", "", "limit on time")),
        alone(
            "10 GB in 10 MB of gzip",
            streamed(http(length=False, Content_Encoding="gzip"), lambda: gzip_bomb(10_240)),
            failed(OutcomeReason.DECOMPRESSION_BOMB),
        ),
        alone(
            "1 GB of brotli", http(brotli_bomb(1024), Content_Encoding="br"), failed(OutcomeReason.DECOMPRESSION_BOMB)
        ),
        alone("1 GB of zstd", http(zstd_bomb(1024), Content_Encoding="zstd"), failed(OutcomeReason.DECOMPRESSION_BOMB)),
        alone(
            "10 MB of headers",
            b"HTTP/1.1 200 OK\r\n" + b"X-Filler: abcdefghij\r\n" * 480_000 + b"\r\n",
            failed(OutcomeReason.HEADERS_TOO_LARGE),
        ),
        alone(
            "interim answers without end",
            endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100),
            failed(OutcomeReason.HEADERS_TOO_LARGE),
        ),
        Trick(
            "a robots.txt of 100 MB",
            {
                "/robots.txt": streamed(
                    http(length=False, Content_Type="text/plain"),
                    lambda: iter(
                        [b"User-agent: *\nDisallow: /x\n", *[b"# moss on the north side of trees\n" * 3000] * 1000]
                    ),
                )
            },
            {"/x": refused(OutcomeReason.ROBOTS_TXT_EXCLUDED)},
        ),
        Trick(
            "25,000 wildcard rules in robots.txt",
            {
                "/robots.txt": http(
                    b"User-agent: *\n" + b"".join(b"Disallow: /x*%05d\n" % n for n in range(25_000)),
                    Content_Type="text/plain",
                )
            },
            {"/x": refused(OutcomeReason.ROBOTS_TXT_EXCLUDED, "rules too many or too long to look through")},
        ),
        Trick(
            "a million links",
            {"/robots.txt": http(b"User-agent: *\nDisallow: /w/\n"), "/x": streamed(start, weeds)},
            {"/x": CUT},
        ),
    ]


def weeds() -> Iterator[bytes]:
    yield b"<!DOCTYPE html><title>weeds</title>"
    for start in range(0, 1_000_000, 1000):
        yield "".join(f"<a href=/w/{n}>weed</a>\n" for n in range(start, start + 1000)).encode()


def too_slow() -> list[Trick]:
    """Slow servers."""
    start = http(length=False)
    return [
        alone("a slow drip", endless(start, b"x", every=0.05), failed(OutcomeReason.TOO_SLOW, "bytes/s")),
        alone(
            "a slow drip of headers",
            endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", every=0.02),
            failed(OutcomeReason.TIMEOUT, "not complete"),
        ),
        alone("a page that never comes", silence, failed(OutcomeReason.TIMEOUT, "no answer")),
        alone(
            "half a page", streamed_then_silent(http(b"12345", length=False)), failed(OutcomeReason.TIMEOUT, "silent")
        ),
        Trick(
            "a host that never answers",
            {"/robots.txt": silence, "/x": silence},
            {"/x": refused(OutcomeReason.ROBOTS_TXT_UNREACHABLE, "took too long: no answer")},
            good=False,
        ),
        alone(
            "come back in a year",
            http(status="429 Too Many Requests", Retry_After=str(YEAR)),
            failed(OutcomeReason.RETRY_LATER, "429"),
        ),
    ]


def streamed_then_silent(words: bytes) -> object:
    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        await silence(writer)

    return say


def round_and_round() -> list[Trick]:
    """Redirects and similar loops."""
    steps = {f"/{n}": http(status="302 Found", Location=f"/{n + 1}") for n in range(CHAIN + 5)}
    chain = {f"/{n}": MOVED for n in range(CHAIN)} | {f"/{CHAIN}": failed(OutcomeReason.TOO_MANY_REDIRECTS)}
    return [
        Trick(
            "a circle of redirects",
            {f"/{a}": http(status="301 Moved Permanently", Location=f"/{b}") for a, b in ("ab", "bc", "ca")},
            {"/a": MOVED, "/b": MOVED, "/c": failed(OutcomeReason.BAD_REDIRECT, "in a circle")},
            linked=("/a",),
        ),
        Trick("ever new redirects", steps, chain, linked=("/0",)),
        alone(
            "a redirect to itself",
            http(status="302 Found", Location="/x"),
            failed(OutcomeReason.BAD_REDIRECT, "in a circle"),
        ),
        alone("a redirect without a place", http(status="302 Found"), failed(OutcomeReason.BAD_REDIRECT)),
        alone(
            "a redirect to nonsense",
            http(status="302 Found", Location="http://[[:::/\x01\xff"),
            failed(OutcomeReason.BAD_REDIRECT, "[[:::"),
        ),
        alone(
            "a redirect to a script",
            http(status="302 Found", Location="javascript:alert(1)"),
            failed(OutcomeReason.BAD_REDIRECT, "javascript"),
        ),
        alone("a redirect to a very long URL", http(status="302 Found", Location="/" + "l" * 20_000), MOVED),
        alone("a redirect out of scope", http(status="302 Found", Location="http://elsewhere.example/"), MOVED),
    ]


def bad_words() -> list[Trick]:
    """Invalid or nearly invalid HTTP."""
    return [
        alone("another protocol", b"SSH-2.0-OpenSSH_9.2\r\n\r\n", failed(OutcomeReason.BAD_HTTP)),
        alone("an empty answer", reset, failed(OutcomeReason.CONNECTION_CLOSED)),
        alone(
            "a length too long",
            streamed(http(b"", length=False, Content_Length="500"), lambda: iter([b"only this"])),
            failed(OutcomeReason.CONNECTION_CLOSED, "9 of 500 bytes"),
        ),
        alone("a length too short", http(b"", length=False, Content_Length="3") + b"<p>a page</p>", PAGE),
        alone(
            "a length below nothing",
            http(b"", length=False, Content_Length="-5") + b"hello",
            failed(OutcomeReason.BAD_HTTP),
        ),
        alone(
            "two lengths",
            http(b"hello", length=False, Content_Length="5\r\nContent-Length: 6"),
            failed(OutcomeReason.BAD_HTTP),
        ),
        alone("a length that is none", http(b"", length=False, Content_Length="many"), failed(OutcomeReason.BAD_HTTP)),
        alone("status 999", http(status="999 Denied"), failed(OutcomeReason.SERVER_ERROR, "999")),
        alone("no content", b"HTTP/1.1 204 No Content\r\n\r\n", PAGE),
        alone("a 304 nobody asked for", b"HTTP/1.1 304 Not Modified\r\n\r\n", failed(OutcomeReason.BAD_HTTP, "304")),
        alone("NUL in a header", http(page(), X_Nul="a\0b"), PAGE),
        alone("NUL in the type", http(page(), Content_Type="text/\0html; charset=\0"), PAGE),
        alone(
            "a host that speaks no TLS",
            b"",
            failed(OutcomeReason.TLS, "wrong version number"),
            scheme="https",
            greeting=http(b"plain words only", status="400 Bad Request"),
            good=False,
        ),
        alone(
            "a certificate of nobody",
            http(page()),
            failed(OutcomeReason.TLS, "certificate"),
            scheme="https",
            tls=self_signed(),
            good=False,
        ),
        alone("a closed port", b"", failed(OutcomeReason.NO_CONNECTION, "refused"), listens=False, good=False),
    ]


def bad_pages() -> list[Trick]:
    """Bodies with wrong types or insane content."""
    laughs = b'<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "lol">' + b"".join(
        b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9)
    )
    laughs += b"]><urlset><url><loc>&j;</loc></url></urlset>"
    return [
        alone(
            "text that says gzip",
            http(page("plain"), Content_Encoding="gzip"),
            End("page", "", "content encoding is broken: says gzip but is not"),
        ),
        alone(
            "half a gzip",
            http(b"".join(gzipped(iter([page("moss") * 50])))[:60], Content_Encoding="gzip"),
            End("page", "", "content encoding is broken"),
        ),
        alone("many codings", http(b"x", Content_Encoding="gzip, " * 40 + "gzip"), failed(OutcomeReason.BAD_ENCODING)),
        alone("a charset that is none", http(page("hallå"), Content_Type="text/html; charset=moon-8"), PAGE),
        alone("the wrong charset", http(page("hallå"), Content_Type="text/html; charset=utf-16"), PAGE),
        alone("invalid UTF-8", http(b"<title>\xff\xfe\xc3</title>" + bytes(range(256)) * 40), PAGE),
        Trick(
            "NUL in the body",
            {"/x": http(b"<title>\0nul\0</title>\0<a href='/\0'>x</a>" + b"\0" * 5000)},
            {"/x": PAGE, "/%EF%BF%BD": failed(OutcomeReason.CLIENT_ERROR)},
            linked=("/x",),
        ),
        alone("100,000 nested elements", http(b"<div>" * 100_000), End("page", "", "nested too deeply")),
        alone(
            "100,000 attributes",
            http(b"<p " + b"".join(b"a%d " % n for n in range(100_000)) + b">"),
            End("page", "", "a tag has more than 5,000 attributes"),
        ),
        alone(
            "40 KB of formatting left open",
            http(b"".join(b"<b %d><p>" % n for n in range(4000))),
            End("page", "", "too many elements of formatting"),
        ),
        alone("nested tables and forms", http(b"<table><tr><td><form><b><i>" * 20_000), PAGE),
        alone("an attribute of 1 MB", http(b'<p title="' + b"a" * 1_000_000 + b'">x'), PAGE),
        alone("a link of 1 MB", http(b'<a href="/' + b"a" * 1_000_000 + b'">x</a>'), PAGE),
        alone("a title of 1 MB", http(b"<title>" + b"moss " * 200_000), PAGE),
        alone("nothing closed", http(b"<html><head><title>t<script>s<style><!-- <a href='/never'>x"), PAGE),
        alone("one word of 2 MB", http(b"<p>" + b"w" * 2_000_000), PAGE),
        alone("a picture as HTML", http(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 500), PAGE),
        alone("HTML as bytes", http(page("hidden", "/never"), Content_Type="application/octet-stream"), PAGE),
        alone("XML that laughs", http(laughs, Content_Type="application/xml"), PAGE),
        Trick(
            "a sitemap that laughs",
            {"/robots.txt": http(b"Sitemap: /s.xml\n"), "/s.xml": http(laughs, Content_Type="text/xml")},
            {"/s.xml": End("page", "", "declares entities")},
            linked=(),
        ),
        *sitemaps(),
    ]


def sitemaps() -> list[Trick]:
    def elsewhere(number: int) -> str:
        return f"http://elsewhere.example/{number}"

    many = streamed(http(length=False, Content_Type="text/xml"), lambda: urls_of_a_sitemap(elsewhere, 1_000_000_000))
    packed = streamed(
        http(length=False, Content_Type="application/gzip"),
        lambda: gzipped(urls_of_a_sitemap(elsewhere, 1_000_000_000)),
    )
    deep = {
        f"/{n}.xml": http(
            b"<sitemapindex>"
            + b"".join(b"<sitemap><loc>/%d.xml</loc></sitemap>" % k for k in (n, 0, n + 1))
            + b"</sitemapindex>"
        )
        for n in range(50)
    }
    left = End("page", "", "sitemap left after 50000 URLs")
    labels = ("Shift_JIS", "GBK", "Big5", "EUC-JP", "UTF-16", "ANSI", "utf8mb4", "iso-2022-jp")
    odd = {
        f"/{label}.xml": http(
            f'\n<?xml version="1.0" encoding="{label}"?><urlset><url><loc>/?a&b</loc></url>'
            f"<url><loc>/of-{label}</loc></url></urlset>".encode()
        )
        for label in labels
    }
    named = b"".join(
        b"<link rel=alternate type=application/rss+xml href=%b>" % href
        for href in (b"/feed", b"/forbidden", b"http://elsewhere.example/feed")
    )
    feed = b"<rss><channel>%b</channel></rss>" % b"".join(
        b"<item><link>%b</link></item>" % href
        for href in (b"/item", b"/forbidden/item", b"http://elsewhere.example/item", b"x" * 5000)
    )
    return [
        Trick(
            "sitemaps in any encoding",
            {
                "/robots.txt": http("".join(f"Sitemap: {path}\n" for path in odd).encode()),
                **odd,
                **{f"/of-{label}": http(page()) for label in labels},
                "/?a&b": http(page()),
            },
            dict.fromkeys([*odd, *(f"/of-{label}" for label in labels), "/?a&b"], PAGE),
            linked=(),
        ),
        Trick(
            "feeds, in scope and out of it, forbidden and not",
            {
                "/robots.txt": http(b"User-agent: *\nDisallow: /forbidden\n"),
                "/x": http(named + page()),
                "/feed": http(feed, Content_Type="application/rss+xml"),
                "/item": http(page()),
            },
            {
                **dict.fromkeys(("/x", "/feed", "/item"), PAGE),
                **{
                    path: refused(OutcomeReason.ROBOTS_TXT_EXCLUDED, "Disallow: /forbidden")
                    for path in ("/forbidden", "/forbidden/item")
                },
            },
            linked=("/x",),
        ),
        Trick(
            "sitemaps of a billion entries",
            {
                "/robots.txt": http(b"Sitemap: /many.xml\nSitemap: /packed.xml.gz\n"),
                "/many.xml": many,
                "/packed.xml.gz": packed,
            },
            {"/many.xml": left, "/packed.xml.gz": left},
            linked=(),
        ),
        Trick(
            "sitemaps that lead to sitemaps",
            {"/robots.txt": http(b"Sitemap: /0.xml\n"), **deep},
            {f"/{n}.xml": PAGE for n in range(4)},
            linked=(),
        ),
    ]


def all_tricks() -> list[Trick]:
    return [*too_much(), *too_slow(), *round_and_round(), *bad_words(), *bad_pages()]
