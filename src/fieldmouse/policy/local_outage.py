"""Detection of local outages: whether a failure is the host's fault or ours.

A crawler that loses its network for a minute sees every host fail, and must not blame the hosts. Three
kinds of failure are distinguished:

- *Always ours*: no route, no network, no descriptors, a DNS that gives no answer. It never counts against
a
  host or a URL: the URL waits and is requested again.
- *The host's, unless others fail too*: refused, silent or broken connections, and names reported as
  non-existent (a captive resolver reports all names so). They count. But if `few` hosts in a row have failed
  and none was reached in between, this is suspicious. It is also suspicious if a host is about to be given
  up, no host was reached since its last failure, and at least `few` hosts could be asked.
- *The host's*: a host that sends a byte of HTTP has shown that the network works.

A suspicion is no proof: in a list of mostly dead hosts, five failures in a row are ordinary. So the
crawler asks witnesses, hosts that were reached before (`fetch/outage.py`). If a witness answers, the
suspects are dead. If none does, it is an outage, and failures counted since the last success are
withdrawn. Until that is decided no host is given up. Without any success there is no witness: the
suspects then get the benefit of the doubt for `BENEFIT` seconds while other hosts are tried, or for
`BENEFIT_IF_KNOWN` if some of them gave pages in an earlier run. The same holds if all suspects and all
witnesses share one address: they cannot vouch for each other. An outage that shows only refusals and
silence, with a working DNS, is believed for `MAX_SILENT_OUTAGE` seconds.

A failure that looks local can be the host's: an IPv6 address where we have no IPv6, a zone whose servers
are gone. A host that could not be asked `MAX_POSTPONEMENTS` times in a row, although a witness could be
asked in the same way each time, is given up. Without a witness it never is.

Agreement of several agents that a host cannot be reached: A machine with broken DNS, no route or a
firewall finds healthy hosts unreachable. So another agent makes the last try: a failure that may be the
machine's fault counts once a second agent, on another machine if there is one, has found the same, or if
no agent is left to ask. Until then the host carries notes of the agents that could not reach it
(`AgentConnectFailure`). An agent with a note is not asked again for `NOTE_SECONDS` seconds, so a host makes at most
one round of the agents in that time.

A host that is visited only for the known pages of one agent is never visited by another: that agent
decides alone after finding the same failure twice (`alone`).

A fault that is plainly the agent's (no network, no descriptors, no answer from DNS) also leaves a note,
so that another agent gets the host. Such a note is no evidence about the host and never `counts`. Older
notes stop counting as soon as an agent reaches the host.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

from fieldmouse.types.host_state import AgentConnectFailure
from fieldmouse.types.outcome import Failed
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.url import Host

#: Hosts. One or two fail together by chance, or because they share a machine, and a smaller crawl has no hosts to
#: compare with. If every third host is dead, five in a row are one case in 243, and a witness settles it.
FEW = 5
BENEFIT = 120.0
BENEFIT_IF_KNOWN = 3600.0
MAX_SILENT_OUTAGE = 6 * 3600.0
MAX_POSTPONEMENTS = 8  # with a back-off of 2 s they take eight minutes: longer than a router takes to start
WITNESSES = 8
_MOST_SUSPECTS = 10_000
_RENEW = 32  # one answer in this many renews a witness


class FailureCause(Enum):
    """Apparent location of a failure."""

    MACHINE = "our machine"
    ROUTE = "our network"
    DNS = "our DNS"
    HOST = "the host"

    @property
    def is_local(self) -> bool:
        return self is not FailureCause.HOST


_MACHINE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_ROUTE = frozenset(  # EACCES and EPERM come from a local firewall
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM}
)
_SILENT = frozenset({OutcomeReason.NO_CONNECTION, OutcomeReason.CONNECTION_CLOSED, OutcomeReason.TIMEOUT})


def cause_of(failed: Failed) -> FailureCause | None:
    """Location of the failure; None if the host sent any response."""
    if failed.response is not None:
        return None
    if failed.errno in _MACHINE:
        return FailureCause.MACHINE
    if failed.errno in _ROUTE:
        return FailureCause.ROUTE
    return FailureCause.HOST if failed.reason in _SILENT else None


class OutageEvidence:
    """Recent evidence about the network, and the conclusions from it."""

    def __init__(self, *, few: int = FEW) -> None:
        self.few = few
        self.witnesses: dict[str, Host] = {}  # by address: reached in this run, the latest last
        self.suspects: dict[Host, FailureCause] = {}  # failed since the last success
        # Time at which each name was first reported missing since the DNS last found one.
        self.denied: dict[Host, float] = {}
        self._reached = 0
        self.since: float | None = None  # start of the present outage
        self.gave_up = False  # no host was ever reached, and the benefit of the doubt is used up
        self._again = False  # a suspect has failed for the second time
        self._places: set[str] = set()  # addresses of the suspects
        self._known = False  # a suspect was reached before, maybe in an earlier run
        self._hosts: dict[Host, int] = {}  # failures counted since the last success
        self._urls: dict[str, int] = {}
        self._excused_hosts: dict[Host, int] = {}
        self._excused_urls: dict[str, int] = {}

    def record_reached(self, host: Host, address: str) -> None:
        """Record that a host responded."""
        self._reached += 1
        # Called for each page: renewing one in many is enough to keep the witnesses recent.
        if len(self.witnesses) < WITNESSES or self._reached % _RENEW == 0:
            self.witnesses.pop(address, None)
            self.witnesses[address] = host
            if len(self.witnesses) > WITNESSES:
                del self.witnesses[next(iter(self.witnesses))]
        if self.suspects:
            self.suspects.clear()
            self._again = self._known = False
            self._places.clear()
            self._hosts.clear()
            self._urls.clear()
        self.gave_up = False

    def record_failed(self, host: Host, cause: FailureCause, *, known: bool = False, address: str = "") -> None:
        """Record that a host did not respond. `known`: it did earlier, in this run or before."""
        # A machine without descriptors shows nothing about the network.
        if cause is not FailureCause.MACHINE and len(self.suspects) < _MOST_SUSPECTS:
            self._again = self._again or host in self.suspects
            self.suspects[host] = cause
            self._places.add(address)
            self._known = self._known or known

    def protects_host(self, host: Host) -> bool:
        """Whether one more failure is too little evidence to give up this host or a URL of it.

        That holds while `few` hosts fail and no host was reached since this host's last failure.
        """
        return host in self.suspects and len(self.suspects) >= self.few and not self.gave_up

    def can_ask_other_hosts(self, host: Host) -> bool:
        """Whether no host was reached since this host's last failure, and enough others could be asked."""
        known = self.suspects.keys() | set(self.witnesses.values())
        return host in self.suspects and len(known) >= self.few and not self.gave_up

    def record_missing_name(self, host: Host, now: float, *, named_at: float) -> None:
        """Record that a name does not exist; the DNS last found another name at `named_at`."""
        if self.denied and named_at > min(self.denied.values()):
            self.denied.clear()
        if len(self.denied) < _MOST_SUSPECTS:
            self.denied.setdefault(host, now)

    def record_counted_failures(self, host: Host, url: str = "", *, failures: int = 1) -> None:
        """Record that failures were counted against a host, and a try against a URL of it."""
        if len(self._hosts) < _MOST_SUSPECTS:
            self._hosts[host] = self._hosts.get(host, 0) + failures
            if url:
                self._urls[url] = self._urls.get(url, 0) + 1

    @property
    def suspects_outage(self) -> bool:
        """Whether a local outage is likely enough to ask a witness."""
        suspects = self.suspects
        if not suspects:
            return False
        ours = self.has_failure_with_local_cause
        if len(suspects) >= self.few:
            return ours or not self.gave_up
        # Fewer are enough if no witness is left, or if a host fails again with no success in between.
        return ours and (self._again or all(host in suspects for host in self.witnesses.values()))

    @property
    def has_failure_with_local_cause(self) -> bool:
        """Whether one of the failures is local by its nature."""
        return any(cause.is_local for cause in self.suspects.values())

    @property
    def has_usable_witness(self) -> bool:
        """Whether a witness exists that would answer if the network worked."""
        if self.has_failure_with_local_cause:
            return True
        elsewhere = len(self._places | self.witnesses.keys()) > 1 or "" in self._places
        return bool(self.witnesses) and elsewhere

    @property
    def benefit_of_doubt_seconds(self) -> float:
        """Seconds for which suspects are kept although no witness can be asked."""
        return BENEFIT_IF_KNOWN if self._known else BENEFIT

    def begin_outage(self, now: float) -> None:
        """Start an outage and withdraw the counted failures."""
        self.since = now
        self._excused_hosts.update(self._hosts)
        self._excused_urls.update(self._urls)
        self._hosts.clear()
        self._urls.clear()

    def end_outage(self, now: float) -> float:
        """End the outage; return its length in seconds."""
        assert self.since is not None
        lasted, self.since = now - self.since, None
        return lasted

    def give_up_suspects(self) -> None:
        """Declare the suspects dead: no witness, and the benefit of the doubt is used up."""
        self.gave_up = True

    def take_withdrawn_failures(self, host: Host) -> int:
        """Failures of a host to withdraw; returned once."""
        return self._excused_hosts.pop(host, 0) if self._excused_hosts else 0

    def take_withdrawn_tries(self, url: str) -> int:
        """Tries of a URL to withdraw; returned once."""
        return self._excused_urls.pop(url, 0) if self._excused_urls else 0


