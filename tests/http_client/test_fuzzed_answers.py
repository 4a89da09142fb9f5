"""Fuzz tests of responses with random segmentation, compared with llhttp.

The seeds are fixed, so that a failure is reproducible.
"""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import NamedTuple

import httptools
import pytest

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.http.connection import Connection, FailedRequest, ResponseLimits
from fieldmouse.types.outcome import Response
from fieldmouse.types.reason import OutcomeReason
from http_client.test_odd_answers import Wire

LIMITS = ResponseLimits(header=4096)
BODY_LIMIT = 3000
ROUNDS = 250

NAME_LETTERS = "!#$%&'*+-.^_`|~09AZaz"
VALUE_BYTES = [*range(0x21, 0x7F), *range(0xA1, 0x100)]
INTERIM = [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n"]
JUNK = [
    *(b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b",", b";", b"0", b"\xff", b" folded\r\n", b"a" * 5000),
    *(b"f" * 15, b"f" * 16, b"-1", b"+1", b"0x1", b"0\r\n\r\n", b"HTTP/1.1 ", b"HTTP/1.1 101 S\r\n\r\n"),
    *(b"Transfer-Encoding: chunked, chunked\r\n", b"Transfer-Encoding: identity\r\n", *INTERIM),
    *(b"Transfer-Encoding: xchunked\r\n", b"Transfer-Encoding: gzip\r\n", b"Content-Length: 5\r\n"),
    *(b"Content-Length: 99999999999999999999\r\n", b"Connection: close\r\n"),
]


class Valid(NamedTuple):
    interim: bytes
    final: bytes
    status: int
    body: bytes


class Heard(NamedTuple):
    answer: Response | FailedRequest
    reusable: bool
    ended_itself: bool  # before the connection was closed


def hear(pieces: list[bytes]) -> Heard:
    """Return the result of a connection that receives these bytes and is then closed."""

    async def play() -> Heard:
        connection, wire = Connection("h", "192.0.2.1", LIMITS, AutoAdvanceClock(1000.0)), Wire()
        connection.connection_made(wire)
        waiter = connection.send(b"GET / HTTP/1.1\r\n\r\n", BODY_LIMIT)
        for piece in pieces:
            if not wire.closed:
                connection.data_received(piece)
        ended_itself = waiter.done()
        reusable = connection.reusable
        if not ended_itself:
            connection.connection_lost(None)
        return Heard(await waiter, reusable, ended_itself)

    return asyncio.run(play())


def cut(dice: random.Random, wire: bytes) -> list[bytes]:
    places = sorted(dice.randrange(len(wire) + 1) for _ in range(dice.randrange(1, 8)))
    return [wire[start:stop] for start, stop in pairwise([0, *places, len(wire)]) if start < stop]


def bytewise(wire: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in wire]


def valid(dice: random.Random) -> Valid:
    status = dice.choice([200, 200, 200, 404, 301, 500, 599, 204, 304])
    body = b"" if status in (204, 304) else dice.randbytes(dice.choice([0, 1, 5, 50, 700, BODY_LIMIT]))
    lines = [_line(dice) for _ in range(dice.randrange(8))]
    wire = body
    match dice.choice(["length", "chunks", "close"]):
        case "length":
            lines.insert(dice.randrange(len(lines) + 1), b"Content-Length: %d" % len(body))
        case "chunks":
            name = dice.choice([b"Transfer-Encoding", b"TRANSFER-ENCODING"])
            lines.insert(dice.randrange(len(lines) + 1), name + b": " + dice.choice([b"chunked", b"Chunked"]))
            wire = b"" if status in (204, 304) else _chunked(dice, body[: BODY_LIMIT // 8])
            body = body[: BODY_LIMIT // 8]
    if dice.random() < 0.2:
        lines.append(b"Connection: " + dice.choice([b"close", b"keep-alive"]))
    first = b"HTTP/%b %d%b" % (dice.choice([b"1.1", b"1.0"]), status, dice.choice([b" OK", b" ", b" A b"]))
    interim = b"".join(dice.choices(INTERIM, k=dice.choice([0, 0, 1, 2])))
    return Valid(interim, b"\r\n".join([first, *lines, b"", b""]) + wire, status, body)


def _line(dice: random.Random) -> bytes:
    name = "".join(dice.choices(NAME_LETTERS, k=dice.randrange(1, 12))).encode()
    value = bytes(dice.choices(VALUE_BYTES, k=dice.randrange(20)))
    return name + dice.choice([b":", b": ", b":  ", b":\t"]) + value + dice.choice([b"", b" ", b"\t"])


def _chunked(dice: random.Random, body: bytes) -> bytes:
    wire = bytearray()
    while body:
        size = dice.randrange(1, len(body) + 1)
        wire += dice.choice([b"%x", b"%X", b"00%x"]) % size + dice.choice([b"", b"", b";a=b", b';a="q"'])
        wire += b"\r\n" + body[:size] + b"\r\n"
        body = body[size:]
    return bytes(wire) + dice.choice([b"0", b"000", b"0;x=y"]) + b"\r\n" + dice.choice([b"", b"T: x\r\n"]) + b"\r\n"


def damaged(dice: random.Random, wire: bytes) -> bytes:
    hurt = bytearray(wire)
    for _ in range(dice.randrange(1, 5)):
        at = dice.randrange(min(len(hurt), dice.choice([120, 5000])) + 1)
        junk = dice.choice(JUNK)
        match dice.randrange(5):
            case 0:
                hurt[at:at] = junk
            case 1:
                hurt[at : at + len(junk)] = junk
            case 2:
                hurt[at : at + 1] = dice.randbytes(1)
            case 3:
                del hurt[at : at + dice.choice([1, 1, 2, 10])]
            case _:
                hurt[at:at] = hurt[at : at + dice.randrange(1, 200)]
    return bytes(hurt)


class Listener:
    """Events of llhttp for one response."""

    def __init__(self) -> None:
        self.headers: list[tuple[str, str]] = []
        self.body = b""
        self.in_body = self.complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.in_body:  # otherwise it is a trailer
            self.headers.append((name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")))

    def on_headers_complete(self) -> None:
        self.in_body = True

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        self.complete = True


@pytest.mark.parametrize("seed", range(4))
def test_valid_responses_parse_as_in_llhttp_for_every_segmentation(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(ROUNDS):
        wanted = valid(dice)
        listener = Listener()
        parser = httptools.HttpResponseParser(listener)
        parser.feed_data(wanted.final)
        wire = wanted.interim + wanted.final
        first, *others = [hear(pieces) for pieces in ([wire], bytewise(wire), cut(dice, wire), cut(dice, wire))]
        assert isinstance(first.answer, Response), (first.answer, wire)
        assert first.answer.status == parser.get_status_code() == wanted.status
        assert list(first.answer.headers) == listener.headers, wire
        assert first.answer.body == listener.body == wanted.body, wire
        assert first.answer.truncated == ""
        assert first.ended_itself == listener.complete, wire
        assert all(other == first for other in others), wire


@pytest.mark.parametrize("seed", range(4))
def test_damaged_responses_parse_the_same_for_every_segmentation(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(ROUNDS):
        good = valid(dice)
        wire = damaged(dice, good.interim + good.final)
        heard = [hear(pieces) for pieces in ([wire], bytewise(wire), cut(dice, wire))]
        for each in heard:
            answer = each.answer.response if isinstance(each.answer, FailedRequest) else each.answer
            if answer is not None:
                assert len(answer.body) <= BODY_LIMIT
                assert len(answer.head) <= LIMITS.header
        # A response that exceeds a limit may be cut, or refused for an error, depending on the segmentation.
        if len(wire) < BODY_LIMIT:
            assert all(_told(each) == _told(heard[0]) for each in heard), wire


def _told(heard: Heard) -> tuple[OutcomeReason | None, object, bool]:
    """Return everything but the texts for users."""
    if isinstance(heard.answer, Response):
        return None, heard.answer, heard.reusable
    return heard.answer.reason, heard.answer.response, heard.reusable
