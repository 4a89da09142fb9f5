"""Kinds of values that a setting can have, and quantities with units: "10s", "64MiB", "500/h".

A kind turns a TOML value (or text from the command line) into a typed value, and describes what it accepts,
so that an error can name the key, the value and the remedy. Reading raises ValueError, or the UsageError of
the parser that the crawler itself uses: a value accepted here is never refused later. The caller knows the
key and turns either error into a sentence.

Quantities are plain numbers inside: seconds, bytes, bytes per second. Writing is the exact inverse of
reading, so a settings file that we wrote reads back as the same numbers.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Any

from fieldmouse.errors import UsageError
from fieldmouse.import_string import IMPORT_NAME
from fieldmouse.policy.dns_and_header_options import (
    check_headers,
    parse_name_entry,
    parse_nameserver,
    parse_source_address,
    redact_headers,
)
from fieldmouse.policy.noise_rules import parse_rule
from fieldmouse.policy.scope import compile_pattern
from fieldmouse.url import parse_seed

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
BYTES = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BYTES |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

_NUMBER = r"[0-9]{1,30}(?:\.[0-9]+)?(?:[eE](?:-[0-9]{1,3}|\+?[0-9]{1,2}))?"
_PART = re.compile(rf"({_NUMBER})\s*([A-Za-z]+)\s*")
_RATE = re.compile(rf"({_NUMBER})\s*/\s*([A-Za-z]+)")


def seconds(text: str) -> float:
    """Read a duration; ValueError if it is not one.

    >>> seconds("10s"), seconds("500ms"), seconds("1h30m"), seconds("0")
    (10.0, 0.5, 5400.0, 0.0)
    """
    text = text.strip()
    if text == "0":
        return 0.0
    total, position = 0.0, 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or part[2] not in SECONDS:
            raise ValueError(text)
        # Milliseconds are divided, not multiplied: 0.001 is not a binary number, 1000 is.
        number = float(part[1])
        total += number / 1000 if part[2] == "ms" else number * SECONDS[part[2]]
        position = part.end()
    if not position:
        raise ValueError(text)
    return total


def size(text: str) -> int:
    """Read a number of bytes; ValueError if it is not one.

    >>> size("64MiB"), size("10MB"), size("1.5KiB"), size("0")
    (67108864, 10000000, 1536, 0)
    """
    text = text.strip()
    if text == "0":
        return 0
    part = _PART.fullmatch(text)
    if part is None or part[2] not in BYTES:
        raise ValueError(text)
    return int(part[1]) * BYTES[part[2]] if part[1].isdigit() else round(float(part[1]) * BYTES[part[2]])


def speed(text: str) -> float:
    """Read bytes per second.

    >>> speed("100B/s"), speed("6KiB/m")
    (100.0, 102.4)
    """
    text = text.strip()
    if text == "0":
        return 0.0
    amount, _, unit = text.rpartition("/")
    part = _PART.fullmatch(amount)
    if part is None or part[2] not in BYTES or unit.strip() not in SECONDS:
        raise ValueError(text)
    return float(part[1]) * BYTES[part[2]] / SECONDS[unit.strip()]


def interval(text: str) -> float:
    """Read the time between two visits, written as a duration or as a rate.

    >>> interval("2s"), interval("500/h")
    (2.0, 7.2)
    """
    if "/" not in text:
        return seconds(text)
    part = _RATE.fullmatch(text.strip())
    if part is None or part[2] not in SECONDS or float(part[1]) == 0:
        raise ValueError(text)
    return SECONDS[part[2]] / float(part[1])


def write_seconds(value: float) -> str:
    """
    >>> write_seconds(5400.0), write_seconds(0.5), write_seconds(7.25), write_seconds(86400.0)
    ('90m', '500ms', '7.25s', '1d')
    """
    for unit in ("d", "h", "m", "s"):
        if value and value % SECONDS[unit] == 0:
            return f"{value / SECONDS[unit]:.0f}{unit}"
    thousandths = round(value * 1000)
    if 0 < thousandths < 1000 and thousandths / 1000 == value:
        return f"{thousandths}ms"
    return f"{value!r}s" if value % 1 else f"{value:.0f}s"


def write_size(value: int) -> str:
    """
    >>> write_size(64 << 20), write_size(10_000_000), write_size(0)
    ('64MiB', '10MB', '0B')
    """
    for unit in ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "kB"):
        if value and value % BYTES[unit] == 0:
            return f"{value // BYTES[unit]}{unit}"
    return f"{value}B"


def write_speed(value: float) -> str:
    """
    >>> write_speed(100.0)
    '100B/s'
    """
    return f"{write_size(int(value))}/s" if value % 1 == 0 and value < 1 << 53 else f"{value!r}B/s"


@dataclass(frozen=True, slots=True)
class ValueKind:
    """Reader, writer and description of one kind of value."""

    accepts: str  # completes "it must be ..."
    read: Callable[[Any], Any]
    write: Callable[[Any], str]
    takes_bare_text: bool = True  # text on the command line is the value itself, even without quotes
    without_secrets: Callable[[Any], Any] | None = None  # removes secrets from the value, if it may hold some

    def redacted_text(self, value: Any) -> str:
        """The value as a message may show it, without its secrets."""
        return self.write(value if self.without_secrets is None else self.without_secrets(value))

    def holds_secret(self, value: Any) -> bool:
        """Whether the value holds a secret."""
        return self.without_secrets is not None and self.without_secrets(value) != value


@dataclass(frozen=True, slots=True)
class Setting:
    """Kind and purpose of a setting, shown in the file and the reference."""

    kind: ValueKind
    purpose: str


_LONGEST = 1000 * 365 * 86400.0  # seconds: timers and dates can handle a thousand years, not a million
_LARGEST = (1 << 63) - 1  # bytes: the limit of file sizes and of numbers sent to workers


def _require(accepted: object, value: object) -> None:
    if not accepted:
        raise ValueError(value)


def _quantity(read: Callable[[str], float | int], most: float) -> Callable[[Any], Any]:
    def read_quantity(value: Any) -> object:
        if value == 0 and not isinstance(value, bool) and isinstance(value, int):
            return read("0")
        _require(isinstance(value, str), value)
        quantity = read(value)
        if quantity > most:
            raise UsageError(f"{value} is too much", "give less, or the value for no limit")
        return quantity

    return read_quantity


def _quoted(write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: json.dumps(write(value), ensure_ascii=False)


def _number(most: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        _require(isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most, value)
        return float(value)

    return read


def _flag(value: Any) -> bool:
    _require(isinstance(value, bool), value)
    return bool(value)


def _line(value: Any) -> str:
    """Read text for a header or a file name: one line without control characters."""
    _require(isinstance(value, str) and value.isprintable(), value)
    return str(value)


def _above_zero(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_above_zero(value: Any) -> Any:
        quantity = read(value)
        _require(quantity > 0, value)
        return quantity

    return read_above_zero


def _checked(check: Callable[[str], object]) -> Callable[[Any], str]:
    """Reader of a text that `check` must accept."""

    def read(value: Any) -> str:
        check(text := _line(value))
        return text

    return read


def _headers(value: Any) -> dict[str, str]:
    _require(isinstance(value, dict), value)
    headers = {name: _line(content) for name, content in value.items()}
    check_headers(headers)
    return headers


def _source(value: Any) -> str:
    _require(isinstance(value, str), value)
    return value and parse_source_address(value)


def _readers(value: Any) -> dict[str, str]:
    _require(isinstance(value, dict), value)
    for mime, name in value.items():
        _require(re.fullmatch(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+", mime), mime)
        _require(isinstance(name, str) and IMPORT_NAME.fullmatch(name), name)
    return dict(value)


def _or_none(word: str, read: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda value: None if value == word else read(value)


def _none_as(word: str, write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: json.dumps(word) if value is None else write(value)


def _text(value: Any) -> str:
    """Write a TOML basic string: JSON's escapes are a subset of TOML's, except for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(value: Any) -> str:
    return f"[{', '.join(map(_text, value))}]"