#: Seconds: longer than a router takes to start. A permanently broken agent tries a host this rarely.
NOTE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class AgentLocation:
    """An agent and its machine, which may be the faulty part."""

    agent: str
    machine: str = ""


def agents_to_ask(
    notes: Sequence[AgentConnectFailure], me: AgentLocation, others: Iterable[AgentLocation], now: float, *, final: bool
) -> list[AgentLocation]:
    """Agents that should try the host that `me` could not reach; empty: this failure counts.

    `others` are the agents that accept hosts. `final`: the failure would give the host up, and is not
    just a local fault.

    >>> from fieldmouse.types.request import OutcomeReason
    >>> east, west = AgentLocation("east", "e"), AgentLocation("west", "w")
    >>> both = AgentLocation("both", "e")
    >>> [each.agent for each in agents_to_ask([], east, [both, west], 0.0, final=True)]
    ['west']
    >>> found = AgentConnectFailure("east", "e", OutcomeReason.NO_ADDRESS, until=9.0)
    >>> agents_to_ask([found], west, [east, both], 0.0, final=True)  # two machines agree
    []
    >>> [each.agent for each in agents_to_ask([found], both, [east, west], 0.0, final=True)]
    ['west']
    """
    if final and any(note.agent == me.agent and note.alone and note.counts for note in notes):
        return []
    noted = {note.agent for note in notes if note.until > now}
    fresh = [other for other in others if other.agent not in noted and other.agent != me.agent]
    elsewhere = [other for other in fresh if other.machine != me.machine]
    agreeing = {note.machine for note in notes if note.counts and note.agent != me.agent}
    if final and agreeing:
        return [] if agreeing - {me.machine} else elsewhere
    return elsewhere or fresh


