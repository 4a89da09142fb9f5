"""State of a host: delays, failures and when it may be visited again."""

from __future__ import annotations

import msgspec

from fieldmouse.types.reason import OutcomeReason


class AgentConnectFailure(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """An agent of a cluster that could not reach a host: other agents try before that counts."""

    agent: str
    machine: str
    reason: OutcomeReason
    until: float  # the agent does not try again before then; on the coordinator: seconds left
    counts: bool = True  # it says something about the host: the trouble was not clearly the agent's own
    alone: bool = False  # only known pages of that agent are left on the host: no other agent is sent there


class HostState(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """State of a host between visits; as durable as its URLs."""

    address: str = ""  # "" before the first DNS lookup
    ready_at: float = 0.0  # no request to the host before then
    address_ready_at: float = 0.0  # no request to the address before then
    crawl_delay: float = 0.0  # from robots.txt; 0 if it has none
    failures: int = 0  # in a row, of the host as a whole (connect, DNS, 429, 503)
    pages: int = 0  # pages stored from it
    verdict: OutcomeReason = (
        OutcomeReason.NONE
    )  # set when all its URLs are answered without a request (abandoned, full)
    detail: str = ""  # of the verdict, shown to people
    put_off: int = 0  # consecutive delays caused by our own trouble; not counted as failures
    unreached: tuple[AgentConnectFailure, ...] = ()  # recent failures of agents of a cluster
    asked: str = ""  # the server's request to wait, for example "status 429, Retry-After: 120"
    asked_beyond: float = 0.0  # seconds it asked for beyond `ready_at`; negative if it asked for less
