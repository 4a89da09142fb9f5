"""From settings to stages: every part receives what it uses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from fieldmouse.agent.agent import Agent
from fieldmouse.agent.audience import Audience
from fieldmouse.agent.control import governor_of, rule_of, when_full_of
from fieldmouse.agent.desk import Desk
from fieldmouse.agent.fetching import fetcher_of
from fieldmouse.agent.governor import Governor
from fieldmouse.agent.intake import Intake
from fieldmouse.agent.limits import Limits
from fieldmouse.agent.pagetrace import PageTrace, TraceFile
from fieldmouse.buffer import Buffer, WhenFull
from fieldmouse.clock import Clock, WallClock
from fieldmouse.crawldir import (
    Checkpoint,
    CrawlDir,
    Diary,
    DurableLog,
    Part,
    Parts,
    fitting,
    open_journal,
    sealed_tally,
)
from fieldmouse.frontier.decisions import DecisionLog
from fieldmouse.frontier.moment import sealed_frontier
from fieldmouse.frontier.opening import open_frontier
from fieldmouse.indexer.indexer import Indexer, IndexerConfig
from fieldmouse.indexer.inline import InlineLane
from fieldmouse.indexer.lane import Lane
from fieldmouse.indexer.shards import Shards
from fieldmouse.indexer.wire import sealed_shards
from fieldmouse.plugins.names import PluginNames
from fieldmouse.policy.distribution import lookup
from fieldmouse.policy.front import FrontRule
from fieldmouse.policy.names import NameMap
from fieldmouse.policy.obsolescence import Obsolescence, SameForAll
from fieldmouse.policy.politeness import Politeness
from fieldmouse.policy.scope import Scope
from fieldmouse.records import Outcome, Reading
from fieldmouse.robots.exclusions import Exclusions
from fieldmouse.robots.fleet import Fleet
from fieldmouse.robots.gate import Gate
from fieldmouse.robots.prober import Prober
from fieldmouse.robots.robot import Manners, Robot
from fieldmouse.settings import Settings
from fieldmouse.settings.rules import scope_of, seeds_of, site_limits_of, traps_of
from fieldmouse.url import host_of
from fieldmouse.web.dns import Dns
from fieldmouse.web.fetcher import Fetcher
from fieldmouse.web.resolver import Resolver


@dataclass(frozen=True, slots=True)
class Crew:
    """The stages of a running crawl, and how they are put away."""

    agent: Agent
    prober: Prober
    fetcher: Fetcher
    resolver: Resolver
    indexer: Indexer
    parts: Parts
    diaries: tuple[Diary | PageTrace | Governor, ...]

    async def close(self) -> None:
        """Put everything away. A disk that refused before may refuse again: what counts is safe already."""
        await self.agent.fleet.stop(0.0)  # after an error robots are still out
        await self.prober.close()
        await self.fetcher.close()
        await self.resolver.close()
        await self.indexer.close()
        self.parts.close()
        for diary in self.diaries:
            with suppress(OSError):
                diary.close()


OpenPart = Callable[[CrawlDir, Checkpoint | None], Part]
"""Opens a part at the last checkpoint, or anew where that does not know it; changes nothing on the disk."""


def build(
    home: CrawlDir,
    settings: Settings,
    on_reading: Callable[[Reading], None],
    *,
    clock: Clock | None = None,
    fetcher: Fetcher | None = None,
    dns: Dns | None = None,
    lane: type[Lane] | type[InlineLane] = Lane,
    obsolescence: Obsolescence | None = None,
    parts: Sequence[OpenPart] = (),
    audience: Audience | None = None,
) -> Crew:
    """Open every stage at the last checkpoint and connect them.

    The wall's clock, the network and worker processes are the defaults; the lab has others. `parts` are
    durable with the crawl, too: see `crawldir/parts.py`. `audience` takes pages as they become durable.
    """
    clock = clock or WallClock()
    journal, last = open_journal(home)
    seeds = seeds_of(settings)
    scope = scope_of(settings, seeds)
    politeness = politeness_of(settings)
    with fitting(journal):
        frontier = open_frontier(
            home / "frontier",
            key_seed=home.identity.key_seed,
            clock=clock,
            policy=lookup.policy(settings.frontier.policy, policy_options(settings)),
            front=FrontRule(settings.frontier.front_min, settings.frontier.front_max),
            errand_links=settings.robots.errand_links,
            state=sealed_frontier(last) if last else None,
            resumed_delay=politeness.host_delay,
            run_size=settings.frontier.sieve_run,
            witness=witness_of(home, settings),
            limits=site_limits_of(settings),
        )
        outcomes = DurableLog("outcomes", home / "outcomes.log", last)
        desk = Desk(sealed_tally(last), page_limit=settings.crawl.pages)
        more = [open_part(home, last) for open_part in parts]
        readings = Diary(home / "readings.log")
    shards, when_full = home.identity.shards, when_full_of(settings)
    buffer: Buffer[tuple[int, Outcome]] = Buffer(
        lanes=shards,
        pages=settings.buffer.pages,
        size=settings.buffer.bytes,
        when_full=when_full,
        beyond=(lambda: agent.indexer.outstanding) if when_full is WhenFull.LOSE else (lambda: 0),
    )
    agent = Agent(
        home=home, frontier=frontier, desk=desk, outcomes=outcomes, readings=readings, clock=clock,
        scope=scope, sitemaps=settings.index.sitemaps, on_reading=on_reading, audience=audience,
        limits=Limits(
            settings.crawl.pages, settings.crawl.time, settings.storage.min_free, settings.storage.checkpoint
        ),
    )  # fmt: skip
    agent.indexer = Indexer(
        home.path,
        shards=shards,
        states=sealed_shards(last) or None,
        config=indexer_config(home, settings, scope),
        on_parsed=agent.on_parsed,
        on_lost=agent.on_lost,
        lane=lane,
    )
    agent.parts = Parts(home, journal, (Shards(agent.indexer), outcomes, desk, frontier, *more), last)
    agent.intake = Intake(
        buffer=buffer,
        indexer=agent.indexer,
        clock=clock,
        obsolescence=obsolescence or SameForAll(settings.buffer.obsolete_after or math.inf),
        on_obsolete=agent.fetch_again,
    )
    resolver = Resolver(
        clock=clock,
        allow_private=settings.network.allow_private,
        names=NameMap(settings.network.resolve),
        nameservers=settings.network.nameservers,
        dns=dns,
    )
    fetcher = fetcher or fetcher_of(settings, clock, resolver)
    gate, exclusions = Gate(clock), Exclusions(clock, product=settings.crawl.product.partition("/")[0])
    prober = Prober(
        fetcher=fetcher, resolver=resolver, gate=gate, clock=clock, exclusions=exclusions,
        politeness=politeness, size=settings.limits.robots_txt, seeds=map(host_of, seeds),
        busy=lambda: agent.fleet.busy, on_change=lambda: agent.fleet.nudge(),
    )  # fmt: skip
    robot = Robot(
        fetcher=fetcher, resolver=resolver, gate=gate, clock=clock, outlet=agent, exclusions=exclusions,
        prober=prober,
        manners=Manners(
            politeness,
            obey_exclusion=settings.politeness.obey_robots_txt,
            most_redirects=settings.limits.redirects,
            pages_per_host=settings.limits.pages_per_host,
            patience=settings.politeness.patience,
            exclusion_bytes=settings.limits.robots_txt,
        ),
    )  # fmt: skip
    agent.fleet = Fleet(
        rule=rule_of(settings),
        level=lambda: agent.intake.level,
        clock=clock,
        take=agent.take,
        ready_at=frontier.ready_at,
        run=partial(agent.run_errand, robot),
        give_back=agent.give_back,
        on_home=lambda: agent.intake.trace.look(),
        most=lambda: 0 if audience is not None and audience.is_behind() else prober.most_robots,
    )
    trace = agent.intake.trace = PageTrace(
        clock=clock,
        file=TraceFile(home / "pages.trace", settings.control.trace),
        level=lambda: agent.intake.level,
        robots=lambda: agent.fleet.active,
        allowed=lambda: agent.fleet.allowed,
    )
    agent.governor = governor_of(home, settings, clock, trace, agent.obey)
    diaries = (readings, trace, *((agent.governor,) if agent.governor else ()))
    return Crew(agent, prober, fetcher, resolver, agent.indexer, agent.parts, diaries)


def politeness_of(settings: Settings) -> Politeness:
    asked = settings.politeness
    return Politeness(
        delay=asked.delay,
        address_delay=asked.per_address,
        crawl_delay_cap=asked.crawl_delay_cap,
        backoff=asked.backoff,
        backoff_cap=asked.backoff_cap,
        retry_after_cap=asked.retry_after_cap,
    )


def policy_options(settings: Settings, policy: str | None = None) -> dict[str, object]:
    """What a policy wants to know beyond its defaults; the one chosen, if none is named."""
    wishes: dict[str, dict[str, object]] = {
        "mice-and-elephants": {"delta": settings.frontier.delta},
        "index": {"depth": settings.robots.errand_links},
    }
    return wishes.get(policy or settings.frontier.policy, {})


def witness_of(home: CrawlDir, settings: Settings) -> DecisionLog | None:
    """Who writes down what the policy decides, if anybody does."""
    if not settings.frontier.record_decisions:
        return None
    return DecisionLog(
        home / "decisions.log",
        limit=settings.frontier.record_decisions,
        policy=settings.frontier.policy,
        options=policy_options(settings),
    )


def indexer_config(home: CrawlDir, settings: Settings, scope: Scope) -> IndexerConfig:
    limits = settings.limits
    return IndexerConfig(
        user_agent=settings.crawl.user_agent,
        robot=settings.crawl.product.partition("/")[0].lower(),
        contact=settings.crawl.contact,
        key_seed=home.identity.key_seed,
        scope=scope,
        traps=traps_of(settings),
        links_per_page=limits.links_per_page,
        decoded_limit=limits.decoded,
        ratio_limit=limits.ratio,
        nofollow=settings.politeness.obey_robots_txt,
        sitemaps=settings.index.sitemaps,
        feeds=settings.index.feeds,
        warc_size=settings.archive.warc_size,
        warc_prefix=settings.archive.prefix,
        index_heap=settings.index.heap,
        store_text=settings.index.store_text,
        plugins=PluginNames.of(settings.plugins),
    )
