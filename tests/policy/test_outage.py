"""Whose trouble it is: laws that hold whatever is seen, in whatever order."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.policy.outage import FEW, WITNESSES, Cause, Outage, cause_of
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import Reason
from fieldmouse.types.request import Link
from fieldmouse.url import Host, Url

LINK = Link(Url("http://mouse.test/"))
SPOKEN = Response(500, b"", b"", b"", "10.0.0.1", 0.0, 0.0, 0.0)


def host(number: int) -> Host:
    return Host(f"http://{number}.test")


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.ENETUNREACH, Cause.ROUTE), (errno.EHOSTUNREACH, Cause.ROUTE), (errno.ENETDOWN, Cause.ROUTE),
        (errno.EADDRNOTAVAIL, Cause.ROUTE), (errno.EMFILE, Cause.MACHINE), (errno.ENFILE, Cause.MACHINE),
        (errno.ENOBUFS, Cause.MACHINE), (errno.ENOMEM, Cause.MACHINE), (errno.ECONNREFUSED, Cause.HOST),
        (errno.ECONNRESET, Cause.HOST), (errno.ETIMEDOUT, Cause.HOST), (0, Cause.HOST),
    ],
)  # fmt: skip
@pytest.mark.parametrize("reason", [Reason.NO_CONNECTION, Reason.CLOSED, Reason.TIMEOUT])
def test_the_errno_tells_whether_a_failure_is_local(number: int, cause: Cause, reason: Reason) -> None:
    assert cause_of(Failed(LINK, reason, 0.0, errno=number)) is cause
    assert cause_of(Failed(LINK, reason, 0.0, response=SPOKEN, errno=number)) is None


@pytest.mark.parametrize("reason", [Reason.TLS, Reason.BAD_HTTP, Reason.BUSY, Reason.CLIENT_ERROR])
def test_a_host_that_responded_has_shown_that_the_network_works(reason: Reason) -> None:
    assert cause_of(Failed(LINK, reason, 0.0)) is None


sightings = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from([None, None, Cause.HOST, Cause.ROUTE, Cause.DNS])),
    max_size=60,
)


@given(sightings)
def test_nothing_is_suspicious_after_a_success_and_few_refusals_never_are(
    seen: list[tuple[int, Cause | None]],
) -> None:
    outage = Outage()
    failing: set[int] = set()
    ours = False
    for number, cause in seen:
        if cause is None:
            outage.reached(host(number), f"10.0.0.{number}")
            failing.clear()
            ours = False
            assert not outage.suspicious
        else:
            outage.failed(host(number), cause)
            failing.add(number)
            ours = any(known.ours for known in outage.suspects.values())
        assert len(outage.witnesses) <= WITNESSES
        if not ours:
            assert outage.suspicious == (len(failing) >= FEW)
        for n in range(13):
            assert not outage.unfair(host(n)) or (n in failing and len(failing) >= FEW)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1)), max_size=40), st.integers(0, 39))
def test_only_failures_since_the_last_success_are_withdrawn_and_only_once(
    counted: list[tuple[int, int]], reached_at: int
) -> None:
    outage = Outage()
    for turn, (number, failures) in enumerate(counted):
        if turn == reached_at:
            outage.reached(host(99), "10.0.0.99")
        outage.failed(host(number), Cause.HOST)
        outage.counted(host(number), f"u{number}", failures=failures)
    outage.begin(10.0)
    since = counted[reached_at:] if reached_at < len(counted) else counted
    for number in range(9):
        assert outage.excused(host(number)) == sum(failures for n, failures in since if n == number)
        assert outage.excused_tries(f"u{number}") == sum(1 for n, _ in since if n == number)
        assert outage.excused(host(number)) == outage.excused_tries(f"u{number}") == 0
    assert outage.end(73.0) == 63.0


def test_a_single_host_is_suspicious_only_if_the_failure_is_local() -> None:
    outage = Outage()
    outage.failed(host(1), Cause.HOST)
    outage.failed(host(1), Cause.HOST)
    assert not outage.suspicious
    outage.failed(host(1), Cause.DNS)
    assert outage.suspicious
    outage.reached(host(2), "10.0.0.2")
    outage.failed(host(1), Cause.ROUTE)
    assert not outage.suspicious, "another one was reached just now"
    outage.failed(host(1), Cause.ROUTE)
    assert outage.suspicious, "and now nobody in between"


def test_a_machine_out_of_descriptors_says_nothing_about_the_network() -> None:
    outage = Outage()
    for number in range(20):
        outage.failed(host(number), Cause.MACHINE)
    assert not outage.suspicious