def _table(value: Any) -> str:
    return f"{{{', '.join(f'{_text(key)} = {_text(item)}' for key, item in value.items())}}}"


def choice(*words: str) -> ValueKind:
    """A choice between words."""

    def read(value: Any) -> str:
        _require(value in words, value)
        return str(value)

    return ValueKind("one of " + ", ".join(f'"{word}"' for word in words), read, _text)


def built_in_or(
    names: Collection[str], pattern: str, such_as: str, installed: Callable[[], Collection[str]] = tuple
) -> ValueKind:
    """One of `names`, or text that matches `pattern` and says where to find another, or an installed one."""
    accepts = f'{choice(*names).accepts}, or "{such_as}" for one of your own'

    def check(text: str) -> None:
        _require(text in names or re.fullmatch(pattern, text) or text in installed(), text)

    return ValueKind(accepts, _checked(check), _text)


def text_matching(pattern: str, accepts: str) -> ValueKind:
    """Text that matches `pattern`."""
    return ValueKind(accepts, _checked(lambda text: _require(re.fullmatch(pattern, text), text)), _text)


def list_of(read_item: Callable[[Any], object], accepts: str) -> ValueKind:
    """A list of values that `read_item` accepts, as a tuple."""

    def read(value: Any) -> object:
        _require(isinstance(value, list | tuple), value)
        return tuple(map(read_item, value))

    return ValueKind(accepts, read, _list, takes_bare_text=False)


