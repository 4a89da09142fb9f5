"""Retry table: number and times of retries for each kind of failure.

`waits` are seconds before the second, third, ... try. `host` means that the whole host has failed, not
just this URL: the host waits as `policy.politeness` says, and is given up after `bury_after` failures in
a row. With `once` only a URL's first failure counts against its host: a page that never answered tells
nothing new by failing again, and the slow pages of a healthy host come together when they are all that is
left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from fieldmouse.types.host_state import HostState
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import FrontierEntry, Request


@dataclass(frozen=True, slots=True)
class RetryRule:
    waits: tuple[float, ...] = ()
    host: bool = False
    bury_after: int = 0
    once: bool = False


NEVER = RetryRule()

#: Failures that are not in the table are not retried.
RETRIES: dict[OutcomeReason, RetryRule] = {
    OutcomeReason.NO_CONNECTION: RetryRule((2.0, 15.0, 120.0), host=True, bury_after=6),
    OutcomeReason.TIMEOUT: RetryRule((10.0, 120.0), host=True, bury_after=8, once=True),
    OutcomeReason.RETRY_LATER: RetryRule((0.0,) * 8, host=True, bury_after=16),  # the host's back-off is the wait
    OutcomeReason.ROBOTS_TXT_UNREACHABLE: RetryRule(host=True, bury_after=4),
    OutcomeReason.CONNECTION_CLOSED: RetryRule((1.0, 10.0)),
    OutcomeReason.SERVER_ERROR: RetryRule((1.0, 4.0)),
    OutcomeReason.TOO_SLOW: RetryRule((60.0,)),
}


#: Host statuses that are failures. Private addresses and full hosts are no failures.
HOST_FAILURES = frozenset(
    {
        OutcomeReason.HOST_ABANDONED,
        OutcomeReason.NO_ADDRESS,
        OutcomeReason.NO_CONNECTION,
        OutcomeReason.ROBOTS_TXT_UNREACHABLE,
        OutcomeReason.TLS,
    }
)

#: Host statuses that a retry can clear; `PRIVATE_ADDRESS` only if private addresses are allowed now.
CLEARABLE = HOST_FAILURES | {OutcomeReason.PRIVATE_ADDRESS}


#: Seconds after its last failure until a host that was given up is polled again.
GIVEN_UP_REST = 3600.0


def clear_host_failure(state: HostState, links: Iterable[Request], now: float) -> HostState:
    """Clear the host's failure status if one of its requests is a retry of a failed URL, or a poll after a
    long rest."""
    if state.verdict not in CLEARABLE:
        return state
    rested = now >= state.ready_at + GIVEN_UP_REST
    if not any(link.forgiven or (rested and link.door is FrontierEntry.POLLED) for link in links):
        return state
    return msgspec.structs.replace(state, failures=0, put_off=0, verdict=OutcomeReason.NONE, detail="", unreached=())


#: Requests for a known page that fails, before it waits for its next poll: we hold a copy of it.
POLL_TRIES = 3
#: Longest wait in seconds before a failed poll is retried, and for which a round waits for a failed host.
POLL_WAIT = 10.0


def retry_wait(reason: OutcomeReason, tries: int, patience: float = 1.0, *, polled: bool = False) -> float | None:
    """Seconds to wait after `tries` failed fetches, or None to give the URL up.

    `patience` scales all waits. A known page that is `polled` is given up sooner.

    >>> retry_wait(OutcomeReason.SERVER_ERROR, 1), retry_wait(OutcomeReason.SERVER_ERROR, 3)
    (1.0, None)
    >>> retry_wait(OutcomeReason.TIMEOUT, 2), retry_wait(OutcomeReason.TIMEOUT, 2, polled=True)
    (120.0, None)
    """
    waits = retry_rule_for(reason).waits
    wait = waits[tries - 1] * patience if 0 < tries <= len(waits) else None
    if polled and (tries >= POLL_TRIES or (wait is not None and wait > POLL_WAIT)):
        return None
    return wait


def retry_rule_for(reason: OutcomeReason) -> RetryRule:
    return RETRIES.get(reason, NEVER)
