"""Tests of responses that violate the standard: parsed, refused, and whether the connection is reused.

Most of these lines were tried on curl 7.88, too; the table notes differences.
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from itertools import pairwise

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.http import headers as head
from fieldmouse.http.connection import LONGEST_LINE, BadChunk, ChunkedDecoder, Connection, FailedRequest, ResponseLimits
from fieldmouse.types.outcome import Response
from fieldmouse.types.reason import OutcomeReason

OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: 5\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


class Wire(asyncio.Transport):
    """The other end, which records whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: object) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


def hear(
    *pieces: bytes, ends: bool = False, limits: ResponseLimits | None = None
) -> tuple[Response | FailedRequest, bool]:
    """Return the result of a connection that receives these bytes, and whether it is reusable."""

    async def play() -> tuple[Response | FailedRequest, bool]:
        connection, wire = Connection("h", "192.0.2.1", limits or ResponseLimits(), AutoAdvanceClock(1000.0)), Wire()
        connection.connection_made(wire)
        waiter = connection.send(b"GET / HTTP/1.1\r\n\r\n", 100_000)
        for piece in pieces:
            if not waiter.done():
                connection.data_received(piece)
        if ends and not waiter.done():
            connection.connection_lost(None)
        assert waiter.done(), "it waits for more"
        return waiter.result(), connection.reusable

    return asyncio.run(play())


def body_of(*pieces: bytes, ends: bool = False) -> bytes | OutcomeReason:
    answer, _ = hear(*pieces, ends=ends)
    return answer.body if isinstance(answer, Response) else answer.reason


def reason_of(*pieces: bytes, limits: ResponseLimits | None = None) -> OutcomeReason | None:
    """Return why these bytes are not a response; None if they are one."""
    answer, _ = hear(*pieces, limits=limits)
    return answer.reason if isinstance(answer, FailedRequest) else None


# The line and its parsed form.
NAMES: list[tuple[bytes, tuple[tuple[str, str], ...]]] = [
    (b"Server: x", (("server", "x"),)),
    (b"Server : x", (("server", "x"),)),
    (b"Server\t : x", (("server", "x"),)),
    (b"Server\r: x", (("server", "x"),)),
    (b"X: a\rb", (("x", "a b"),)),
    (b"X: a\r", (("x", "a"),)),
    (b"X: a\0b\x01\x7f", (("x", "a\0b\x01\x7f"),)),
    (b"X: \xe9\x85", (("x", "\xe9\x85"),)),
    (b"X: a\r\n b\r\n\tc", (("x", "a b c"),)),
    (b"X:", (("x", ""),)),
    (b"X:  ", (("x", ""),)),
    (b"-: y", (("-", "y"),)),
    (b": no name", ()),
    (b" : no name", ()),
    (b"no colon", ()),
    (b"HTTP/1.1 302 Found", ()),
    (b"name=value", ()),
    (b"Two Words: x", ()),
    (b"Two Words: x\r\n continued: y", ()),
    (b" X: begins with a blank", ()),
    (b"\tX: begins with a tab", ()),
    (b"Bad(Name): x", ()),
    (b"[x]: y", ()),
    (b"@x: y", ()),
    (b'"x": y', ()),
    (b"{x}: y", ()),
    (b"x;y: z", ()),
    (b"x,y: z", ()),
    (b"x/y: z", ()),
    (b"x?: y", ()),
    (b"<x>: y", ()),
    (b"x\\: y", ()),
    (b"x\x7f: y", ()),
    (b"x\x01: y", ()),
    (b"x\0: y", ()),
    (b"\xe9: x", ()),
    (b"\xef\xbb\xbfX: y", ()),
]


