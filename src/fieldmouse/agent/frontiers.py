"""Frontier of a crawl on one machine, built from the settings."""

from __future__ import annotations

from fieldmouse.agent.asked import policy_options
from fieldmouse.clock import Clock
from fieldmouse.crawldir import Checkpoint, CrawlDir
from fieldmouse.frontier.decisions import DecisionLog
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.frontier.moment import sealed_frontier
from fieldmouse.frontier.opening import open_frontier
from fieldmouse.policy.distribution import lookup
from fieldmouse.policy.front import FrontRule
from fieldmouse.policy.politeness import Politeness
from fieldmouse.settings import Settings
from fieldmouse.settings.rules import site_limits_of


def frontier_of(
    home: CrawlDir,
    settings: Settings,
    last: Checkpoint | None,
    clock: Clock,
    politeness: Politeness,
    witness: DecisionLog | None,
    hold_before: float,
) -> Frontier:
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
        share=settings.refresh.share,
        hold_before=hold_before,
    )
