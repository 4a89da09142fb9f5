"""The frontier of a crawl that keeps all its URLs itself, as the settings ask for it."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from fieldmouse.agent.asked import policy_options
from fieldmouse.clock import Clock
from fieldmouse.crawldir import Checkpoint, CrawlDir
from fieldmouse.frontier.decisions import DecisionLog
from fieldmouse.frontier.exchange import Exchanging
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.frontier.moment import sealed_frontier
from fieldmouse.frontier.opening import open_frontier
from fieldmouse.frontier.parcel import Belongings
from fieldmouse.policy.distribution import lookup
from fieldmouse.policy.front import FrontRule
from fieldmouse.policy.politeness import Politeness
from fieldmouse.robots.exclusions import Exclusions
from fieldmouse.settings import Settings
from fieldmouse.settings.rules import site_limits_of
from fieldmouse.url import Host


def frontier_of(
    home: CrawlDir, settings: Settings, last: Checkpoint | None, clock: Clock, politeness: Politeness,
    witness: DecisionLog | None, exchanging: Exchanging | None, hold_before: float,
) -> Frontier:  # fmt: skip
    return open_frontier(
        home / "frontier",
        key_seed=home.identity.key_seed,
        clock=clock,
        policy=lookup.policy(settings.frontier.policy, policy_options(settings)),
        front=FrontRule(settings.frontier.front_min, settings.frontier.front_max),
        errand_links=settings.fetch.urls_per_visit,
        state=sealed_frontier(last) if last else None,
        resumed_delay=politeness.host_delay,
        run_size=settings.frontier.sieve_run,
        witness=witness,
        limits=site_limits_of(settings),
        exchanging=exchanging,
        share=settings.refresh.share,
        hold_before=hold_before,
    )


def with_robots_txt(exchanging: Exchanging, exclusions: Exclusions) -> Exchanging:
    """Hosts that leave take their robots.txt along, so that nobody asks for it again before its time."""

    def belongings(host: Host) -> Belongings:
        text, until = exclusions.pack(host)
        return msgspec.structs.replace(exchanging.belongings(host), robots_txt=text, robots_txt_until=until)

    def unpack(host: Host, brought: Belongings, seconds: float) -> None:
        exclusions.unpack(host, brought.robots_txt, seconds)
        exchanging.unpack(host, brought, seconds)

    return replace(exchanging, belongings=belongings, unpack=unpack)
