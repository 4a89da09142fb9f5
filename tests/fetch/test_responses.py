"""Outcomes of arbitrary HTTP responses."""

from __future__ import annotations

from email.utils import formatdate

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fieldmouse.fetch.response_outcome import outcome_of, parse_retry_after, requested_wait
from fieldmouse.types.outcome import Failed, Moved, Page, Response, Unchanged
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Url, resolve

HERE = Request(Url("http://mouse.test/here"))
MOST = 5
header_text = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=60)


def answer(status: int, **headers: str) -> Response:
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Response(status, b"", b"", b"", "127.0.0.1", 1.0, 2.0, 3.0, pairs)


@given(st.integers(0, 999), header_text, header_text)
def test_every_response_has_one_outcome_and_failures_have_a_reason(status: int, location: str, wait: str) -> None:
    outcome = outcome_of(HERE, answer(status, location=location, retry_after=wait), most_redirects=MOST)
    assert isinstance(outcome, Page) == (200 <= status < 300)
    if isinstance(outcome, Failed):
        assert outcome.detail
        assert outcome.retry_after >= 0.0
    elif isinstance(outcome, Moved):
        assert resolve(outcome.target) == outcome.target != HERE.url


def test_304_counts_only_with_a_stored_copy() -> None:
    held = msgspec.structs.replace(HERE, etag='"1"')
    assert isinstance(outcome_of(held, answer(304), most_redirects=MOST), Unchanged)
    unasked = outcome_of(HERE, answer(304), most_redirects=MOST)
    assert isinstance(unasked, Failed)
    assert unasked.reason is OutcomeReason.BAD_HTTP


@given(st.integers(0, 4), st.integers(0, 4))
def test_a_redirect_to_an_earlier_url_is_a_cycle(steps: int, back: int) -> None:
    trail = tuple(f"http://mouse.test/{n}" for n in range(steps))
    link = msgspec.structs.replace(HERE, trail=trail, redirects=steps)
    target = (*trail, HERE.url)[min(back, steps)]
    outcome = outcome_of(link, answer(302, location=target), most_redirects=MOST)
    assert isinstance(outcome, Failed)
    assert outcome.reason is OutcomeReason.BAD_REDIRECT
    assert target in outcome.detail
    onward = outcome_of(link, answer(302, location="/elsewhere"), most_redirects=MOST)
    assert isinstance(onward, Moved)


@pytest.mark.parametrize(
    ("sent", "asked"),
    [
        (b"/caf\xc3\xa9", "/caf%C3%A9"),  # UTF-8
        (b"/caf\xe9", "/caf%E9"),  # latin-1: the byte itself, as curl and Chrome request it
        (b"/caf\xe9?q=\xfc", "/caf%E9?q=%FC"),
        (b"/\xcc\xe8\xf8\xfc", "/%CC%E8%F8%FC"),  # windows-1251
        (b"/\xc3\xa9/\xe9", "/%C3%A9/%E9"),  # UTF-8 only in part: all bytes as they are
        (b"/caf%E9", "/caf%E9"),
        (b"/\xff\xfe", "/%FF%FE"),
        (b"http://mouse.test/\xe9#\xe9", "/%E9"),
    ],
)
def test_a_location_is_requested_with_its_original_bytes(sent: bytes, asked: str) -> None:
    outcome = outcome_of(HERE, answer(302, location=sent.decode("latin-1")), most_redirects=MOST)
    assert isinstance(outcome, Moved)
    assert outcome.target == f"http://mouse.test{asked}"


@given(st.integers(0, 10))
def test_redirects_are_followed_exactly_up_to_the_limit(steps: int) -> None:
    link = msgspec.structs.replace(HERE, redirects=steps)
    outcome = outcome_of(link, answer(302, location="/elsewhere"), most_redirects=MOST)
    if steps < MOST:
        assert isinstance(outcome, Moved)
    else:
        assert isinstance(outcome, Failed)
        assert outcome.reason is OutcomeReason.TOO_MANY_REDIRECTS


@given(header_text | st.integers(0, 10**30).map(str), st.floats(0, 4e9))
def test_retry_after_is_never_negative(value: str, now: float) -> None:
    assert parse_retry_after(value, now) >= 0.0


@given(st.integers(-100_000, 100_000), st.integers(0, 100_000))
def test_retry_after_dates_are_relative_to_the_servers_clock(wrong: int, wait: int) -> None:
    now = 1_800_000_000 + wrong
    said = answer(503, date=formatdate(now, usegmt=True), retry_after=formatdate(now + wait, usegmt=True))
    assert requested_wait(said) == wait


def test_retry_after_without_date_uses_our_clock_and_the_longest_value() -> None:
    at = replace(answer(503, retry_after=formatdate(1_800_000_090, usegmt=True)), ended_at=1_800_000_000.0)
    assert requested_wait(at) == 90.0
    assert requested_wait(replace(at, headers=(*at.headers, ("retry-after", "120"), ("retry-after", "5")))) == 120.0
    assert requested_wait(answer(503)) == 0.0
