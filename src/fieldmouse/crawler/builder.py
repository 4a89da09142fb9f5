"""Composition root: builds the stages of a crawl from its settings.

The order is that of dependence: every part receives its parts in the constructor, and nothing is set
afterwards. Numbers that flow back are in the back-pressure state, and changes wake the fetch pool through a
signal; so no part needs to know a part that is built later. If one part fails to open, those before it are
closed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from fieldmouse.aio import Bell
from fieldmouse.backpressure import Meter
from fieldmouse.clock import Clock, WallClock
from fieldmouse.config.policies import scope_of, seeds_of
from fieldmouse.config.sections import Order
from fieldmouse.config.settings_file import Settings
from fieldmouse.control.governor import governor_of, rule_of
from fieldmouse.control.page_trace import PageTrace, TraceFile
from fieldmouse.crawler.buffer import Buffer, Intake, WhenFull
from fieldmouse.crawler.crawler import Agent, Audience, Listener, Stages
from fieldmouse.crawler.dispatch import BookedOutlet, Errands
from fieldmouse.crawler.factories import (
    fetcher_of,
    frontier_of,
    indexer_config,
    manners_of,
    politeness_of,
    when_full_of,
    witness_of,
)
from fieldmouse.crawler.in_flight import Booking, Desk
from fieldmouse.crawler.refresh_state import RefreshState, begun, sealed_refresh
from fieldmouse.crawler.scope import CrawlScope
from fieldmouse.crawler.stats import AgentLoad, CpuDemand
from fieldmouse.crawler.stop_conditions import CrawlLimits, Fuse, Stopping
from fieldmouse.fetch.gate import Gate, Transport
from fieldmouse.fetch.outage import Prober
from fieldmouse.fetch.pool import Fleet, Roster
from fieldmouse.fetch.worker import Robot
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.http.client import Fetcher
from fieldmouse.http.dns import Dns, Resolver
from fieldmouse.policy.name_resolution import NameMap
from fieldmouse.policy.obsolescence import Obsolescence, SameForAll
from fieldmouse.robotstxt.cache import Exclusions
from fieldmouse.storage.checkpoint import Checkpoint, DurableLog, Part, Parts, fitting, open_journal
from fieldmouse.storage.counters import sealed_tally
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Diary
from fieldmouse.storage.shard_state import sealed_shards
from fieldmouse.types.outcome import Outcome
from fieldmouse.url import Url, host_of
from fieldmouse.workers.connection import WINDOW_PAGES, Lane
from fieldmouse.workers.pool import Indexer, Shards

if TYPE_CHECKING:
    from fieldmouse.crawler.cluster import Joining, NetworkStage
    from fieldmouse.workers.inline_worker import InlineLane


class Closeable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closeable)


class OpenedParts:
    """Closes its resources in reverse order."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def keep(self, thing: C) -> C:
        self._stack.callback(thing.close)
        return thing

    def close(self) -> None:
        """Close all, ignoring `OSError`: a failed disk may fail again, and the checkpoint is safe."""
        with suppress(OSError):
            self._stack.close()

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


OpenPart = Callable[[CrawlDir, Checkpoint | None], Part]
"""Opens a part at the last checkpoint, or empty if the checkpoint does not have it; changes nothing on disk.
"""


@dataclass(frozen=True, slots=True)
class Crew:
    """An assembled crawl and its cleanup."""

    agent: Agent
    stages: Stages
    prober: Prober
    fetcher: Fetcher
    resolver: Resolver
    opened: OpenedParts

    async def close(self) -> None:
        await self.stages.fleet.stop(0.0)  # after an error fetch workers may still be running
        if self.stages.network is not None:
            await self.stages.network.close()
        await self.prober.close()
        await self.fetcher.close()
        await self.resolver.close()
        await self.stages.intake.indexer.close()
        self.opened.close()


