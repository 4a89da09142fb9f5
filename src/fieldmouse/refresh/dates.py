"""When pages changed, as their servers say it (`Last-Modified`), and which hosts are believed.

A look tells that a page has changed, a date also when; and of a page that was seen only once a date says how
long it has been as it is. But some servers tell the time of the request, some that of the last deployment.
Each poll proves its host right or wrong: right where a change was found and the date lies between the two
looks; wrong where a change was found and the date is older, and where none was found and the date is newer. A
date of just now says nothing, since it may be either.

What pages are like by their dates is kept beside what they are like by looks alone. So a host that proves
right is believed in all that it ever said, and one that no longer does in nothing.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fieldmouse.policy import change
from fieldmouse.refresh.columns import Columns, Rows
from fieldmouse.web.httpdate import parse_date

Reals = NDArray[np.float64]
Marks = NDArray[np.bool_]

BELIEVED = 0.9
"""From this weight of its trust on a host's dates count: some twenty that were right, and none wrong."""
_SKEW = 60.0  # seconds by which clocks may differ, or half of a gap if that is less
_NOW = 2.0, 120.0  # seconds before a look that are just now: a hundredth of a gap, between these two
_MOST = 512.0  # claims by which a host is judged; older ones fade
_USUAL = len("Sun, 06 Nov 1994 08:49:37 GMT")
_DAYS_KEPT = 10_000

_TIME = re.compile("([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])").match
_days: dict[str, float] = {}


def modified_at(text: str, now: float) -> float:
    """The moment that a `Last-Modified` names, in epoch seconds; NaN if it names none.

    Once a row of the outcome log, so days are remembered: pages of a site often share theirs.

    >>> modified_at("Sun, 06 Nov 1994 08:49:37 GMT", 1e9), modified_at("yesterday", 1e9)
    (784111777.0, nan)
    """
    if not text:
        return math.nan
    if len(text) == _USUAL and text.endswith(" GMT"):
        day = _days.get(text[:17])
        time = _TIME(text, 17)
        if day is not None and time is not None:
            return day + int(time[1]) * 3600 + int(time[2]) * 60 + int(time[3])
        day = parse_date(f"{text[:17]}00:00:00 GMT", now)
        if day is not None and len(_days) < _DAYS_KEPT:
            _days[text[:17]] = day
    moment = parse_date(text, now)
    return math.nan if moment is None else moment


class Claims(NamedTuple):
    """What the dates of some looks say: how long before the look each page changed, NaN if nothing is said;
    and which of them proved their host right, and which wrong."""

    ages: Reals
    right: Marks
    wrong: Marks


def claims(modified: Reals, looked: Reals, now: Reals, changed: Marks) -> Claims:
    """Of looks at `now` after looks at `looked`, which found a change or not.

    >>> day = 86400.0
    >>> modified, changed = np.array([0.7, 0.7, -3.0]) * day, np.array([True, False, True])
    >>> told = claims(modified, np.zeros(3), np.full(3, day), changed)
    >>> (told.ages / day).round(3).tolist(), told.right.tolist(), told.wrong.tolist()
    ([0.3, nan, nan], [True, False, False], [False, True, True])
    """
    gap = np.maximum(now - looked, 0.0)
    skew = np.minimum(_SKEW, gap / 2)
    with np.errstate(invalid="ignore"):
        just_now = modified > now - np.clip(gap / 100, *_NOW)
        right = changed & (modified > looked - skew) & ~just_now
        wrong = np.where(changed, modified <= looked - skew, modified > looked + skew)
        ages = np.where(right, np.minimum(now - modified, gap), np.nan)
    return Claims(ages, right, wrong)


def first_ages(modified: Reals, now: Reals) -> Reals:
    """How long pages have been as they are when they are seen for the first time; NaN where nobody says."""
    with np.errstate(invalid="ignore"):
        return np.where(modified < now - _NOW[0], now - modified, np.nan)


def prove(hosts: Columns, numbers: Rows, told: Claims) -> None:
    """Count what hosts claimed; `numbers` are theirs."""
    counted = np.flatnonzero(told.right | told.wrong)
    if not len(counted):
        return
    some, place = np.unique(numbers[counted], return_inverse=True)
    counts = hosts.take("dates", some).astype(np.float64)
    np.add.at(counts, (place, told.wrong[counted].astype(np.intp)), 1.0)
    counts *= np.minimum(1.0, _MOST / counts.sum(axis=1, keepdims=True))
    hosts.put("dates", some, counts)


def believed(hosts: Columns) -> Marks:
    """Whether the dates of each host count."""
    return change.weight(*hosts.whole("dates").T) >= BELIEVED
