"""`Last-Modified` dates, and which hosts' dates are reliable.

A poll shows that a page has changed; a date also shows when. For a page seen only once, a date shows how
long the page has been unchanged. But some servers send the time of the request, others that of the last
deployment. Each poll proves the host right or wrong: right if a change was found and the date lies between
the two polls; wrong if a change was found and the date is older, or if no change was found and the date is
newer. A date of just now proves nothing, since it may be either.

Each page has two beliefs about its change rate, one with dates and one without. If a host proves reliable,
all its earlier dates count; if it no longer does, none of them does.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fieldmouse.http.headers import parse_date
from fieldmouse.policy import change_rate
from fieldmouse.refresh.column_table import ColumnTable, Rows

Reals = NDArray[np.float64]
Marks = NDArray[np.bool_]

#: Weight of the trust in a host from which its dates count: about twenty right dates and no wrong one.
RELIABLE_WEIGHT = 0.9
_SKEW = 60.0  # seconds by which clocks may differ; at most half of the gap between two polls
# a date this close to the poll is "just now": a hundredth of the gap, clipped to this range of seconds
_NOW = 2.0, 120.0
_MOST = 512.0  # dates by which a host is judged; older ones fade
_USUAL = len("Sun, 06 Nov 1994 08:49:37 GMT")
_DAYS_KEPT = 10_000

_TIME = re.compile("([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])").match
_days: dict[str, float] = {}


def parse_last_modified(text: str, now: float) -> float:
    """Time that a `Last-Modified` header names, in epoch seconds; NaN if it names none.

    Called once per row of the outcome log, so parsed days are cached: pages of a site often share them.

    >>> parse_last_modified("Sun, 06 Nov 1994 08:49:37 GMT", 1e9), parse_last_modified("yesterday", 1e9)
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


class DateEvidence(NamedTuple):
    """Evidence from the dates of some polls.

    `ages`: seconds between the page's change and the poll, NaN if unknown. `right` and `wrong`: dates that
    proved the host reliable or unreliable.
    """

    ages: Reals
    right: Marks
    wrong: Marks


def evaluate_dates(modified: Reals, looked: Reals, now: Reals, changed: Marks) -> DateEvidence:
    """Evaluate the dates of polls at `now` that follow polls at `looked`; `changed`: whether a change was
    found.

    >>> day = 86400.0
    >>> modified, changed = np.array([0.7, 0.7, -3.0]) * day, np.array([True, False, True])
    >>> told = evaluate_dates(modified, np.zeros(3), np.full(3, day), changed)
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
    return DateEvidence(ages, right, wrong)


def first_seen_ages(modified: Reals, now: Reals) -> Reals:
    """Seconds since the last change of pages seen for the first time; NaN where no usable date is given."""
    with np.errstate(invalid="ignore"):
        return np.where(modified < now - _NOW[0], now - modified, np.nan)


def count_dates(hosts: ColumnTable, numbers: Rows, told: DateEvidence) -> None:
    """Add right and wrong dates to the counts of their hosts; `numbers` are the hosts' row numbers."""
    counted = np.flatnonzero(told.right | told.wrong)
    if not len(counted):
        return
    some, place = np.unique(numbers[counted], return_inverse=True)
    counts = hosts.read_cells("dates", some).astype(np.float64)
    np.add.at(counts, (place, told.wrong[counted].astype(np.intp)), 1.0)
    counts *= np.minimum(1.0, _MOST / counts.sum(axis=1, keepdims=True))
    hosts.write_cells("dates", some, counts)


def reliable_hosts(hosts: ColumnTable) -> Marks:
    """Mask of the hosts whose dates count."""
    return change_rate.probabilities_right(*hosts.column("dates").T) >= RELIABLE_WEIGHT