def build(
    home: CrawlDir,
    settings: Settings,
    listeners: Sequence[Listener] = (),
    *,
    clock: Clock | None = None,
    fetcher: Fetcher | None = None,
    dns: Dns | None = None,
    lane: type[Lane] | type[InlineLane] = Lane,
    obsolescence: Obsolescence | None = None,
    parts: Sequence[OpenPart] = (),
    audience: Audience | None = None,
    order: Order | None = None,
    joining: Joining | None = None,
) -> Crew:
    """Open every stage at the last checkpoint and connect them; if one fails, those before it are closed.

    The defaults are the wall clock, the network and worker processes; the lab has others. `parts` are
    checkpointed with the crawl: see `storage/checkpoint.py`. `listeners` get every reading, and `audience`
    consumes pages as they become durable. Known pages are
    polled if `order` or the settings say so.
    """
    opened, real, clock = OpenedParts(), clock is None, clock or WallClock()
    order = order or (Order() if settings.refresh.on else None)
    with opened.closed_on_error():
        home.check_files()
        journal, last = open_journal(home)
        opened.keep(journal)
        seeds = seeds_of(settings)
        politeness = politeness_of(settings)
        meter, bell, fuse = Meter(), Bell(), Fuse(home.path)
        stopping, roster = Stopping(bell), Roster(meter)
        tally = sealed_tally(last)
        with fitting(journal):
            now = clock.now()
            refresh = begun(last, order, now) if order is not None else RefreshState()
            witness = witness_of(home, settings)
            if witness is not None:
                opened.keep(witness)
            exclusions = Exclusions(clock, product=settings.crawl.product.partition("/")[0])
            network = None
            if joining is not None:
                from fieldmouse.crawler.cluster import NetworkStage  # only for an agent of a cluster

                network = NetworkStage(
                    joining,
                    home,
                    settings,
                    last,
                    clock=clock,
                    politeness=politeness,
                    exclusions=exclusions,
                    tally=tally,
                    meter=meter,
                    bell=bell,
                    fuse=fuse,
                    stopping=stopping,
                )
            frontier: CrawlFrontier = opened.keep(
                network.frontier
                if network is not None
                else frontier_of(home, settings, last, clock, politeness, witness, refresh.held)
            )
            outcomes = opened.keep(DurableLog("outcomes", home / "outcomes.log", last))
            shared = network.scope if network is not None else None
            scope = CrawlScope(scope_of(settings, seeds), seeds, home, last, shared=shared)
            more: list[Part] = [scope]
            if scope.held is not None:
                more.append(opened.keep(scope.held))
            more += [*(opened.keep(open_part(home, last)) for open_part in parts)]
            refreshing = None
            if order is not None:
                # imports all polling policies, which few crawls need
                from fieldmouse.crawler import refresh as polls

                ledger = opened.keep(polls.open_ledger(home, settings, last))
                refreshing = polls.Refreshing(
                    order,
                    refresh,
                    ledger=ledger,
                    frontier=frontier,
                    outcomes=outcomes,
                    clock=clock,
                    scheduler=polls.scheduler_of(home, ledger, settings, refresh, clock),
                    opened_at=now,
                    round_noted=sealed_refresh(last).round if order.once else 0.0,
                    share=network.share if network is not None else None,
                    elsewhere=_elsewhere(scope, network) if network is not None else None,
                )
                more += [ledger, refreshing]
            if network is not None:
                more += [opened.keep(part) for part in network.parts]
        if network is None:
            desk = Desk(tally, page_limit=settings.crawl.pages)
        else:
            desk = Desk(tally, page_limit=0, quota=network.allowance)
        readings = opened.keep(Diary(home / "readings.log"))
        trace_file = TraceFile(home / "pages.trace", settings.control.trace)
        trace = opened.keep(PageTrace(clock=clock, file=trace_file, meter=meter))
        booking = Booking(desk, frontier, outcomes, fuse, clock, scope, settings.index.sitemaps)
        shards, when_full = home.identity.shards, when_full_of(settings)
        buffer: Buffer[tuple[int, Outcome]] = Buffer(
            lanes=shards,
            pages=settings.buffer.pages,
            size=settings.buffer.bytes,
            when_full=when_full,
            meter=meter,
            serving_counts=when_full is WhenFull.LOSE,
        )
        is_shared = network is not None
        open_indexer = partial(
            Indexer,
            home.path,
            shards=shards,
            states=sealed_shards(last) or None,
            config=indexer_config(home, settings, scope.scope, is_open=scope.is_open, is_shared=is_shared),
            lane=lane,
            meter=meter,
        )
        intake = Intake(
            buffer=buffer,
            open_indexer=open_indexer,
            trace=trace,
            obsolescence=obsolescence or SameForAll(settings.buffer.obsolete_after or math.inf),
            booking=booking,
            bell=bell,
        )
        durable = Parts(home, journal, (Shards(intake.indexer), outcomes, desk, frontier, *more), last)

        resolver = Resolver(
            clock=clock,
            allow_private=settings.network.allow_private,
            names=NameMap(settings.network.resolve),
            nameservers=settings.network.nameservers,
            dns=dns,
        )
        fetcher = fetcher or fetcher_of(settings, clock, resolver, network.may_ask if network else None)
        if network is not None:
            fetcher = leased = network.leased(fetcher)
        transport = Transport(fetcher, resolver, Gate(clock), exclusions, clock)
        prober = Prober(
            transport,
            politeness,
            size=settings.limits.robots_txt,
            seeds=map(host_of, seeds),
            meter=meter,
            bell=bell,
        )
        has_moved = refreshing.has_moved if refreshing is not None else None
        outlet = BookedOutlet(booking, intake, roster, stopping, has_moved)
        opinion = network.colleagues if network is not None else None
        robot = Robot(transport, manners_of(settings, politeness), outlet, prober, opinion)
        errands = Errands(robot, desk, frontier, fuse, stopping, bell, clock)
        fleet = Fleet(
            rule=rule_of(settings),
            meter=meter,
            roster=roster,
            bell=bell,
            clock=clock,
            take=errands.take,
            ready_at=frontier.ready_at,
            give_back=errands.give_back,
            on_change=trace.look,
            run=errands.run if network is None else network.errands(errands.run, leased).run,
        )
        governor = governor_of(home, settings, clock, trace, fleet.obey)
        if governor is not None:
            opened.keep(governor)
        load = None
        if network is not None:
            cpu = CpuDemand(lambda: intake.indexer.pids) if real else None
            load = AgentLoad(meter, lambda: trace.gauge.served, WINDOW_PAGES * shards, cpu=cpu)
        stages = Stages(
            home=home,
            parts=durable,
            frontier=frontier,
            outcomes=outcomes,
            booking=booking,
            intake=intake,
            fleet=fleet,
            meter=meter,
            trace=trace,
            readings=readings,
            governor=governor,
            fuse=fuse,
            stopping=stopping,
            refreshing=refreshing,
            network=network,
            load=load,
        )
        limits = CrawlLimits(
            pages=settings.crawl.pages,
            seconds=settings.crawl.time if joining is None else 0.0,
            min_free=settings.storage.min_free,
            checkpoint=settings.storage.checkpoint,
        )
        agent = Agent(stages, clock=clock, limits=limits, listeners=listeners, audience=audience)
        return Crew(agent, stages, prober, fetcher, resolver, opened)


def _elsewhere(scope: CrawlScope, network: NetworkStage) -> Callable[[Url, float], bool]:
    return lambda url, found_at: scope.scope.admits(url, 1) and network.settled_since(found_at)
