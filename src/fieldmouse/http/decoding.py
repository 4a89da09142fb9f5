"""Decoding of Content-Encoding with limits against decompression bombs.

A body of a few kilobytes can decompress to gigabytes, so the output of every coding is limited to the
smaller of `limit` and `ratio` times the size on the wire (small bodies may grow more: `ALWAYS_ALLOWED`
bytes are always allowed). Output before an error or the limit is returned with the reason: half a page is
still searchable. Unknown codings are ignored, as browsers do with `Content-Encoding: utf-8`.
"""

from __future__ import annotations

from collections.abc import Callable

import brotli
import msgspec
import zstandard
from isal import isal_zlib

from fieldmouse.types.outcome import Response
from fieldmouse.types.reason import OutcomeReason

ALWAYS_ALLOWED = 1024 * 1024
MAX_CODINGS = 4  # codings applied to one body; more are an error
MAX_GZIP_MEMBERS = 2000  # of one gzip file: enough for 64 MiB in the blocks of bgzip; each costs about 0.1 ms
FIRST_PIECE = 4096  # bytes fed to a member first: it may not be longer
ENDS_EARLY = "ends early"
SALVAGE_STEP = 256  # bytes per step in the search for the place where a body breaks
MAX_ZSTD_WINDOW = 8 * 1024 * 1024  # the largest zstd window that a web server may use (RFC 9659)


class DecodedBody(msgspec.Struct, frozen=True):
    """The decoded body, or a part of it: then `reason` is BOMB or BAD_ENCODING."""

    body: bytes
    reason: OutcomeReason | None = None
    detail: str = ""


def decode_response(answer: Response, *, limit: int = 64 * ALWAYS_ALLOWED, ratio: int = 200) -> DecodedBody:
    """Return the body of a response without its content codings; several header lines are one list."""
    return decode_body(answer.body, ", ".join(answer.all_headers("content-encoding")), limit=limit, ratio=ratio)


def decode_body(
    body: bytes, content_encoding: str, *, limit: int = 64 * ALWAYS_ALLOWED, ratio: int = 200
) -> DecodedBody:
    """Undo a Content-Encoding header, the last coding first.

    >>> decode_body(b"plain", "").body
    b'plain'
    """
    if not content_encoding or not body:
        return DecodedBody(body)
    codings = [coding.strip().lower() for coding in content_encoding.split(",")]
    decoders = [_CODINGS[coding] for coding in reversed(codings) if coding in _CODINGS]
    if len(decoders) > MAX_CODINGS:
        return DecodedBody(b"", OutcomeReason.BAD_ENCODING, f"{len(decoders)} codings on top of each other")
    most = min(limit, max(ALWAYS_ALLOWED, ratio * len(body)))
    result = DecodedBody(body)
    for decoder in decoders:
        result = decoder(result.body, most)
        if len(result.body) > most:
            return DecodedBody(
                result.body[:most], OutcomeReason.DECOMPRESSION_BOMB, f"{len(body)} bytes become more than {most}"
            )
        if result.reason is not None:
            return result
    return result


# Each decoder returns at most `most` + 1 bytes or a little more: enough to see that it is too much.


def _gunzip(body: bytes, most: int) -> DecodedBody:
    if body[:2] != b"\x1f\x8b":
        return DecodedBody(body, OutcomeReason.BAD_ENCODING, "says gzip but is not")
    return _inflate(body, 31, most)


def _inflate(body: bytes, wbits: int, most: int) -> DecodedBody:
    """Decompress gzip members (wbits 31), a zlib stream (15) or raw deflate (-15)."""
    pieces: list[bytes] = []
    room, at = most + 1, 0
    for _ in range(MAX_GZIP_MEMBERS):
        stream = isal_zlib.decompressobj(wbits)
        begin, pieces_before, room_before = at, len(pieces), room
        # The rest behind a member is copied: so from the second member on (most files have one), input is fed
        # in pieces that grow with the member.
        sip = FIRST_PIECE if at else len(body)
        while not stream.eof and at < len(body) and room > 0:
            packed = body[at : at + sip]
            at, sip = at + len(packed), 2 * sip
            try:
                piece = stream.decompress(packed, room)
            except isal_zlib.error as error:  # type: ignore[misc]  # its stub calls it an instance
                saved = _decode_until_error(isal_zlib.decompressobj(wbits).decompress, body[begin:], room_before)
                return DecodedBody(b"".join((*pieces[:pieces_before], saved)), OutcomeReason.BAD_ENCODING, str(error))
            pieces.append(piece)
            room -= len(piece)
        if room <= 0:
            break
        if not stream.eof:
            return DecodedBody(b"".join(pieces), OutcomeReason.BAD_ENCODING, ENDS_EARLY)
        at -= len(stream.unused_data)
        # Members may follow each other; anything else after the end is padding.
        if wbits != 31 or body[at : at + 2] != b"\x1f\x8b":
            break
    else:
        return DecodedBody(b"".join(pieces), OutcomeReason.BAD_ENCODING, f"more than {MAX_GZIP_MEMBERS:,} gzip members")
    return DecodedBody(pieces[0] if len(pieces) == 1 else b"".join(pieces))


