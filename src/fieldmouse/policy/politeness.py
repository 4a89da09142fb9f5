"""Politeness delays: the earliest time of the next request to a host or an address.

Every visit starts two timers, for the host and for its address. Both start at the first byte of the
response, the earliest moment at which the request has certainly arrived; counting from the time of sending
would let a slow network push two arrivals together. No request is sent while a response is still coming
in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from fieldmouse.policy.local_outage import notes_after_success
from fieldmouse.types.host_state import HostState
from fieldmouse.types.reason import OutcomeReason

LONGEST_DELAY = 365 * 86400.0  # seconds; longer requests mean "never" and get this cap

MAX_POSTPONEMENT = 300.0  # seconds: checking whether a local fault is over costs other machines nothing


def clamp_crawl_delay(asked: float | None) -> float:
    """Crawl delay of a robots.txt as a finite number; 0 if there is none.

    >>> clamp_crawl_delay(None), clamp_crawl_delay(2.5), clamp_crawl_delay(float("nan"))
    (0.0, 2.5, 0.0)
    >>> clamp_crawl_delay(float("inf")) == clamp_crawl_delay(1e308) == LONGEST_DELAY
    True
    """
    if asked is None or math.isnan(asked):
        return 0.0
    return min(max(asked, 0.0), LONGEST_DELAY)


@dataclass(frozen=True, slots=True)
class Politeness:
    """Delays of hosts and addresses, in seconds."""

    delay: float = 1.0  # between two requests to a host
    address_delay: float = 1.0  # between two requests to an address
    crawl_delay_cap: float = 300.0  # limit for the crawl delay of a robots.txt
    backoff: float = 2.0  # first wait after a host failure; doubles each time
    backoff_cap: float = 900.0
    retry_after_cap: float = 86400.0

    def host_delay(self, state: HostState) -> float:
        """
        >>> Politeness(delay=1.0).host_delay(HostState(crawl_delay=10.0))
        10.0
        """
        return max(self.delay, min(state.crawl_delay, self.crawl_delay_cap))

    def next_request_times(self, state: HostState, answered_at: float, ended_at: float) -> tuple[float, float]:
        """Times at which the host and its address may be asked again after an ordinary visit."""
        return (max(ended_at, answered_at + self.host_delay(state)), max(ended_at, answered_at + self.address_delay))

    def state_after_visit(self, state: HostState, answered_at: float, ended_at: float) -> HostState:
        """State after the host answered: failures are cleared, and the host waits for its delay."""
        host_at, address_at = self.next_request_times(state, answered_at, ended_at)
        return msgspec.structs.replace(
            state,
            ready_at=host_at,
            address_ready_at=address_at,
            failures=0,
            put_off=0,
            unreached=notes_after_success(state.unreached, ended_at) if state.unreached else (),
            asked="",
            asked_beyond=0.0,
        )

    def after_failure(
        self, state: HostState, now: float, *, retry_after: float = 0.0, bury_after: int = 0, asked: str = ""
    ) -> HostState:
        """State after a host failure: the wait doubles each time, and is at least what the host asked for.

        The address waits only for its ordinary delay; other hosts on it may be healthy. After
        `bury_after` failures in a row (0: never) the host is given up. `asked` is the text in which the
        host asked for `retry_after`.
        """
        failures = state.failures + 1
        if retry_after > 0:
            wait = min(retry_after, self.retry_after_cap)
        else:
            wait = min(self.backoff * 2.0 ** min(failures - 1, 30), self.backoff_cap)
        wait = max(wait, self.host_delay(state))
        buried = 0 < bury_after <= failures
        return msgspec.structs.replace(
            state,
            ready_at=now + wait,
            address_ready_at=now + self.address_delay,
            failures=failures,
            verdict=OutcomeReason.HOST_ABANDONED if buried else state.verdict,
            asked=asked if retry_after > 0 else "",
            asked_beyond=retry_after - wait if retry_after > 0 and asked else 0.0,
        )

    def state_for_handover(self, state: HostState, now: float) -> HostState:
        """State of a host that another agent will try: ordinary delay, no failure counted."""
        return msgspec.structs.replace(
            state, ready_at=now + self.host_delay(state), address_ready_at=now + self.address_delay
        )

    def after_local_fault(self, state: HostState, now: float, *, at_least: float = 0.0) -> HostState:
        """State after a local fault prevented the visit: a later try, no failure counted."""
        wait = min(self.backoff * 2.0 ** min(state.put_off, 30), self.backoff_cap, MAX_POSTPONEMENT)
        return msgspec.structs.replace(
            state,
            ready_at=now + max(wait, at_least, self.host_delay(state)),
            address_ready_at=now + self.address_delay,
            put_off=state.put_off + 1,
        )