_seconds = _quantity(seconds, _LONGEST)
_interval = _quantity(interval, _LONGEST)
_write_seconds = _quoted(write_seconds)

DURATION = ValueKind('a duration with its unit, such as "10s", "500ms" or "2h"', _seconds, _write_seconds)
INTERVAL = ValueKind('a duration such as "10s", or a rate such as "500/h"', _interval, _write_seconds)
INTERVAL_OR_SAME = ValueKind(
    'a duration such as "10s", a rate such as "500/h", or "same"',
    _or_none("same", _interval),
    _none_as("same", _write_seconds),
)
INTERVAL_OR_NONE = ValueKind(
    'a rate such as "500/h", a duration such as "10s" (one poll in that time), or "none"',
    _or_none("none", _above_zero(_interval)),
    _none_as("none", _write_seconds),
)
DURATION_OR_NEVER = ValueKind(
    'a duration above 0, such as "10s" or "2h", or "never"',
    _or_none("never", _above_zero(_seconds)),
    _none_as("never", _write_seconds),
)
POSITIVE_DURATION = ValueKind('a duration above 0, such as "10s" or "500ms"', _above_zero(_seconds), _write_seconds)
SIZE = ValueKind('a size with its unit, such as "64MiB" or "10MB"', _quantity(size, _LARGEST), _quoted(write_size))
SPEED = ValueKind('a speed, such as "100B/s" or "10KiB/s"', _quantity(speed, float(_LARGEST)), _quoted(write_speed))


def size_between(least: int, most: int, accepts: str) -> ValueKind:
    """A size from `least` to `most` bytes."""

    def read(value: Any) -> object:
        size = SIZE.read(value)
        _require(least <= size <= most, value)
        return size

    return ValueKind(accepts, read, SIZE.write)


def count_between(least: int, most: int, accepts: str) -> ValueKind:
    """A whole number from `least` to `most`."""

    def read(value: Any) -> int:
        _require(isinstance(value, int) and not isinstance(value, bool) and least <= value <= most, value)
        return int(value)

    return ValueKind(accepts, read, str, takes_bare_text=False)


COUNT = count_between(0, _LARGEST, "a whole number, 0 or more")
POSITIVE = count_between(1, _LARGEST, "a whole number, 1 or more")
COUNT_OR_NONE = ValueKind(
    'a whole number, 0 or more, or "none"', _or_none("none", COUNT.read), _none_as("none", str), takes_bare_text=False
)
COUNTS = list_of(COUNT.read, "a list of whole numbers, such as [8, 2]")
NUMBER = ValueKind("a number, 0 or more", _number(sys.float_info.max), repr, takes_bare_text=False)
SHARE = ValueKind("a number from 0 to 1", _number(1.0), repr, takes_bare_text=False)
FLAG = ValueKind("true or false", _flag, lambda value: "true" if value else "false", takes_bare_text=False)
TEXT = ValueKind("text on one line", _line, _text)
TEXTS = list_of(_line, 'a list of texts, such as ["a", "b"]')
SEEDS = list_of(_checked(parse_seed), 'a list of URLs, such as ["https://example.org/"]')
REGEXES = list_of(_checked(compile_pattern), "a list of regular expressions")
NOISE_RULES = list_of(_checked(parse_rule), 'a list of rules, such as ["example.org css .clock"]')
NAMESERVERS = list_of(_checked(parse_nameserver), 'a list of addresses, such as ["192.0.2.53"]')
SOURCE = ValueKind('an address of this machine, such as "192.0.2.7", or ""', _source, _text)
RESOLVE = list_of(
    _checked(parse_name_entry), 'a list of PATTERN=ADDRESS[:PORT], such as ["*.example.org=127.0.0.1:8000"]'
)
READERS = ValueKind(
    'a table of MIME types in lower case, such as {"application/pdf" = "package.module:name"}',
    _readers,
    _table,
    takes_bare_text=False,
)
HEADERS = ValueKind(
    'a table of header lines, such as {"X-From" = "us"}',
    _headers,
    _table,
    takes_bare_text=False,
    without_secrets=redact_headers,
)

#: Types of settings that many sections have, each with its kind.
Flag = Annotated[bool, FLAG]
Count = Annotated[int, COUNT]
Positive = Annotated[int, POSITIVE]
Number = Annotated[float, NUMBER]
Size = Annotated[int, SIZE]
Duration = Annotated[float, DURATION]
PositiveDuration = Annotated[float, POSITIVE_DURATION]
Texts = Annotated[tuple[str, ...], TEXTS]
