"""What stands in for a server where boards are in memory."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from fieldmouse.balancer.board.memory.ledger import CrawlLedger
from fieldmouse.clock import Clock


class MemoryServer:
    """What would be a server on the network: several boards, and so several agents, may share one."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.starts = 1
        self.crawls: dict[str, CrawlLedger] = {}
        self.hidden: dict[str, CrawlLedger] = {}  # those that are being made again

    @property
    def run(self) -> str:
        return f"run {self.starts}"

    def memory(self) -> dict[str, CrawlLedger]:
        """What is on its disk, if all of it is."""
        return copy.deepcopy(self.crawls)

    def restart(self, memory: Mapping[str, CrawlLedger] | None = None) -> None:
        """It was killed and started again; `memory` is what it still knows, None for all of it."""
        self.starts += 1
        if memory is not None:
            self.crawls = copy.deepcopy(dict(memory))
