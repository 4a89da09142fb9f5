"""Lease of hosts from the coordinator, and of more URLs for hosts already held."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence

from fieldmouse.balancer.allowance import PageAllowance
from fieldmouse.balancer.board.contract import Board, DamagedField, Grant, Held, Name
from fieldmouse.balancer.board.decoding import DamagedValue, link_of
from fieldmouse.balancer.lease import LeaseClock
from fieldmouse.balancer.mailbox import Mailbox
from fieldmouse.balancer.tenant import Tenant
from fieldmouse.clock import Clock
from fieldmouse.policy.retry import pardoned
from fieldmouse.records import HostState, Link
from fieldmouse.url import Host

log = logging.getLogger(__name__)

_URLS_PER_GRANT = 64  # URLs that come with a granted host
_FIRST_PAUSE = 0.05  # seconds until hosts are asked for again after too few were granted, at first
_LONGEST_PAUSE = 1.0  # ... and at most
_MOST_LOGGED = 3  # damaged values of a host that are logged one by one


class HostFetcher:
    def __init__(
        self,
        board: Board,
        *,
        mailbox: Mailbox,
        tenant: Tenant,
        allowance: PageAllowance,
        lease: LeaseClock,
        clock: Clock,
        unpack: Callable[[Grant], tuple[HostState, list[DamagedField]]],
        on_hosts: Callable[[], None],
    ):
        """`unpack` reads the state that came with a host, and returns its unreadable values."""
        self._board, self._mailbox, self._tenant, self._allowance = board, mailbox, tenant, allowance
        self._lease, self._clock, self._unpack, self._on_hosts = lease, clock, unpack, on_hosts
        self._ask_at, self._pause = 0.0, _FIRST_PAUSE

    def due_in(self) -> float:
        """Seconds until hosts should be asked for; inf while there is no room, or the lease is over."""
        if not self._tenant.wanted or not self._lease.valid:
            return math.inf
        return max(0.0, self._ask_at - self._clock.now())

    async def fetch(self, name: Name) -> None:
        """Lease hosts, if there is room for more and the last request was not just refused."""
        if self.due_in():
            return
        wanted = self._tenant.wanted
        grants = await self._board.lease(name, wanted, _URLS_PER_GRANT)
        self._pause = _FIRST_PAUSE if grants else min(_LONGEST_PAUSE, 2 * self._pause)
        self._ask_at = self._clock.now() + (0.0 if len(grants) >= wanted else self._pause)
        await self._take_in(name, grants, fresh=True)

    async def ask_for_more(self, name: Name, held: Sequence[Held]) -> None:
        await self._take_in(name, await self._board.more(name, held, _URLS_PER_GRANT), fresh=False)

    async def _take_in(self, name: Name, grants: Sequence[Grant], *, fresh: bool) -> None:
        """Take in granted hosts and URLs. Unreadable values are quarantined at the coordinator.

        If that call is lost, the coordinator grants those URLs to other agents, which quarantine them as
        well.
        """
        now = self._clock.now()
        damaged: dict[Held, list[DamagedField]] = {}
        for grant in grants:
            if grant.damaged:
                damaged[Held(grant.host, grant.epoch)] = list(grant.damaged)
            if not fresh and self._tenant.epoch_of(grant.host) != grant.epoch:
                for stray in grant.rows:  # we released the host while we asked for more of it
                    self._mailbox.strays.put((Held(grant.host, grant.epoch), stray))
                continue
            links = []
            for key, row in grant.rows:
                try:
                    links.append(self._decode_row(key, row, grant.host, now))
                except DamagedValue as trouble:
                    damage = DamagedField("rows", str(trouble), (key,), row)
                    damaged.setdefault(Held(grant.host, grant.epoch), []).append(damage)
            settled, new = self._tenant.sort_out(links)
            if settled:
                over = self._mailbox.book_known(grant.host, grant.epoch, settled, self._allowance.left)
                self._allowance.lack(over)
            state = HostState()
            if fresh:
                state, unreadable = self._unpack(grant)
                state = pardoned(state, new)
                if unreadable:
                    damaged.setdefault(Held(grant.host, grant.epoch), []).extend(unreadable)
            self._tenant.grant(grant.host, grant.epoch, new, state, grant.left)
        if grants:
            self._on_hosts()
        if damaged:
            await self._quarantine(name, damaged)

    def _decode_row(self, key: int, row: bytes, host: Host, now: float) -> Link:
        link = link_of(row, host, now)
        if self._mailbox.key_of(link.url) != key:
            raise DamagedValue("row", f"its key is not that of {link.url}")
        return link

    async def _quarantine(self, name: Name, damaged: Mapping[Held, Sequence[DamagedField]]) -> None:
        for held, values in damaged.items():
            for value in values[:_MOST_LOGGED]:
                log.warning(
                    "a value of %s on the coordinator cannot be read and is set aside: %s",
                    held.host,
                    value.why,
                )
            if len(values) > _MOST_LOGGED:
                log.warning("%d more values of %s cannot be read", len(values) - _MOST_LOGGED, held.host)
        await self._board.quarantine(name, damaged)