@pytest.mark.parametrize(("line", "read"), NAMES, ids=repr)
def test_invalid_header_line_does_not_cost_the_page(line: bytes, read: tuple[tuple[str, str], ...]) -> None:
    wire = OK + line + b"\r\n" + LENGTH + b"\r\nhello"
    for pieces in ([wire], [bytes([byte]) for byte in wire]):
        answer, _ = hear(*pieces)
        assert isinstance(answer, Response), answer
        assert answer.body == b"hello"
        assert answer.headers == (*read, ("content-length", "5"))
        assert answer.head == wire.removesuffix(b"hello"), "the archive has what the server sent"


@pytest.mark.parametrize(("line", "read"), NAMES[1:5] + NAMES[12:], ids=repr)
def test_connection_with_an_irregular_head_is_not_reused(line: bytes, read: object) -> None:
    assert hear(OK + LENGTH + b"\r\nhello")[1]
    assert not hear(OK + b"A: b\r\n" + line + b"\r\n" + LENGTH + b"\r\nhello")[1]


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 5",
        b"Content-Length: 5 ",
        b"Content-Length: 005",
        b"content-LENGTH:5",
        b"Content-Length : 5",  # curl reads on until the connection ends
        b"Content-Length\t: 5",
        b"Content-Length:\r\n 5",
        b"Content-Length: 5\r\nContent-Length: 5",
        b"Content-Length: 5\r\nX: y\r\nContent-Length : 5",
        b"Content-Length: 5, 5",
        b"Content-Length: 5,5",
        b"Content-Length: 5,,5,",
        b"Content-Length: 5, 05\r\nContent-Length: 5",
        b"Content-Length: 5\r\nTransfer-Encoding: identity",
        b"Content-Length: 5\r\nTransfer-Encoding: binary",
        b"Content-Length: 5\r\nTransfer-Encoding:",
    ],
    ids=repr,
)
def test_one_length_in_several_spellings_is_accepted(lines: bytes) -> None:
    wire = OK + lines + b"\r\n\r\nhello"
    assert body_of(wire) == b"hello"
    assert body_of(*(bytes([byte]) for byte in wire)) == b"hello"
    answer, reusable = hear(wire + b"HTTP/1.1 200 OK\r\n")
    assert isinstance(answer, Response)
    assert (answer.body, reusable) == (b"hello", False)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (b"Content-Length: 5, 6", "both 5 and 6"),  # curl takes the first
        (b"Content-Length: 5\r\nContent-Length: 6", "both 5 and 6"),
        (b"Content-Length: 5, 5\r\nContent-Length: 6", "both 5 and 6"),
        (b"Content-Length: 5\r\nContent-Length:", "''"),
        (b"Content-Length:", "''"),
        (b"Content-Length: ,", "','"),
        (b"Content-Length: abc", "'abc'"),
        (b"Content-Length: -5", "'-5'"),
        (b"Content-Length: +5", "'+5'"),  # this and the next four curl takes for 5 or 0
        (b"Content-Length: 5;", "'5;'"),
        (b"Content-Length: 5 5", "'5 5'"),
        (b"Content-Length: 5.0", "'5.0'"),
        (b"Content-Length: 0x5", "'0x5'"),
        (b"Content-Length: \xb2", "'\xb2'"),
        (b"Content-Length: 5\0", "'5\\x00'"),
        (b"Content-Length: 5\r\n X: y", "'5 X: y'"),
        (b"Content-Length: 9999999999999999999", "19 digits"),
        (b"Content Length: 5", "'Content Length: 5'"),
        (b"Content-Length\0: 5", "'Content-Length\\x00: 5'"),
        (b"\xef\xbb\xbfContent-Length: 5", "Content-Length: 5"),
        (b" Content-Length: 5", "'Content-Length: 5'"),
        (b"Content-Length 5", "'Content-Length 5'"),
        (b"Transfer Encoding: chunked", "'Transfer Encoding: chunked'"),
        (b"(Transfer-Encoding): chunked", "chunked"),
        (b"Transfer-Encoding: xchunked", "'xchunked'"),
        (b'Transfer-Encoding: "chunked"', "chunked"),
        (b"Transfer-Encoding: chunked;q=1", "'chunked;q=1'"),
        (b"Transfer-Encoding: chunked, gzip", "before it is something else"),
        (b"Transfer-Encoding: chunked, identity", "before it is something else"),
    ],
    ids=repr,
)
def test_ambiguous_end_of_a_body_is_a_failure_with_reason(lines: bytes, why: str) -> None:
    wire = OK + lines + b"\r\n\r\nhello"
    for pieces in ([wire], [bytes([byte]) for byte in wire]):
        answer, reusable = hear(*pieces)
        assert isinstance(answer, FailedRequest), answer
        assert (answer.reason, reusable) == (OutcomeReason.BAD_HTTP, False)
        assert why in answer.detail


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
@pytest.mark.parametrize(
    "lines", [b"", LENGTH, CHUNKED, b"Content-Length: 5, 6\r\n", b"Content-Length: many\r\n"], ids=repr
)
def test_status_without_a_body_ignores_framing_headers(status: bytes, lines: bytes) -> None:
    wire = b"HTTP/1.1 " + status + b"\r\n" + lines + b"\r\n"
    answer, reusable = hear(wire)
    assert isinstance(answer, Response)
    assert (answer.body, answer.truncated, reusable) == (b"", "", True)
    assert not hear(wire + b"hello")[1], "what follows was not asked for"


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink : </x>\r\nno colon\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\nContent-Length: 99\r\nContent-Length: 7\r\n\r\n",
        b"HTTP/1.1 100 C\n\nHTTP/1.1 199 X\r\n\r\n\r\n",
    ],
    ids=repr,
)
def test_irregular_interim_responses_are_skipped(interim: bytes) -> None:
    wire = interim + OK + LENGTH + b"\r\nhello"
    for pieces in ([wire], [bytes([byte]) for byte in wire]):
        answer, reusable = hear(*pieces)
        assert isinstance(answer, Response), answer
        assert (answer.status, answer.body, reusable) == (200, b"hello", True)
        assert answer.headers == (("content-length", "5"),)
        assert answer.head == OK + LENGTH + b"\r\n"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"HTTP/1.1 200", 200),
        (b"HTTP/1.1 200 \xe9\0", 200),
        (b"HTTP/1.1  404  None", 404),
        (b"http/1.1 200 OK", 200),
        (b"HTTP/1.1 200OK", 200),
        (b"HTTP/2 200 OK", 200),
        (b"HTTP/1.0 999 Odd", 999),
        (b"\r\n\nHTTP/1.1 200 OK", 200),
        (b" HTTP/1.1 200 OK", 0),
        (b"HTTP/1.1 20 OK", 0),
        (b"HTTP/1.1 0200 OK", 0),
        (b"HTTP/1.1 2000 OK", 0),
        (b"HTTP/1.1 099 X", 0),
        (b"HTTP/1.1 000 X", 0),
        (b"HTTP/1.1 OK", 0),
        (b"HTTP 200 OK", 0),
        (b"ICY 200 OK", 0),
        (b"\xef\xbb\xbfHTTP/1.1 200 OK", 0),
    ],
    ids=repr,
)
def test_status_line_needs_a_version_and_a_status(line: bytes, status: int) -> None:
    wire = line + b"\r\n" + LENGTH + b"\r\nhello"
    for pieces in ([wire], [bytes([byte]) for byte in wire]):
        answer, _ = hear(*pieces)
        assert (answer.status if isinstance(answer, Response) else 0) == status
        if isinstance(answer, FailedRequest):
            assert answer.reason is OutcomeReason.BAD_HTTP


