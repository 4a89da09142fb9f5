"""The head of an answer: where it ends, and where it says the body ends.

Reading a head is the parser's work. These are the two questions it does not
answer: which bytes the head was, for the archive wants them as they came, and
whether a closed connection is the end of the body or a loss.
"""

from __future__ import annotations

from collections.abc import Sequence

Headers = Sequence[tuple[str, str]]
"""Names in lower case and values, in the order they came."""


def split(raw: bytes | bytearray) -> tuple[bytes, bytes]:
    r"""The first head of `raw`, through its empty line, and what follows.

    The parser has already said that a whole head is in there.

    >>> split(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody")
    (b'HTTP/1.1 200 OK\r\nA: b\r\n\r\n', b'body')
    """
    if raw[0] in b"\r\n":  # empty lines before a status line are forgiven (RFC 9112, 2.2)
        raw = raw.lstrip(b"\r\n")
    crlf = raw.find(b"\n\r\n")
    end = crlf + 3 if crlf >= 0 else len(raw)
    bare = raw.find(b"\n\n", 0, end)
    if bare >= 0:
        end = bare + 2
    return bytes(raw[:end]), bytes(raw[end:])


def value(headers: Headers, name: str) -> str:
    """The first header of that name, or ""."""
    return next((text for known, text in headers if known == name), "")


def ends_with_connection(headers: Headers) -> bool:
    """Is the end of the connection the end of this body? (RFC 9112, 6.3)

    >>> ends_with_connection([]), ends_with_connection([("content-length", "5")])
    (True, False)
    """
    coding = ",".join(text for name, text in headers if name == "transfer-encoding").lower()
    if coding:
        return not coding.rstrip().endswith("chunked")
    return not value(headers, "content-length")
