"""Parsers of HTTP response heads and header values: framing, dates, freshness, media type.

Servers send lines that no grammar allows (`Server : x`, a line of a log, a byte order mark). A head is
parsed as browsers do: blanks before a colon are dropped, lines without a name are ignored. Lines about
the end of the body are an exception. If they contradict each other or are ambiguous, the response is
refused, because the end of the page is then unknown. After a head that violates the standard the
connection is not reused.

Dates (RFC 9110, 5.6.7) have three forms, all in GMT; a wrong or missing day of the week and a numeric
zone are accepted. Freshness (RFC 9111, 4.2): `max-age` has priority over Expires, the first of several
values counts, an invalid value means stale, and the time spent in caches is subtracted. We are a private
cache: `s-maxage` is ignored. Of several Content-Types the last valid one counts (Fetch Standard, "extract
a MIME type").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from fieldmouse.types.outcome import Response

#: Names in lower case and values, in the order received.
Headers = Sequence[tuple[str, str]]

_STATUS = re.compile(r"HTTP/([0-9])(?:\.([0-9]))?[ \t]+([1-9][0-9]{2})(?![0-9])", re.IGNORECASE)
_BEGINNING = "HTTP/"
_END = re.compile(rb"\n\r?\n").search
_EMPTY_LINES = re.compile(rb"[\r\n]*").match
_NAME = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # RFC 9110, 5.6.2
_IS_NAME = re.compile(_NAME).fullmatch
_TIDY = re.compile(rf"(?:{_NAME}:[^\r\n]*\r?\n)*\r?\n").fullmatch
_BLANK = " \t\r"
_LONGEST_NUMBER = 18  # digits of a Content-Length
_FRAMING = re.compile(r"[^a-z]*(?:content[^a-z]*length|transfer[^a-z]*encoding)(?![a-z])", re.IGNORECASE)
_FRAMING_NAMES = frozenset(("content-length", "transfer-encoding", "connection"))
_CODINGS = frozenset(("gzip", "x-gzip", "deflate", "br", "zstd"))


class InvalidHead(ValueError):
    """Not HTTP, or the end of the body is ambiguous; the message says why."""


class ResponseHead(msgspec.Struct, frozen=True):
    """Status line and header lines; `irregular` if some violate the standard."""

    status: int
    headers: tuple[tuple[str, str], ...]
    persistent: bool = True  # by its version: HTTP/1.1 keeps connections by default
    irregular: bool = False


class BodyFraming(msgspec.Struct, frozen=True):
    """End of a body: after `length` bytes, after its last chunk, or with the connection."""

    length: int | None = None
    chunked: bool = False
    codings: tuple[str, ...] = ()  # other transfer codings, in the order they were applied
    keep_alive: bool = False  # the connection may be reused

    @property
    def ends_with_connection(self) -> bool:
        return self.length is None and not self.chunked


def head_length(raw: bytes | bytearray, start: int = 0) -> int:
    r"""Return the length of the head at the start of `raw` with its empty line; 0 if it is incomplete.

    The search begins at `start`, and ends with the head, regardless of the data behind it.

    >>> head_length(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody"), head_length(b"HTTP/1.1 200 OK\r\n")
    (25, 0)
    """
    match = _END(raw, start)
    return 0 if match is None else match.end()


def skip_empty_lines(raw: bytes | bytearray, start: int) -> int:
    r"""Return where the status line begins: empty lines before it are skipped (RFC 9112, 2.2).

    >>> skip_empty_lines(b"\r\n\nHTTP", 0)
    3
    """
    match = _EMPTY_LINES(raw, start)
    return start if match is None else match.end()


def split_head(raw: bytes) -> tuple[bytes, bytes]:
    r"""Split `raw` into head and rest.

    >>> split_head(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody")
    (b'HTTP/1.1 200 OK\r\nA: b\r\n\r\n', b'body')
    """
    end = head_length(raw) or len(raw)
    return raw[:end], raw[end:]


def is_not_http(raw: bytes | bytearray) -> bool:
    r"""Tell whether these first bytes can never become a head.

    >>> is_not_http(b"HT"), is_not_http(b"<html>"), is_not_http(b"HTTP/1.1 banana\r\n")
    (False, True, True)
    """
    first, end, _ = raw[:256].decode("latin-1").partition("\n")
    if end:
        return _STATUS.match(first) is None
    beginning = first[: len(_BEGINNING)].upper()
    return not _BEGINNING.startswith(beginning)


def parse_head(head: bytes) -> ResponseHead:
    r"""Parse a complete head; raises `InvalidHead`.

    >>> parse_head(b"HTTP/1.1 200 OK\r\nServer : x\r\nno header\r\nA:  b \r\n\r\n").headers
    (('server', 'x'), ('a', 'b'))
    """
    first, _, rest = head.decode("latin-1").partition("\n")
    match = _STATUS.match(first)
    if match is None:
        raise InvalidHead("there is no status line")
    persistent = match[1] == "1" and match[2] not in (None, "0")
    tidy = _TIDY(rest) is not None
    lines = rest.split("\n") if tidy else _repair_lines(rest.split("\n"))
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers.append((name.lower(), value.strip(_BLANK)))
    return ResponseHead(int(match[3]), tuple(headers), persistent, not tidy)


def decode_url_header(value: str) -> str:
    """Return a header's value as the text of a URL: as UTF-8 if valid, else with its bytes escaped.

    >>> decode_url_header("/caf\u00c3\u00a9"), decode_url_header("/caf\u00e9")
    ('/caf\u00e9', '/caf%E9')
    """
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return "".join(letter if letter.isascii() else f"%{ord(letter):02X}" for letter in value)


def _repair_lines(lines: Sequence[str]) -> list[str]:
    """Return lines of a name, a colon and a value from lines that may be invalid."""
    repaired: list[list[str]] = []  # each line with its continuation lines
    dropped = True  # continuation lines directly behind the status line are ignored (RFC 9112, 2.2)
    for line in lines:
        if line[:1] in (" ", "\t") and not dropped:
            repaired[-1].append(line.replace("\r", " ").strip())
            continue
        # A bare carriage return is a blank (RFC 9112, 2.2).
        name, colon, value = line.strip("\r").replace("\r", " ").partition(":")
        name = name.rstrip(_BLANK)
        dropped = not colon or _IS_NAME(name) is None
        if not dropped:
            repaired.append([f"{name}:{value.strip(_BLANK)}"])
        elif _FRAMING.match(name):
            raise InvalidHead(f"its line {line[:60].strip()!r} may be about the length of the body")
    return [" ".join(filter(None, parts)) for parts in repaired]


def body_framing(fields: ResponseHead) -> BodyFraming:
    """Find the end of the body of a response to GET or POST (RFC 9112, 6.3); raises `InvalidHead`."""
    lengths: list[str] = []
    codings: list[str] = []
    options: list[str] = []
    for name, value in fields.headers:
        if name in _FRAMING_NAMES:
            if name == "content-length":
                lengths.append(value)
            else:
                (options if name == "connection" else codings).extend(_split_values(value))
    kept = "close" not in options if fields.persistent else "keep-alive" in options
    kept = kept and not fields.irregular
    if fields.status < 200 or fields.status in (204, 304):
        return BodyFraming(0, keep_alive=kept)
    if codings:
        chunked, others = _transfer_codings(codings)
        if chunked or others:
            # A length beside it is ignored, but the connection is not reused.
            return BodyFraming(None, chunked, others, kept and chunked and not lengths)
    if not lengths:
        return BodyFraming()
    length, doubtful = _content_length(lengths)
    return BodyFraming(length, keep_alive=kept and not doubtful and not codings)


def _split_values(value: str) -> list[str]:
    return [part for text in value.split(",") if (part := text.strip().lower())]


def _transfer_codings(codings: Sequence[str]) -> tuple[bool, tuple[str, ...]]:
    """Tell whether it is chunked, and return other codings; unknown codings are ignored."""
    for coding in codings:
        if "chunked" in coding and coding != "chunked":
            raise InvalidHead(f"its Transfer-Encoding is {coding[:60]!r}")
    chunked = codings[-1] == "chunked"
    under = list(codings)
    while under and under[-1] == "chunked":  # chunked twice counts as once
        under.pop()
    if "chunked" in under:
        raise InvalidHead("its Transfer-Encoding is chunked before it is something else")
    return chunked, tuple(coding for coding in under if coding in _CODINGS)


def _content_length(values: Sequence[str]) -> tuple[int, bool]:
    """Return the one length in all values, and whether it was given more than once."""
    lengths: list[str] = []
    for value in values:
        numbers = _split_values(value)
        if not numbers or not all(number.isascii() and number.isdigit() for number in numbers):
            raise InvalidHead(f"its Content-Length is {value[:60]!r}")
        lengths += (number.lstrip("0") or "0" for number in numbers)
    if len(set(lengths)) > 1:
        second = next(number for number in lengths if number != lengths[0])
        raise InvalidHead(f"its Content-Length is both {lengths[0][:20]} and {second[:20]}")
    if len(lengths[0]) > _LONGEST_NUMBER:
        raise InvalidHead(f"its Content-Length has {len(lengths[0])} digits")
    return int(lengths[0]), len(lengths) > 1


MAX_SECONDS = 2.0**31  # larger numbers of seconds are reduced to this

_MONTHS = {name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2})"
_DATES = (
    # Sun, 06 Nov 1994 08:49:37 GMT and Sunday, 06-Nov-94 08:49:37 GMT
    re.compile(
        r"(?:[a-z]+,?\s*)?(?P<day>\d{1,2})[ -](?P<month>[a-z]{3})[ -](?P<year>\d{4}|\d{2})\s+"
        + _TIME
        + r"(?:\s*(?:GMT|UTC?|Z|(?P<zone>[+-]\d{4})))?",
        re.ASCII | re.IGNORECASE,
    ),
    # Sun Nov  6 08:49:37 1994
    re.compile(
        rf"[a-z]+\s+(?P<month>[a-z]{{3}})\s+(?P<day>\d{{1,2}})\s+{_TIME}\s+(?P<year>\d{{4}})(?P<zone>\Z)",
        re.ASCII | re.IGNORECASE,
    ),
)
_LONGEST = 64  # characters of a date; the longest sane one has 33
_number = re.compile(r"([0-9]+)(?:\.[0-9]*)?", re.ASCII).fullmatch


def parse_date(text: str, now: float) -> float | None:
    """Return seconds since 1970, or None if it is not a date; `now` resolves years of two digits.

    >>> [parse_date(text, 0.0) for text in ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun Nov  6 08:49:37 1994")]
    [784111777.0, 784111777.0]
    >>> parse_date("Sunday, 06-Nov-94 08:49:37 GMT", now=1.8e9)
    784111777.0
    """
    text = text.strip()
    if len(text) > _LONGEST:
        return None
    match = next((candidate for form in _DATES if (candidate := form.fullmatch(text))), None)
    if match is None:
        return None
    day, hour, minute, second = (int(match[part]) for part in ("day", "hour", "minute", "second"))
    month, year, zone = _MONTHS.get(match["month"].lower(), 0), int(match["year"]), match["zone"]
    try:
        if len(match["year"]) == 2:  # the latest year with these digits that is at most 50 years ahead
            latest = datetime.fromtimestamp(now, UTC).year + 50
            year = latest - (latest - year) % 100
        # A leap second is the first second of the next minute.
        leap = second == 60
        date = datetime(year, month, day, hour, minute, second - leap, tzinfo=UTC) + timedelta(seconds=leap)
        seconds = date.timestamp()
    except (ValueError, OverflowError):
        return None
    if zone:
        seconds -= (int(zone[:3]) * 60 + int(zone[0] + zone[3:])) * 60
    return seconds


def parse_seconds(text: str) -> float | None:
    """Return a number of seconds, regardless of its number of digits, or None if it is not a number.

    >>> parse_seconds("00000000120"), parse_seconds("-1"), parse_seconds("9" * 400)
    (120.0, None, 2147483648.0)
    """
    match = _number(text.strip())
    if match is None:
        return None
    digits = match[1].lstrip("0")
    return min(MAX_SECONDS, float(digits or "0")) if len(digits) <= 10 else MAX_SECONDS


# Commas inside quotes do not separate.
_split_list = re.compile(r"(?:[^,\"]|\"(?:[^\"\\]|\\.)*+\"?)++", re.DOTALL).findall
_valid = re.compile(rf"[ \t\r\n]*({_NAME}/{_NAME})[ \t\r\n]*(?:;.*)?", re.DOTALL).fullmatch
_charset = re.compile(r';[ \t\r\n]*charset=("[^"]*"|[^;"]+)', re.IGNORECASE).search


def effective_media_type(values: Sequence[str]) -> str:
    """Return type and parameters; the first value if none is valid, "" if there is none.

    >>> effective_media_type(["text/plain", "text/html; charset=utf-8", "*/*", "nonsense"])
    'text/html; charset=utf-8'
    >>> effective_media_type(["text/html;charset=koi8-r", "text/html"])
    'text/html;charset=koi8-r'
    """
    if not values:
        return ""
    if len(values) == 1 and "," not in values[0]:
        return values[0]
    kind = charset = chosen = ""
    for part in _split_list(", ".join(values)):
        match = _valid(part)
        if match is None or match[1] == "*/*":
            continue
        charset_match = _charset(part)
        chosen = part.strip()
        if match[1].lower() != kind:
            kind, charset = match[1].lower(), ""
        if charset_match is not None:
            charset = charset_match[1]
        elif charset:
            chosen = f"{chosen};charset={charset}"
    return chosen or values[0]


def mime_essence(media: str) -> str:
    """Return the type without parameters, in lower case.

    >>> mime_essence("Text/HTML; charset=utf-8")
    'text/html'
    """
    return media.partition(";")[0].strip().lower()


def freshness_seconds(answer: Response) -> float | None:
    """Return seconds from the arrival of the response; 0 if it is stale already, None without information.

    >>> headers = (("cache-control", "max-age=60"), ("age", "20"))
    >>> freshness_seconds(Response(200, b"", b"", b"", "", 0.0, 0.0, 0.0, headers))
    40.0
    """
    control = cache_control_directives(", ".join(answer.all_headers("cache-control")))
    if "no-store" in control or control.get("no-cache") == "":
        return 0.0
    date = parse_date(answer.header("date"), answer.ended_at)
    if "max-age" in control:
        lifetime = parse_seconds(control["max-age"]) or 0.0
    elif any(name == "expires" for name, _ in answer.headers):
        expires = parse_date(answer.header("expires"), answer.ended_at)
        lifetime = 0.0 if expires is None else expires - (answer.ended_at if date is None else date)
    else:
        return None
    age = parse_seconds(answer.header("age").partition(",")[0]) or 0.0
    if date is not None:
        age = max(age, answer.ended_at - date)
    return max(0.0, lifetime - age)


def cache_control_directives(control: str) -> dict[str, str]:
    """Parse Cache-Control: names in lower case, the first of each name; "" for no value.

    >>> cache_control_directives('no-cache="max-age=1", X-Max-Age=2, MAX-AGE="3"')
    {'no-cache': 'max-age=1', 'x-max-age': '2', 'max-age': '3'}
    """
    values: dict[str, str] = {}
    for part in _split_list(control):
        name, _, value = part.partition("=")
        values.setdefault(name.strip().lower(), value.strip().strip('"').strip())
    return values
