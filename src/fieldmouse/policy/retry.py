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

from fieldmouse.types.host import HostState
from fieldmouse.types.reason import Reason
from fieldmouse.types.request import Link


@dataclass(frozen=True, slots=True)
class Retry:
    waits: tuple[float, ...] = ()
    host: bool = False
    bury_after: int = 0
    once: bool = False


NEVER = Retry()

RETRIES: dict[Reason, Retry] = {
    Reason.NO_CONNECTION: Retry((2.0, 15.0, 120.0), host=True, bury_after=6),
    Reason.TIMEOUT: Retry((10.0, 120.0), host=True, bury_after=8, once=True),
    Reason.BUSY: Retry((0.0,) * 8, host=True, bury_after=16),  # the host's back-off is the wait
    Reason.EXCLUSION_UNREACHABLE: Retry(host=True, bury_after=4),
    Reason.CLOSED: Retry((1.0, 10.0)),
    Reason.SERVER_ERROR: Retry((1.0, 4.0)),
    Reason.TOO_SLOW: Retry((60.0,)),
    Reason.TLS: NEVER,
    Reason.BAD_HTTP: NEVER,
    Reason.HEADERS_TOO_LARGE: NEVER,
    Reason.BODY_TOO_LARGE: NEVER,
    Reason.CLIENT_ERROR: NEVER,
    Reason.BAD_REDIRECT: NEVER,
    Reason.BOMB: NEVER,
    Reason.BAD_ENCODING: NEVER,
    Reason.BURIED: NEVER,
    Reason.UNSIGNED: NEVER,
}


OF_HOSTS = frozenset(
    {Reason.BURIED, Reason.NO_ADDRESS, Reason.NO_CONNECTION, Reason.EXCLUSION_UNREACHABLE, Reason.TLS}
)
"""Host statuses that are failures. Private addresses and full hosts are no failures."""

FORGIVABLE = OF_HOSTS | {Reason.PRIVATE}
"""Host statuses that a retry can clear; `PRIVATE` only if private addresses are allowed now."""


def pardoned(state: HostState, links: Iterable[Link]) -> HostState:
    """Clear the host's failure status if one of its requests is a retry of a failed URL."""
    if state.verdict not in FORGIVABLE or not any(link.forgiven for link in links):
        return state
    return msgspec.structs.replace(state, failures=0, put_off=0, verdict=Reason.NONE, detail="", unreached=())


POLL_TRIES = 3
"""Requests for a known page that fails, before it waits for its next poll: we hold a copy of it."""
POLL_WAIT = 10.0
"""Longest wait in seconds before a failed poll is retried, and for which a round waits for a failed host."""


def next_try(reason: Reason, tries: int, patience: float = 1.0, *, polled: bool = False) -> float | None:
    """Seconds to wait after `tries` failed fetches, or None to give the URL up.

    `patience` scales all waits. A known page that is `polled` is given up sooner.

    >>> next_try(Reason.SERVER_ERROR, 1), next_try(Reason.SERVER_ERROR, 3)
    (1.0, None)
    >>> next_try(Reason.TIMEOUT, 2), next_try(Reason.TIMEOUT, 2, polled=True)
    (120.0, None)
    """
    waits = rule_for(reason).waits
    wait = waits[tries - 1] * patience if 0 < tries <= len(waits) else None
    if polled and (tries >= POLL_TRIES or (wait is not None and wait > POLL_WAIT)):
        return None
    return wait


def rule_for(reason: Reason) -> Retry:
    return RETRIES.get(reason, NEVER)
