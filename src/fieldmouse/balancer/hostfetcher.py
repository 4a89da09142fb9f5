"""Fetches hosts from the board, and more URLs of those at hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fieldmouse.balancer.allowance import PageAllowance
from fieldmouse.balancer.board.contract import Board, Grant, Held, Name
from fieldmouse.balancer.board.rows import to_link
from fieldmouse.balancer.lease import LeaseClock
from fieldmouse.balancer.mailbox import Mailbox
from fieldmouse.balancer.tenant import Tenant
from fieldmouse.clock import Clock
from fieldmouse.policy.retry import pardoned
from fieldmouse.records import HostState

_URLS = 64  # of a host that is granted
_HUNGRY = 0.05  # seconds until hosts are asked for again when there were too few, at first
_SATED = 1.0  # ... and at last


class HostFetcher:
    def __init__(
        self, board: Board, *, mailbox: Mailbox, tenant: Tenant, allowance: PageAllowance, lease: LeaseClock,
        clock: Clock, unpack: Callable[[Grant], HostState], on_hosts: Callable[[], None],
    ):  # fmt: skip
        """`unpack` takes in what came with a host."""
        self._board, self._mailbox, self._tenant, self._allowance = board, mailbox, tenant, allowance
        self._lease, self._clock, self._unpack, self._on_hosts = lease, clock, unpack, on_hosts
        self._ask_at, self._pause = 0.0, _HUNGRY

    def due_in(self) -> float:
        """Seconds until hosts should be asked for; inf while there is room for none, or our lease is over."""
        if not self._tenant.wanted or not self._lease.valid:
            return math.inf
        return max(0.0, self._ask_at - self._clock.now())

    async def fetch(self, name: Name) -> None:
        """Hosts, if we have room for more and have not asked in vain just now."""
        if self.due_in():
            return
        wanted = self._tenant.wanted
        grants = await self._board.lease(name, wanted, _URLS)
        self._pause = _HUNGRY if grants else min(_SATED, 2 * self._pause)
        self._ask_at = self._clock.now() + (0.0 if len(grants) >= wanted else self._pause)
        self._take_in(grants, fresh=True)

    async def ask_for_more(self, name: Name, held: Sequence[Held]) -> None:
        self._take_in(await self._board.more(name, held, _URLS), fresh=False)

    def _take_in(self, grants: Sequence[Grant], *, fresh: bool) -> None:
        now = self._clock.now()
        for grant in grants:
            if not fresh and self._tenant.epoch_of(grant.host) != grant.epoch:
                for row in grant.rows:  # we let the host go while we asked for more of it
                    self._mailbox.strays.put((Held(grant.host, grant.epoch), row))
                continue
            known, new = self._tenant.sort_out([to_link(row, grant.host, now) for _, row in grant.rows])
            if known:
                over = self._mailbox.book_known(grant.host, grant.epoch, known, self._allowance.left)
                self._allowance.lack(over)
            state = pardoned(self._unpack(grant), new) if fresh else HostState()
            self._tenant.grant(grant.host, grant.epoch, new, state, grant.left)
        if grants:
            self._on_hosts()
