"""Whose trouble it is: the host's, or our own.

A crawler whose network goes away for a minute sees every host fail, and must not
believe it. Three kinds of trouble are told apart:

- *Ours, whatever the number of hosts*: no route, no network, no descriptors, a DNS that cannot
  say. Never a verdict on a host, nor counted among its failures or a URL's tries: the
  URL waits and is asked again.
- *The host's, unless others fail too*: refused, silent or broken connections, and names that are
  said not to exist (a captive resolver says so of all). They count; but when `few` hosts in a row
  have failed and nobody was reached in between, this is suspicious. So it is when one would be
  given up, nobody was reached since it failed the last time, and so many could be asked.
- *The host's own*: whoever sends us a byte of HTTP has shown that the network is there.

A suspicion is no proof. In a list of hosts of which most are dead, five in a row are ordinary. So
somebody else is asked (`robots/prober.py`): hosts that were reached before, the witnesses. If one
of them answers, the suspects are dead; if none does, it is an outage, and what was counted since
anybody was last reached is taken back. Until that is decided nobody is given up. Where nobody was
ever reached there is no witness: then the suspects get the benefit of the doubt for `BENEFIT`
seconds, while others are tried, and no longer; for `BENEFIT_OF_OLD` if some of them gave pages before.
So it is if all who fail and all who were ever reached live at one address: they cannot vouch for each
other. An outage of which nothing but refusals and silence is seen, with a DNS that answers, is believed
for `LONGEST` seconds.

Trouble of ours can be the host's all the same: an address of IPv6 where we have none, a zone
whose servers are gone. A host that we could not ask `PUT_OFFS` times in a row, though a witness
could be asked in the same way each time, is given up. Without a witness it never is.
"""

from __future__ import annotations

import errno
from enum import Enum

from fieldmouse.records import Failed, Reason
from fieldmouse.url import Host

FEW = 5
"""Hosts. One or two fail together by chance, or because they share a machine, and a crawl of fewer has nobody
to compare with. If every third host is dead, five in a row are one case in 243, and a witness settles it."""
BENEFIT = 120.0
BENEFIT_OF_OLD = 3600.0
LONGEST = 6 * 3600.0
PUT_OFFS = 8  # with a back-off of 2 s they take eight minutes: longer than a router takes to start
WITNESSES = 8
_MOST_SUSPECTS = 10_000
_RENEW = 32  # answers, of which one is of a new witness


class Cause(Enum):
    """Where a trouble seems to lie."""

    MACHINE = "our machine"
    ROUTE = "our network"
    DNS = "our DNS"
    HOST = "the host"

    @property
    def ours(self) -> bool:
        return self is not Cause.HOST


_MACHINE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_ROUTE = frozenset(
    {
        errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL,
        errno.EACCES, errno.EPERM,  # a firewall of ours
    }
)  # fmt: skip
_SILENT = frozenset({Reason.NO_CONNECTION, Reason.CLOSED, Reason.TIMEOUT})


def cause_of(failed: Failed) -> Cause | None:
    """Where the trouble lies; None if the host spoke to us, whatever it said."""
    if failed.response is not None:
        return None
    if failed.errno in _MACHINE:
        return Cause.MACHINE
    if failed.errno in _ROUTE:
        return Cause.ROUTE
    return Cause.HOST if failed.reason in _SILENT else None