@pytest.mark.parametrize(
    ("version", "lines", "again"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: close\r\n", False),
        (b"1.1", b"Connection: Keep-Alive\r\nConnection: X, CLOSE\r\n", False),
        (b"1.0", b"", False),
        (b"1.0", b"Connection: keep-alive\r\n", True),
        (b"2.0", b"", False),
    ],
)
def test_connection_is_kept_if_the_server_keeps_it(version: bytes, lines: bytes, again: bool) -> None:
    assert hear(b"HTTP/" + version + b" 200 OK\r\n" + lines + LENGTH + b"\r\nhello")[1] is again


@pytest.mark.parametrize(
    "chunks",
    [
        b"5\r\nhello\r\n0\r\n\r\n",
        b"5\nhello\n0\n\n",
        b"2\r\nhe\n3\nllo\r\n0\n\r\n",
        b"5;x=y\nhello\n0;z\n\n",
        b"5 \t;x\r\nhello\r\n0 \r\n\r\n",
        b"0005\r\nhello\r\n000\r\n\r\n",
        b"1\r\nh\r\n4\r\nello\r\n0\r\nTrailer: x\r\n\r\n",
        b"5\r\nhello\r\n0\r\nTrailer : x\r\nno trailer\r\nContent-Length: 7\r\n\r\n",  # curl refuses this one
        b"5\r\nhello0\r\n\r\n",  # and this one
    ],
    ids=repr,
)
def test_chunks_in_several_spellings_are_decoded(chunks: bytes) -> None:
    wire = OK + CHUNKED + b"\r\n" + chunks
    for pieces in ([wire], [bytes([byte]) for byte in wire]):
        answer, reusable = hear(*pieces)
        assert isinstance(answer, Response), answer
        assert (answer.body, reusable) == (b"hello", True)
    assert not hear(wire + b"HTTP/1.1")[1]


