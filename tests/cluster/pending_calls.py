"""Pending calls and a session with all their parts, for tests of the code that delivers them."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import numpy as np

from fieldmouse.aio import WakeUpCallbacks
from fieldmouse.clock import Clock
from fieldmouse.cluster.client.coordinator_outbox import Outbox
from fieldmouse.cluster.client.host_payload import HostPayloadCodec
from fieldmouse.cluster.client.host_placement import HostPlacement
from fieldmouse.cluster.client.pending_calls import AddressLeases, ClusterPageQuota, HeartbeatDeadline, PendingCalls
from fieldmouse.cluster.client.session import ClusterSession, SessionSettings
from fieldmouse.cluster.coordinator import Coordinator, SiteBounds
from fieldmouse.policy.balance import agent_choice
from fieldmouse.policy.politeness import Politeness
from fieldmouse.robotstxt.parser import RobotsTxtCache


def a_chooser() -> HostPlacement:
    return HostPlacement(agent_choice.find_balancer("priced")(np.random.default_rng(1)))


def a_mailbox(
    folder: Path, clock: Clock, lease: HeartbeatDeadline, chooser: HostPlacement, outbox: Outbox | None = None
) -> PendingCalls:
    return PendingCalls(
        outbox=Outbox(folder / "board", None, clock.now) if outbox is None else outbox,
        lease=lease,
        transfer=HostPayloadCodec(chooser, RobotsTxtCache(clock, product="test"), Politeness(), clock),
        outcomes=MagicMock(),
        clock=clock,
        key_seed=7,
    )


def a_session(board: Coordinator, folder: Path, mailbox: PendingCalls, quota: ClusterPageQuota) -> ClusterSession:
    """A session that was not started, and has no frontier."""
    return ClusterSession(
        board,
        SessionSettings(folder, "fieldmouse", 5.0, keep_acked_urls=False, bounds=SiteBounds()),
        calls=mailbox,
        addresses=AddressLeases(board, mailbox.lease, mailbox.clock, lambda address: None),
        quota=quota,
        frontier=MagicMock(),
        bell=WakeUpCallbacks(),
        encode_status=bytes,
        on_reply=lambda reply: None,
        on_error=lambda error: None,
    )
