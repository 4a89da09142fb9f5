"""Tests of dates and seconds in HTTP headers, by RFC 9110 (5.6.7, 10.2.3)."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.fetch.response_outcome import parse_retry_after
from fieldmouse.http.headers import MAX_SECONDS, parse_date, parse_seconds

NOW = 1_794_830_400.0  # 2026-11-16
moments = st.integers(0, 4_102_444_799)  # to the end of 2099
texts = st.text(st.characters(max_codepoint=255), max_size=70)


@given(moments)
def test_three_forms_of_a_date_mean_the_same(moment: int) -> None:
    when = datetime.fromtimestamp(moment, UTC)
    asctime = f"{when:%a %b} {when.day:2} {when:%H:%M:%S %Y}"
    rfc_850 = f"{when:%A, %d-%b-%y %H:%M:%S} GMT"
    assert parse_date(formatdate(moment, usegmt=True), NOW) == moment
    assert parse_date(asctime, NOW) == moment
    # Two digits mean the year that is at most 50 years ahead of today.
    assert parse_date(rfc_850, float(moment)) == moment


@given(st.integers(0, 99), st.integers(1970, 2099))
def test_two_digit_year_is_within_50_years(year: int, this: int) -> None:
    now = datetime(this, 7, 1, tzinfo=UTC).timestamp()
    date = parse_date(f"Sunday, 06-Nov-{year:02} 08:49:37 GMT", now)
    assert date is not None
    full = datetime.fromtimestamp(date, UTC).year
    assert full % 100 == year
    assert -50 < full - this <= 50


# The last lines are tolerated deviations of servers.
RFC_EXAMPLE = (
    "Sun, 06 Nov 1994 08:49:37 GMT|Sunday, 06-Nov-94 08:49:37 GMT|Sun Nov  6 08:49:37 1994|"
    " Sun, 06 Nov 1994 08:49:37 GMT |Mon, 06 Nov 1994 08:49:37 GMT|06 Nov 1994 08:49:37 GMT|"
    "Sun, 6 Nov 1994 8:49:37 UTC|sun, 06 nov 1994 08:49:37 gmt|Sun, 06-Nov-1994 08:49:37 GMT|"
    "Sun, 06 Nov 1994 10:49:37 +0200|Sun, 06 Nov 1994 04:19:37 -0430|Sun, 06 Nov 1994 08:49:37|"
    "Sun Nov 06 08:49:37 1994"
)


@pytest.mark.parametrize("text", RFC_EXAMPLE.split("|"))
def test_rfc_example_is_parsed_in_all_spellings(text: str) -> None:
    assert parse_date(text, NOW) == 784111777.0


INVALID = (
    "|0|-1|soon|Sun, 31 Feb 1994 08:49:37 GMT|Sun, 06 Nov 0000 08:49:37 GMT|"
    "Sun, 06 Nov 1994 24:49:37 GMT|Sun, 06 Nov 1994 08:60:37 GMT|Sun, 06 Nov 1994 08:49:61 GMT|"
    "Sun, 06 Foo 1994 08:49:37 GMT|Sun, 00 Nov 1994 08:49:37 GMT|Sun, 06 Nov 1994|1994-11-06T08:49:37Z|"
    "Sun, 06 Nov 99999 08:49:37 GMT|Sun, ٠٦ Nov 1994 08:49:37 GMT"
)


@pytest.mark.parametrize("text", [*INVALID.split("|"), "Sun, 06 Nov 1994 08:49:37 GMT" * 3])
def test_invalid_date_is_none(text: str) -> None:
    assert parse_date(text, NOW) is None


def test_leap_second_and_year_9999_are_parsed() -> None:
    assert parse_date("Sat, 31 Dec 2016 23:59:60 GMT", NOW) == parse_date("Sun, 01 Jan 2017 00:00:00 GMT", NOW)
    assert parse_date("Fri, 31 Dec 9999 23:59:59 GMT", NOW) == 253402300799.0
    assert parse_date("Fri, 31 Dec 9999 23:59:60 GMT", NOW) is None


def test_a_date_does_not_depend_on_our_own_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    try:
        assert parse_retry_after("Sun Nov  6 08:49:37 1994", 784111700.0) == 77.0
    finally:
        monkeypatch.undo()
        time.tzset()


@given(texts, st.floats(0, 4e9))
def test_arbitrary_text_never_raises(text: str, now: float) -> None:
    parse_date(text, now)
    parse_seconds(text)
    assert parse_retry_after(text, now) >= 0.0


@given(st.integers(0, 10**12), st.integers(0, 40))
def test_leading_zeros_are_ignored(seconds: int, zeros: int) -> None:
    assert parse_seconds("0" * zeros + str(seconds)) == min(seconds, MAX_SECONDS)
    assert parse_retry_after("0" * zeros + str(seconds), NOW) == min(seconds, MAX_SECONDS)


@given(st.integers(1, 5000))
def test_more_digits_never_mean_fewer_seconds(digits: int) -> None:
    shorter, longer = (parse_seconds("9" * count) for count in (digits, digits + 1))
    assert shorter is not None
    assert longer is not None
    assert shorter <= longer <= MAX_SECONDS


@pytest.mark.parametrize("text", ["", "-1", "+1", "1_000", "0x10", "1e5", "soon", "١٢", "inf", "nan", "12 h", ".5"])
def test_invalid_number_of_seconds_is_none(text: str) -> None:
    assert parse_seconds(text) is None
    assert parse_retry_after(text, NOW) == 0.0


def test_fraction_of_a_second_is_ignored() -> None:
    assert parse_seconds("120.5") == parse_seconds("120.") == parse_seconds(" 120 ") == 120.0
