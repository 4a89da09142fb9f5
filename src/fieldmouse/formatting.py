"""Formatting of numbers, sizes and times for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime


def format_number(value: float) -> str:
    """
    >>> format_number(12480), format_number(41.26), format_number(3.0)
    ('12,480', '41', '3')
    """
    return f"{value:,.1f}" if 0 < value < 10 and value % 1 else f"{value:,.0f}"


def format_count(value: float, noun: str) -> str:
    """A count with its noun in singular or plural.

    >>> format_count(1, "page"), format_count(0, "page"), format_count(1200, "URL")
    ('1 page', '0 pages', '1,200 URLs')
    """
    return f"{format_number(value)} {noun}{'' if value == 1 else 's'}"


def join_names(names: Sequence[str], most: int = 8) -> str:
    """Quoted names joined for a sentence; "" if there are none.

    >>> join_names(["a"]), join_names(["a", "b", "c"]), join_names([])
    ('`a`', '`a`, `b` and `c`', '')
    >>> join_names(["a", "b", "c", "d"], most=2)
    '`a`, `b` and 2 more'
    """
    shown = [f"`{name}`" for name in names[:most]]
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def format_size(value: float) -> str:
    """
    >>> format_size(120), format_size(34_200_000)
    ('120 B', '34 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{format_number(value)} {unit}"
        value /= 1000
    return f"{format_number(value)} TB"


def format_percentage(share: float) -> str:
    """A share from 0 to 1 as a percentage. Only 0 is shown as 0 %, and only 1 as 100 %.

    >>> [format_percentage(part) for part in (0.0, 0.001, 0.124, 0.999, 1.0)]
    ['0 %', '1 %', '12 %', '99 %', '100 %']
    """
    return f"{min(max(round(100 * share), int(share > 0)), 100 - int(share < 1))} %"


def format_duration(seconds: float) -> str:
    """
    >>> [format_duration(seconds) for seconds in (0.26, 9.5, 304, 7500, 200_000)]
    ['0.3 s', '9.5 s', '5 min 4 s', '2 h 5 min', '2 d 7 h']
    >>> format_duration(419.7), format_duration(59.97)
    ('7 min', '1 min')
    """
    if round(seconds, 1) < 60:
        return f"{format_number(round(seconds, 1))} s"
    whole = round(seconds)  # rounded once, before the division: otherwise 59.97 s could become 60 s
    if whole < 3600:
        large, small, units = whole // 60, whole % 60, ("min", "s")
    elif whole < 86400:
        large, small, units = whole // 3600, whole % 3600 // 60, ("h", "min")
    else:
        large, small, units = whole // 86400, whole % 86400 // 3600, ("d", "h")
    return f"{large:,} {units[0]}" + (f" {small} {units[1]}" if small else "")


def format_rate(per_second: float) -> str:
    """A rate in the unit that needs no fractions.

    >>> format_rate(0.138889), format_rate(2.5), format_rate(1 / 60), format_rate(1 / 86400)
    ('500/h', '2.5/s', '60/h', '1/d')
    """
    for unit, seconds in (("s", 1), ("h", 3600)):
        if per_second * seconds >= 0.995:
            return f"{format_number(round(per_second * seconds, 1))}/{unit}"
    return f"{format_number(round(per_second * 86400, 1))}/d"


def format_time(at: float) -> str:
    """A time in ISO 8601, UTC.

    >>> format_time(0.0), format_time(1763164800.25)
    ('1970-01-01T00:00:00Z', '2025-11-15T00:00:00.250Z')
    """
    moment = datetime.fromtimestamp(at, UTC)
    return moment.isoformat(timespec="milliseconds").replace(".000", "").replace("+00:00", "Z")
