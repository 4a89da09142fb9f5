"""Whose trouble it is: laws that hold whatever is seen, in whatever order."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.policy.local_outage import FEW, WITNESSES, FailureCause, OutageEvidence, cause_of
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url

LINK = Request(Url("http://mouse.test/"))
SPOKEN = Response(500, b"", b"", b"", "10.0.0.1", 0.0, 0.0, 0.0)


def host(number: int) -> Host:
    return Host(f"http://{number}.test")


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.ENETUNREACH, FailureCause.ROUTE),
        (errno.EHOSTUNREACH, FailureCause.ROUTE),
        (errno.ENETDOWN, FailureCause.ROUTE),
        (errno.EADDRNOTAVAIL, FailureCause.ROUTE),
        (errno.EMFILE, FailureCause.MACHINE),
        (errno.ENFILE, FailureCause.MACHINE),
        (errno.ENOBUFS, FailureCause.MACHINE),
        (errno.ENOMEM, FailureCause.MACHINE),
        (errno.ECONNREFUSED, FailureCause.HOST),
        (errno.ECONNRESET, FailureCause.HOST),
        (errno.ETIMEDOUT, FailureCause.HOST),
        (0, FailureCause.HOST),
    ],
)
@pytest.mark.parametrize(
    "reason", [OutcomeReason.NO_CONNECTION, OutcomeReason.CONNECTION_CLOSED, OutcomeReason.TIMEOUT]
)
def test_the_errno_tells_whether_a_failure_is_local(number: int, cause: FailureCause, reason: OutcomeReason) -> None:
    assert cause_of(Failed(LINK, reason, 0.0, errno=number)) is cause
    assert cause_of(Failed(LINK, reason, 0.0, response=SPOKEN, errno=number)) is None


@pytest.mark.parametrize(
    "reason", [OutcomeReason.TLS, OutcomeReason.BAD_HTTP, OutcomeReason.RETRY_LATER, OutcomeReason.CLIENT_ERROR]
)
def test_a_host_that_responded_has_shown_that_the_network_works(reason: OutcomeReason) -> None:
    assert cause_of(Failed(LINK, reason, 0.0)) is None


sightings = st.lists(
    st.tuples(
        st.integers(0, 12), st.sampled_from([None, None, FailureCause.HOST, FailureCause.ROUTE, FailureCause.DNS])
    ),
    max_size=60,
)


@given(sightings)
def test_nothing_is_suspicious_after_a_success_and_few_refusals_never_are(
    seen: list[tuple[int, FailureCause | None]],
) -> None:
    outage = OutageEvidence()
    failing: set[int] = set()
    ours = False
    for number, cause in seen:
        if cause is None:
            outage.record_reached(host(number), f"10.0.0.{number}")
            failing.clear()
            ours = False
            assert not outage.suspects_outage
        else:
            outage.record_failed(host(number), cause)
            failing.add(number)
            ours = any(known.is_local for known in outage.suspects.values())
        assert len(outage.witnesses) <= WITNESSES
        if not ours:
            assert outage.suspects_outage == (len(failing) >= FEW)
        for n in range(13):
            assert not outage.protects_host(host(n)) or (n in failing and len(failing) >= FEW)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1)), max_size=40), st.integers(0, 39))
def test_only_failures_since_the_last_success_are_withdrawn_and_only_once(
    counted: list[tuple[int, int]], reached_at: int
) -> None:
    outage = OutageEvidence()
    for turn, (number, failures) in enumerate(counted):
        if turn == reached_at:
            outage.record_reached(host(99), "10.0.0.99")
        outage.record_failed(host(number), FailureCause.HOST)
        outage.record_counted_failures(host(number), f"u{number}", failures=failures)
    outage.begin_outage(10.0)
    since = counted[reached_at:] if reached_at < len(counted) else counted
    for number in range(9):
        assert outage.take_withdrawn_failures(host(number)) == sum(failures for n, failures in since if n == number)
        assert outage.take_withdrawn_tries(f"u{number}") == sum(1 for n, _ in since if n == number)
        assert outage.take_withdrawn_failures(host(number)) == outage.take_withdrawn_tries(f"u{number}") == 0
    assert outage.end_outage(73.0) == 63.0


def test_a_single_host_is_suspicious_only_if_the_failure_is_local() -> None:
    outage = OutageEvidence()
    outage.record_failed(host(1), FailureCause.HOST)
    outage.record_failed(host(1), FailureCause.HOST)
    assert not outage.suspects_outage
    outage.record_failed(host(1), FailureCause.DNS)
    assert outage.suspects_outage
    outage.record_reached(host(2), "10.0.0.2")
    outage.record_failed(host(1), FailureCause.ROUTE)
    assert not outage.suspects_outage, "another one was reached just now"
    outage.record_failed(host(1), FailureCause.ROUTE)
    assert outage.suspects_outage, "and now nobody in between"


def test_a_machine_out_of_descriptors_says_nothing_about_the_network() -> None:
    outage = OutageEvidence()
    for number in range(20):
        outage.record_failed(host(number), FailureCause.MACHINE)
    assert not outage.suspects_outage