class Outage:
    """What was seen of the network lately, and what that means."""

    def __init__(self, *, few: int = FEW) -> None:
        self.few = few
        self.witnesses: dict[str, Host] = {}  # by address: reached in this run, the latest last
        self.suspects: dict[Host, Cause] = {}  # in trouble since anybody was last reached
        self.denied: dict[
            Host, float
        ] = {}  # said to have no such name since the DNS last found any; when first
        self._reached = 0
        self.since: float | None = None  # an outage lasts since then
        self.resigned = False  # nobody was ever reached, and the suspects had their benefit
        self._again = False  # one of them for the second time
        self._places: set[str] = set()  # addresses of the suspects
        self._known = False  # one of them was reached before, be it in an earlier run
        self._hosts: dict[Host, int] = {}  # failures counted since anybody was last reached
        self._urls: dict[str, int] = {}
        self._excused_hosts: dict[Host, int] = {}
        self._excused_urls: dict[str, int] = {}

    def reached(self, host: Host, address: str) -> None:
        """Somebody spoke to us."""
        self._reached += 1
        # Once for each page: so one in many is enough to keep the witnesses young.
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
        self.resigned = False

    def failed(self, host: Host, cause: Cause, *, known: bool = False, address: str = "") -> None:
        """Nobody spoke to us. `known`: the host did, in this run or before."""
        # A machine without descriptors says nothing about the network.
        if cause is not Cause.MACHINE and len(self.suspects) < _MOST_SUSPECTS:
            self._again = self._again or host in self.suspects
            self.suspects[host] = cause
            self._places.add(address)
            self._known = self._known or known

    def unfair(self, host: Host) -> bool:
        """Would it be rash to give this host up, or a URL of it, for one more failure?

        So it is while `few` others fail, and nobody was reached since it failed the last time.
        """
        return host in self.suspects and len(self.suspects) >= self.few and not self.resigned

    def comparable(self, host: Host) -> bool:
        """Nobody was reached since it failed the last time; but are there others who could be asked?"""
        known = self.suspects.keys() | set(self.witnesses.values())
        return host in self.suspects and len(known) >= self.few and not self.resigned

    def deny(self, host: Host, now: float, *, named_at: float) -> None:
        """A name is said not to exist; the DNS last found another one at `named_at`."""
        if self.denied and named_at > min(self.denied.values()):
            self.denied.clear()
        if len(self.denied) < _MOST_SUSPECTS:
            self.denied.setdefault(host, now)

    def counted(self, host: Host, url: str = "", *, failures: int = 1) -> None:
        """So many failures were held against a host, and a try against a URL of it."""
        if len(self._hosts) < _MOST_SUSPECTS:
            self._hosts[host] = self._hosts.get(host, 0) + failures
            if url:
                self._urls[url] = self._urls.get(url, 0) + 1

    @property
    def suspicious(self) -> bool:
        """Is it likely enough that the trouble is ours to ask a witness?"""
        suspects = self.suspects
        if not suspects:
            return False
        ours = self.ours
        if len(suspects) >= self.few:
            return ours or not self.resigned
        # Fewer will do if nobody is left to fail, or if one fails again and nobody was reached meanwhile.
        return ours and (self._again or all(host in suspects for host in self.witnesses.values()))

    @property
    def ours(self) -> bool:
        """Is there a trouble among them that is ours by its nature?"""
        return any(cause.ours for cause in self.suspects.values())

    @property
    def provable(self) -> bool:
        """Can anybody be asked who would answer if the network were there?"""
        if self.ours:
            return True
        elsewhere = len(self._places | self.witnesses.keys()) > 1 or "" in self._places
        return bool(self.witnesses) and elsewhere

    @property
    def benefit(self) -> float:
        """Seconds for which the suspects are not given up though nobody can be asked about them."""
        return BENEFIT_OF_OLD if self._known else BENEFIT

    def begin(self, now: float) -> None:
        """It is an outage: what was counted is taken back."""
        self.since = now
        self._excused_hosts.update(self._hosts)
        self._excused_urls.update(self._urls)
        self._hosts.clear()
        self._urls.clear()

    def end(self, now: float) -> float:
        """Somebody was reached again; returns how many seconds it lasted."""
        assert self.since is not None
        lasted, self.since = now - self.since, None
        return lasted

    def resign(self) -> None:
        """Nobody to compare with, and the benefit of the doubt is used up: the suspects are dead."""
        self.resigned = True

    def excused(self, host: Host) -> int:
        """Failures of a host to be taken back; told once."""
        return self._excused_hosts.pop(host, 0) if self._excused_hosts else 0

    def excused_tries(self, url: str) -> int:
        """Tries of a URL to be taken back; told once."""
        return self._excused_urls.pop(url, 0) if self._excused_urls else 0