@pytest.mark.parametrize(
    "chunks", [b" 5\r\nhello", b"0x5\r\nhello", b"-5\r\nhello", b"five\r\n", b"\r\n5\r\nhello", b"f" * 16 + b"\n"]
)
def test_invalid_chunk_is_reported(chunks: bytes) -> None:
    answer, _ = hear(OK + CHUNKED + b"\r\n2\r\nhi\r\n" + chunks)
    assert isinstance(answer, FailedRequest)
    assert answer.reason is OutcomeReason.BAD_HTTP
    assert answer.response is not None
    assert (answer.response.body, answer.response.truncated) == (b"hi", "unspecified")


def test_endless_line_between_chunks_is_refused() -> None:
    chunks = ChunkedDecoder()
    for _ in range(LONGEST_LINE // 1000):
        chunks.feed(b"0" * 1000)
    with pytest.raises(BadChunk):
        chunks.feed(b"0" * 1000)


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=6), st.lists(st.integers(0, 4000), max_size=6))
def test_chunks_are_joined_for_every_segmentation(pieces: list[bytes], cuts: list[int]) -> None:
    wire = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nT: x\r\n\r\n"
    places = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
    chunks = ChunkedDecoder()
    for start, stop in pairwise(places):
        assert chunks.feed(wire[start:stop]) == 0
    assert chunks.done
    assert bytes(chunks.body) == b"".join(pieces)


