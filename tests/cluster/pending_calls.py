"""Pending calls with all their parts, for tests of the code that delivers them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fieldmouse.clock import Clock
from fieldmouse.cluster.client.identity import LeaseClock
from fieldmouse.cluster.client.outbox import Outbox
from fieldmouse.cluster.client.pending import PendingCalls
from fieldmouse.cluster.client.placement import HostPlacement
from fieldmouse.cluster.coordinator import HostPayload
from fieldmouse.policy.balance import balancer
from fieldmouse.url import Url, key_of


def a_chooser() -> HostPlacement:
    return HostPlacement(balancer.find_balancer("priced")(np.random.default_rng(1)))


def a_mailbox(folder: Path, clock: Clock, lease: LeaseClock, chooser: HostPlacement) -> PendingCalls:
    return PendingCalls(
        tellings=Outbox(folder / "board", None, clock.now),
        lease=lease,
        chooser=chooser,
        clock=clock,
        pack=lambda host, state: HostPayload(),
        delay=lambda state: 1.0,
        key_of=lambda url: key_of(Url(url), 7),
        kinds_of=lambda keys: ["page"] * len(keys),
    )