def _undeflate(body: bytes, most: int) -> DecodedBody:
    """Decompress "deflate": it means a zlib stream, but many servers send raw deflate."""
    zlib_first = body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    first = _inflate(body, 15 if zlib_first else -15, most)
    if first.reason is None or first.body:
        return first
    second = _inflate(body, -15 if zlib_first else 15, most)
    return second if second.reason is None or second.body else first


def _unbrotli(body: bytes, most: int) -> DecodedBody:
    stream = brotli.Decompressor()
    try:
        pieces = [stream.process(body, output_buffer_limit=most + 1)]
        size = len(pieces[0])
        while size <= most and not stream.is_finished() and not stream.can_accept_more_data():
            pieces.append(stream.process(b"", output_buffer_limit=most + 1 - size))
            size += len(pieces[-1])
    except brotli.error as error:
        salvaged = _decode_until_error(_brotli_steps(), body, most + 1)
        return DecodedBody(salvaged, OutcomeReason.BAD_ENCODING, str(error))
    unpacked = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if size <= most and not stream.is_finished():
        return DecodedBody(unpacked, OutcomeReason.BAD_ENCODING, ENDS_EARLY)
    return DecodedBody(unpacked)


def _brotli_steps() -> Callable[[bytes, int], bytes]:
    stream = brotli.Decompressor()

    def step(piece: bytes, room: int) -> bytes:
        unpacked: bytes = stream.process(piece, output_buffer_limit=room)
        return unpacked

    return step


def _unzstd(body: bytes, most: int) -> DecodedBody:
    if body[:4] != b"\x28\xb5\x2f\xfd" and body[1:4] != b"\x2a\x4d\x18":  # a frame, or a skippable one
        return DecodedBody(body, OutcomeReason.BAD_ENCODING, "says zstd but is not")
    # The library does not tell whether a stream was complete. So our own frame is appended: its mark comes
    # out at the end if, and only if, everything before it was complete.
    unpacked, complaint = _read_zstd(body + _MARK_PACKED, most + 1 + len(_MARK), step=256 * 1024)
    if unpacked.endswith(_MARK):
        return DecodedBody(unpacked[: -len(_MARK)])
    if len(unpacked) > most:
        return DecodedBody(unpacked)
    salvaged, _ = _read_zstd(body, most + 1, step=4096)
    return DecodedBody(salvaged, OutcomeReason.BAD_ENCODING, complaint)


_ZSTD = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW)
# Longer than its compressed form, so that this cannot contain it: a cut frame may read those bytes as its
# content.
_MARK = bytes.fromhex("8f1c5e0b27d94a63b0e2715ca8f3469d") * 8
_MARK_PACKED = zstandard.compress(_MARK)


def _read_zstd(body: bytes, room: int, step: int) -> tuple[bytes, str]:
    pieces: list[bytes] = []
    reader = _ZSTD.stream_reader(body, read_across_frames=True)
    try:
        while room > 0 and (piece := reader.read(min(room, step))):
            pieces.append(piece)
            room -= len(piece)
    except zstandard.ZstdError as error:
        return b"".join(pieces), str(error)
    return b"".join(pieces), ENDS_EARLY


def _decode_until_error(unpack: Callable[[bytes, int], bytes], body: bytes, room: int) -> bytes:
    """Return the output before the place where the body breaks, found in small steps."""
    pieces: list[bytes] = []
    for start in range(0, len(body), SALVAGE_STEP):
        try:
            piece = unpack(body[start : start + SALVAGE_STEP], room)
        except (isal_zlib.error, brotli.error):  # type: ignore[misc]
            break
        pieces.append(piece)
        room -= len(piece)
        if room <= 0:
            break
    return b"".join(pieces)


_CODINGS: dict[str, Callable[[bytes, int], DecodedBody]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}
