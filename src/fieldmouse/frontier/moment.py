"""State of the frontier in a checkpoint."""

from __future__ import annotations

from typing import Any

import msgspec

from fieldmouse.crawldir import Checkpoint
from fieldmouse.frontier.disksieve import SieveState
from fieldmouse.frontier.frontlog import FrontLogState
from fieldmouse.frontier.hostrows import HostsState
from fieldmouse.frontier.ready import ReadyState
from fieldmouse.frontier.sites import SitesState
from fieldmouse.frontier.virtualizer import VirtualizerState


class FrontierState(msgspec.Struct, frozen=True):
    """Names and lengths of all files, and their totals."""

    sieve: SieveState
    ready: ReadyState
    queues: VirtualizerState
    front: FrontLogState
    hosts: HostsState
    done: int = 0
    width: int = 0
    seen: int = 0
    waiting: int = 0
    sites: SitesState | None = None  # None: written before sites were counted
    polls: int = 0  # known URLs that are to be fetched again
    shipments: Any = None  # not None: the crawl exchanged hosts with others, and cannot be resumed


def sealed_frontier(last: Checkpoint) -> FrontierState:
    """Read the frontier's state from a checkpoint."""
    return last.state("frontier", FrontierState)