@pytest.mark.parametrize("interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1 100\n\n", b"\r\n"], ids=repr)
def test_interim_responses_and_blank_lines_count_as_headers(interim: bytes) -> None:
    wire = interim * (3000 // len(interim)) + OK + LENGTH + b"\r\nhello"
    for pieces in ([wire], [wire[:1500], wire[1500:]], [bytes([byte]) for byte in wire]):
        assert reason_of(*pieces, limits=ResponseLimits(header=2000)) is OutcomeReason.HEADERS_TOO_LARGE
        assert reason_of(*pieces, limits=ResponseLimits(header=4000)) is None


@pytest.mark.parametrize("cut", [1, 500, 100_000])
def test_page_without_a_head_is_invalid_http_at_any_length(cut: int) -> None:
    wire = b"<!doctype html>" + b"x" * 90_000
    pieces = [wire[start : start + cut] for start in range(0, len(wire), cut)]
    assert reason_of(*pieces) is OutcomeReason.BAD_HTTP


def test_folded_lines_are_joined() -> None:
    answer, _ = hear(OK + b"X: a \r\n\t b\r\n  \r\n c\r\nY: d\r\n" + LENGTH + b"\r\nhello")
    assert isinstance(answer, Response)
    assert answer.headers == (("x", "a b c"), ("y", "d"), ("content-length", "5"))


PACKED = gzip.compress(b"hello", mtime=0)


@pytest.mark.parametrize(
    ("lines", "packed"),
    [
        (b"Transfer-Encoding: gzip, chunked\r\n", PACKED),
        (b"Transfer-Encoding: x-gzip,chunked, chunked\r\n", PACKED),
        (b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", PACKED),
        (b"Transfer-Encoding: deflate, gzip, chunked\r\n", gzip.compress(zlib.compress(b"hello"), mtime=0)),
        (b"Transfer-Encoding: identity, foo, Chunked,\r\n", b"hello"),
    ],
    ids=repr,
)
def test_other_transfer_codings_are_undone_with_the_chunks(lines: bytes, packed: bytes) -> None:
    assert body_of(OK + lines + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed)) == b"hello"


def test_a_transfer_coding_without_chunks_ends_with_the_connection() -> None:
    assert body_of(OK + b"Transfer-Encoding: gzip\r\n" + LENGTH + b"\r\n", PACKED, ends=True) == b"hello"
    assert body_of(OK + b"Transfer-Encoding: gzip\r\n\r\n", PACKED[:-9], ends=True) is OutcomeReason.BAD_HTTP


def test_transfer_coding_is_decoded_up_to_the_limit() -> None:
    bomb = gzip.compress(b"x" * 50_000_000)
    answer, reusable = hear(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(bomb), bomb))
    assert isinstance(answer, Response)
    assert (len(answer.body), answer.truncated, reusable) == (100_000, "length", False)


def test_length_is_ignored_with_chunks() -> None:
    for lines in (CHUNKED + b"Content-Length: 3\r\n", b"Content-Length: abc\r\n" + CHUNKED):
        answer, reusable = hear(OK + lines + b"\r\n5\r\nhello\r\n0\r\n\r\n")
        assert isinstance(answer, Response), answer
        assert (answer.body, reusable) == (b"hello", False)


class Listener:
    def __init__(self) -> None:
        self.headers: list[tuple[str, str]] = []
        self.body = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode("latin-1").lower(), value.decode("latin-1").rstrip()))

    def on_body(self, piece: bytes) -> None:
        self.body += piece


TOKENS = st.text("!#$%&'*+-.^_`|~09AZaz", min_size=1, max_size=12)
VALUES = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=20).map(str.strip)


@given(
    st.integers(200, 599).filter(lambda status: status not in (204, 304)),
    st.lists(st.tuples(TOKENS, VALUES), max_size=8),
    st.sampled_from([LENGTH, CHUNKED]),
)
def test_regular_heads_parse_as_in_llhttp(status: int, headers: list[tuple[str, str]], framing: bytes) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers).encode("latin-1")
    body = b"hello" if framing is LENGTH else b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
    wire = b"HTTP/1.1 %d X\r\n" % status + lines + framing + b"\r\n" + body
    listener = Listener()
    parser = httptools.HttpResponseParser(listener)
    parser.feed_data(wire)
    answer, reusable = hear(wire)
    assert isinstance(answer, Response)
    assert answer.status == parser.get_status_code()
    assert [(name, value.strip()) for name, value in answer.headers] == listener.headers
    assert (answer.body, reusable) == (listener.body, True)


@given(st.binary(max_size=200))
def test_arbitrary_head_is_parsed_or_refused(noise: bytes) -> None:
    whole = OK + noise + b"\r\n\r\n"
    whole = whole[: head.head_length(whole)]
    try:
        fields = head.parse_head(whole)
        head.body_framing(fields)
    except head.InvalidHead:
        return
    assert fields.status == 200
    assert all(name == name.lower() and "\n" not in name + value for name, value in fields.headers)
