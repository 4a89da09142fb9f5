"""What an agent remembers of hosts while it chooses who visits them: of those it holds, and no others."""

from __future__ import annotations

from pathlib import Path

from fieldmouse.balancer.lease import LeaseClock
from fieldmouse.clock import ManualClock
from fieldmouse.records import HostState
from fieldmouse.url import Host

from .mailboxes import a_chooser, a_mailbox

A, B = Host("http://a.test"), Host("http://b.test")


def test_a_host_that_is_not_ours_leaves_nothing_behind(tmp_path: Path) -> None:
    """A robots.txt may be redirected to any number of them, and a host be taken from us at any time."""
    clock, chooser = ManualClock(1000.0), a_chooser()
    mailbox = a_mailbox(tmp_path, clock, LeaseClock(100.0, clock.now), chooser)
    chooser.took(B, 0.1)
    assert B not in chooser
    for leave in (lambda: mailbox.evicted(A), lambda: mailbox.vacated(A, 1, HostState(), ())):
        chooser.brought(A, b"")
        chooser.queued(A, 0.5)
        chooser.took(A, 0.1)
        chooser.prefers(A, "another")
        assert A in chooser
        leave()
        assert A not in chooser
    for late in (chooser.queued, chooser.took):
        late(A, 0.1)
    chooser.prefers(A, "another")
    assert A not in chooser, "its robot was still out"
