"""Substitute for a server where coordinators are in memory."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from fieldmouse.balancer.board.memory.ledger import CrawlLedger
from fieldmouse.clock import Clock


class MemoryServer:
    """In-memory server: several coordinators, and so several agents, may share one."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.starts = 1
        self.crawls: dict[str, CrawlLedger] = {}
        self.hidden: dict[str, CrawlLedger] = {}  # crawls that are being rebuilt

    @property
    def run(self) -> str:
        return f"run {self.starts}"

    def memory(self) -> dict[str, CrawlLedger]:
        """Copy of all data, as on a completely written disk."""
        return copy.deepcopy(self.crawls)

    def restart(self, memory: Mapping[str, CrawlLedger] | None = None) -> None:
        """Kill and restart the server; `memory` is the data that survives, None for all of it."""
        self.starts += 1
        if memory is not None:
            self.crawls = copy.deepcopy(dict(memory))
