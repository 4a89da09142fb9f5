"""Tests of repeated response headers."""

from __future__ import annotations

import gzip
import zlib

from msgspec.structs import replace

from fieldmouse.parse.content import read_page_content
from fieldmouse.parse.links import LinkExtractor
from fieldmouse.types.request import Request
from fieldmouse.url import Url
from workers.responses import CONFIG, response

LINK = Request(Url("http://example.org/"))


def test_page_with_repeated_encoding_and_type_headers_is_read() -> None:
    body = gzip.compress(zlib.compress("<title>M\u00e4use</title><a href=/b>b</a>".encode("latin-1")))
    headers = (
        ("content-type", "text/plain"),
        ("content-encoding", "deflate"),
        ("content-type", "text/html; charset=iso-8859-1"),
        ("content-encoding", "gzip"),
    )
    answer = replace(response(body), headers=headers)
    read = read_page_content(LINK, answer, CONFIG, LinkExtractor(CONFIG))
    assert (read.mime, read.charset, read.document.title) == ("text/html", "cp1252", "M\u00e4use")
    assert [link.url for link in read.links] == ["http://example.org/b"]
