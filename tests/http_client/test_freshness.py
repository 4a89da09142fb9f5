"""Tests of the cache lifetime of robots.txt by RFC 9111 (4.2, 5.1, 5.2, 5.3), between an hour and a day."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.http.headers import cache_control_directives, freshness_seconds
from fieldmouse.robotstxt.parser import DAY, HOUR, cache_seconds
from fieldmouse.types.outcome import Response

NOW = 1_794_830_400.0


def answer(*headers: tuple[str, str], status: int = 200) -> Response:
    return Response(status, b"", b"", b"", "127.0.0.1", NOW, NOW, NOW, headers)


def control(*values: str) -> Response:
    return answer(*(("cache-control", value) for value in values))


def date(ahead: float) -> str:
    return formatdate(NOW + ahead, usegmt=True)


# Header lines are separated by " & ", cases by " | "; quoted directives apply to one header line only.
CACHE_CONTROL: dict[float | None, str] = {
    7200.0: (
        'max-age=7200 | public, max-age=7200 | MAX-AGE=7200 | max-age="7200" | max-age = 7200 | '
        "max-age=0007200 | public & max-age=7200 | public &  & must-revalidate, max-age=7200 | "
        'max-age=7200, max-age=10 | max-age=7200 & max-age=10 | no-cache="set-cookie", max-age=7200 | '
        "private, x-max-age=60, max-age=7200 | =,max-age=7200"
    ),
    2.0**31: ("max-age=99999999999999999999"),
    0.0: (
        "max-age=0 | max-age=-1 | max-age=soon | max-age | max-age= | no-store | no-cache | "
        "max-age=7200, no-cache | max-age=7200 & No-Store"
    ),
    None: (
        'x-max-age=60 | s-maxage=60 | xno-store | max-age-x=60 | foo="max-age=60" | '
        'foo="a, max-age=60" | foo="a\\", max-age=60" |  | ,,'
    ),
}
CASES = [(case.split(" & "), seconds) for seconds, cases in CACHE_CONTROL.items() for case in cases.split(" | ")]


@pytest.mark.parametrize(("values", "seconds"), [*CASES, ([], None)])
def test_cache_control_case_by_case(values: list[str], seconds: float | None) -> None:
    assert freshness_seconds(control(*values)) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([("expires", date(7200))], 7200.0),
        ([("expires", date(7200)), ("date", date(0))], 7200.0),
        ([("expires", date(9000)), ("date", date(1800))], 7200.0),
        ([("expires", date(0))], 0.0),
        ([("expires", date(-99))], 0.0),
        ([("expires", "0")], 0.0),
        ([("expires", "")], 0.0),
        ([("expires", date(7200)), ("expires", date(9))], 7200.0),  # the first counts
        ([("expires", date(9)), ("cache-control", "max-age=7200")], 7200.0),  # max-age has priority
        ([("expires", date(9)), ("cache-control", "x-max-age=7200")], 9.0),
        ([("age", "7200")], None),
        ([("age", "1800"), ("cache-control", "max-age=7200")], 5400.0),
        ([("age", "0001800"), ("expires", date(7200))], 5400.0),
        ([("age", "9999999999999999"), ("cache-control", "max-age=7200")], 0.0),
        ([("age", "-5"), ("cache-control", "max-age=7200")], 7200.0),
        ([("age", "x"), ("cache-control", "max-age=7200")], 7200.0),
        ([("age", "1800, 5"), ("cache-control", "max-age=7200")], 5400.0),
        ([("date", date(-600)), ("cache-control", "max-age=7200")], 6600.0),  # this is its time in transit
        ([("date", date(-600)), ("age", "1800"), ("cache-control", "max-age=7200")], 5400.0),
        ([("date", date(600)), ("cache-control", "max-age=7200")], 7200.0),
    ],
)
def test_expires_age_and_date_case_by_case(headers: list[tuple[str, str]], seconds: float | None) -> None:
    assert freshness_seconds(answer(*headers)) == seconds


names = st.sampled_from(["cache-control", "expires", "age", "date", "pragma"])
values = st.text(st.sampled_from('max-age=0123456789,"\\ no-store;x'), max_size=40) | st.sampled_from(
    [date(n) for n in (-5, 5000, 10**9)] + ["max-age=5000", "no-cache", "9" * 400]
)


@given(st.lists(st.tuples(names, values), max_size=5), st.integers(200, 599))
def test_robots_txt_is_cached_between_an_hour_and_a_day(headers: list[tuple[str, str]], status: int) -> None:
    assert HOUR <= cache_seconds(answer(*headers, status=status)) <= DAY


@given(st.lists(st.sampled_from(["a", "b=1", 'c="x,y"', "max-age=5", "D = 2"]), max_size=5), st.data())
def test_several_header_lines_are_one_list(parts: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(parts)))
    together = cache_control_directives(",".join(parts))
    assert cache_control_directives(", ".join((", ".join(parts[:cut]), ", ".join(parts[cut:])))) | {
        "": ""
    } == together | {"": ""}