def with_note(notes: Sequence[AgentConnectFailure], note: AgentConnectFailure) -> tuple[AgentConnectFailure, ...]:
    """Notes of a host with a new one, which replaces the same agent's earlier note."""
    counted = any(old.counts for old in notes if old.agent == note.agent)
    newer = msgspec.structs.replace(note, counts=note.counts or counted)
    return (*(old for old in notes if old.agent != note.agent), newer)


def with_polls_only(notes: Sequence[AgentConnectFailure], me: str, *, only: bool) -> tuple[AgentConnectFailure, ...]:
    """Notes before `me` visits the host; `only`: the visit is for known pages of `me` alone."""
    return tuple(
        msgspec.structs.replace(note, alone=only) if note.agent == me and note.alone != only else note for note in notes
    )


def notes_after_success(notes: Sequence[AgentConnectFailure], now: float) -> tuple[AgentConnectFailure, ...]:
    """Notes after an agent reached the host: they no longer count, but their agents still wait."""
    return tuple(msgspec.structs.replace(note, counts=False) for note in notes if note.until > now)


def blocked_agents(notes: Sequence[AgentConnectFailure], now: float) -> dict[str, float]:
    """Agents that must not try the host now, with the seconds that remain."""
    return {note.agent: note.until - now for note in notes if note.until > now}


def export_notes(notes: Sequence[AgentConnectFailure], now: float) -> tuple[AgentConnectFailure, ...]:
    """Notes for another machine, whose clock may differ: with remaining seconds, expired notes left out."""
    kept = [note for note in notes if note.counts or note.until > now]
    return tuple(msgspec.structs.replace(note, until=max(0.0, note.until - now), alone=False) for note in kept)


def import_notes(notes: Sequence[AgentConnectFailure], now: float) -> tuple[AgentConnectFailure, ...]:
    return tuple(msgspec.structs.replace(note, until=now + note.until) for note in notes)
