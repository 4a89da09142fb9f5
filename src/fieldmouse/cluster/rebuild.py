"""Interface for rebuilding a crawl that the coordinator has lost.

First all outcomes of the agents are restored, then the state of the hosts. Links that are offered after
that wait unless they have an outcome. The crawl stays invisible until it is published. Each call may be
repeated, and the whole rebuild, too: one that was killed half-way starts again, and nothing counts twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fieldmouse.cluster.coordinator import (
    AgentId,
    CrawlSpec,
    CrawlTotals,
    HeartbeatMark,
    HostPayload,
    LinkOffer,
    OfferResult,
    SiteBounds,
)
from fieldmouse.url import Host


@dataclass(frozen=True, slots=True)
class RestoredHost:
    """URLs of one host that have outcomes: keys, and the kind of each outcome."""

    host: Host
    site: str
    keys: Sequence[int]
    kinds: Sequence[str]


class CrawlRebuilder(Protocol):
    """Coordinator of a crawl that is not visible yet."""

    async def clear_stale_copy(self, key_seed: int, since: Sequence[HeartbeatMark]) -> bool:
        """Clear a crawl that is an old copy: it does not know one of these heartbeats. Returns whether it
        did.

        `since` are the heartbeats that the directories of its agents rely on. A crawl with another
        `key_seed` is a different crawl and stays. A crawl that agents work with is no old copy: raises.
        """

    async def begin_hidden(self, charter: CrawlSpec) -> CrawlSpec:
        """Start or continue a rebuild; returns the specification in force.

        Raises `CoordinatorError` if there is a crawl with URLs.
        """

    async def remove_crawl(self) -> None:
        """Remove the crawl completely, whatever state it is in."""

    async def restore_outcomes(
        self, name: AgentId, hosts: Sequence[RestoredHost], urls: bytes = b"", *, bounded: bool = False
    ) -> int:
        """Restore outcomes of an agent, by its last start; returns how many of them were new.

        `urls` are the packed URLs of all keys in order, in case the agent is lost; `bounded`: sites are
        counted.
        """

    async def mark_agent_restored(self, name: AgentId, told: int) -> None:
        """Mark the outcomes of `name` as complete, up to the number `told` of its messages."""

    async def restore_host_payloads(self, luggage: Mapping[Host, HostPayload]) -> None:
        """Set the state of restored hosts."""

    async def offer_links(
        self, offers: Sequence[LinkOffer], bounds: SiteBounds, *, seeds: bool = False
    ) -> OfferResult:
        """Offer links, as an agent does at the coordinator."""

    async def totals(self) -> CrawlTotals:
        """Totals restored up to now."""

    async def publish(self, lease: float, delay: float, age: float = 0.0) -> None:
        """Make the crawl visible. It is calm for as long as an agent may still visit a host, plus a delay.

        `age` is the number of seconds since the crawl was created on the lost server.
        """

    async def close(self) -> None: ...
