"""Politeness and retries: laws that hold for every host."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.policy.politeness import Politeness
from fieldmouse.policy.retry import RETRIES, retry_wait
from fieldmouse.types.host_state import HostState
from fieldmouse.types.reason import OutcomeReason

seconds = st.floats(0, 1e5)
manners = st.builds(Politeness, delay=seconds, address_delay=seconds, backoff=st.floats(0.1, 100))
states = st.builds(HostState, crawl_delay=seconds, failures=st.integers(0, 50), pages=st.integers(0, 9))


@given(manners, states, st.floats(0, 1e9), seconds)
def test_a_host_waits_its_delay_after_the_first_byte_and_at_least_until_the_response_ends(
    rule: Politeness, state: HostState, answered_at: float, took: float
) -> None:
    after = rule.state_after_visit(state, answered_at, answered_at + took)
    assert after.ready_at >= answered_at + rule.delay
    assert after.ready_at >= answered_at + min(state.crawl_delay, rule.crawl_delay_cap)
    assert after.ready_at >= answered_at + took
    assert after.address_ready_at >= max(answered_at + rule.address_delay, answered_at + took)
    assert after.failures == 0


@given(manners, states, st.floats(0, 1e9), st.floats(0.001, 1e6))
def test_retry_after_is_obeyed_up_to_its_cap(rule: Politeness, state: HostState, now: float, asked: float) -> None:
    after = rule.after_failure(state, now, retry_after=asked)
    assert after.ready_at >= now + min(asked, rule.retry_after_cap)


@given(manners, st.floats(0, 1e9), st.integers(1, 20))
def test_repeated_failures_never_shorten_the_wait(rule: Politeness, now: float, times: int) -> None:
    state, last = HostState(), 0.0
    for _ in range(times):
        state = rule.after_failure(state, now)
        assert state.ready_at - now >= last - 1e-6
        last = min(state.ready_at - now, rule.backoff_cap)
    assert state.failures == times


@given(manners, st.integers(1, 10))
def test_a_host_is_given_up_exactly_at_its_number_of_failures(rule: Politeness, patience: int) -> None:
    state = HostState()
    for number in range(1, patience + 1):
        assert not state.verdict
        state = rule.after_failure(state, 0.0, bury_after=patience)
        assert bool(state.verdict) == (number == patience)


@given(st.sampled_from(OutcomeReason), st.integers(1, 100))
def test_every_url_is_given_up_in_the_end(reason: OutcomeReason, tries: int) -> None:
    wait = retry_wait(reason, tries)
    assert (wait is None) == (tries > len(RETRIES[reason].waits) if reason in RETRIES else True)


rules = st.lists(st.integers(0, 50), min_size=1, max_size=5).flatmap(
    lambda robots: st.lists(st.integers(0, 100), min_size=len(robots) - 1, max_size=len(robots) - 1).map(
        lambda limits: Thresholds(tuple(sorted(robots, reverse=True)), tuple(sorted(limits)))
    )
)


@given(rules, st.integers(0, 120))
def test_a_fuller_buffer_never_starts_more_fetchers(rule: Thresholds, level: int) -> None:
    assert rule.concurrency_at(level + 1) <= rule.concurrency_at(level)


@given(rules)
def test_a_limit_belongs_to_the_larger_number(rule: Thresholds) -> None:
    for robots, limit in zip(rule.robots, rule.limits, strict=False):
        assert rule.concurrency_at(limit) >= robots
