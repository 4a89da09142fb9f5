"""Decoder for chunked bodies (RFC 9112, 7.1).

Lines may end in a bare line feed, a chunk may lack the line end behind it, and chunk extensions and
trailers are skipped.
"""

from __future__ import annotations

import re

LONGEST_LINE = 64 * 1024  # bytes of a size with its extensions, or of a trailer

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\r*", re.DOTALL)
_PLAIN_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n").match
_CR, _LF = b"\r\n"


class BadChunk(ValueError):
    """Invalid chunk; the message says why."""


class Chunks:
    """Decoder of one body; `body` grows, and `done` is true after the last chunk and the trailers."""

    __slots__ = ("_behind", "_left", "_line", "_trailing", "body", "done")

    def __init__(self) -> None:
        self.body = bytearray()
        self.done = False
        self._left = 0  # bytes of the current chunk still to come
        self._behind = False  # a chunk has just ended: its line end comes next
        self._trailing = False  # the last chunk was read
        self._line = b""  # the part of a line received so far

    def feed(self, data: bytes) -> int:
        r"""Decode more data; return the number of bytes behind the end of the body. Raises `BadChunk`.

        >>> chunks = Chunks()
        >>> chunks.feed(b"5\r\nmice \r\n4;x=y\nru"), chunks.done
        (0, False)
        >>> chunks.feed(b"n.\n0\n\nHTTP"), chunks.done, bytes(chunks.body)
        (4, True, b'mice run.')
        """
        at = 0 if self._left or self._behind or self._trailing or self._line else self._read_whole(data)
        size = len(data)
        while at < size and not self.done:
            if self._left:
                piece = data[at : at + self._left]
                self.body += piece
                at += len(piece)
                self._left -= len(piece)
                self._behind = not self._left
            elif self._behind:
                # A carriage return may be the last byte received.
                if data[at] == _CR:
                    at += 1
                    continue
                self._behind = False
                at += data[at] == _LF
            else:
                end = data.find(b"\n", at)
                line = self._line + data[at : end if end >= 0 else size]
                if len(line) > LONGEST_LINE:
                    raise BadChunk(f"a line of more than {LONGEST_LINE} bytes between chunks")
                if end < 0:
                    self._line = line
                    break
                self._line = b""
                at = end + 1
                self._read(line)
        return size - at if self.done else 0

    def _read_whole(self, data: bytes) -> int:
        """Decode the chunks that are complete in `data`, as nearly all are; return where the others begin."""
        at, body = 0, self.body
        while match := _PLAIN_SIZE(data, at):
            start = match.end()
            stop = start + int(match[1], 16)
            if start == stop or data[stop : stop + 2] != b"\r\n":
                break
            body += data[start:stop]
            at = stop + 2
        return at

    def _read(self, line: bytes) -> None:
        if self._trailing:
            self.done = not line.strip(b"\r")
            return
        match = _SIZE.fullmatch(line)
        if match is None:
            raise BadChunk(f"no chunk begins with {line[:20]!r}")
        self._left = int(match[1], 16)
        self._trailing = not self._left
