"""Quantities as people write them: "10s", "64MiB", "500/h".

They are read once and are plain numbers inside: seconds, bytes, bytes per second. Writing is the exact
inverse
of reading, so a settings file that we wrote reads back as the same numbers.
"""

from __future__ import annotations

import re

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
