"""Composition root: builds the fetcher, the frontier and the other stages of a crawl from its settings.

The order is that of dependence: every part receives its parts in the constructor, and nothing is set
afterwards. Numbers that flow back are in the back-pressure state, and changes wake the fetch pool through a
signal; so no part needs to know a part that is built later. If one part fails to open, those before it are
closed.
"""

from __future__ import annotations

import math
import os
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from fieldmouse.aio import WakeUpCallbacks
from fieldmouse.backpressure_state import BackpressureState
from fieldmouse.clock import Clock, WallClock
from fieldmouse.config.rules_from_settings import (
    PageProcessingConfig,
    noise_of,
    plugins_of,
    scope_of,
    seeds_of,
    site_limits_of,
    traps_of,
)
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.config.settings_file import Settings
from fieldmouse.control.buffer_trace import BufferTrace, TraceFileWriter
from fieldmouse.control.governor import build_governor, initial_rule
from fieldmouse.crawler.crawler import ConsumerBackpressure, Crawler, Stages, StatsListener
from fieldmouse.crawler.growing_scope import CrawlScope
from fieldmouse.crawler.in_flight import InFlightTable, VisitRunner
from fieldmouse.crawler.indexing_stage import IndexingStage
from fieldmouse.crawler.page_buffer import FullBufferPolicy, PageBuffer
from fieldmouse.crawler.refresh_state import RefreshState, saved_refresh_state, state_for_run
from fieldmouse.crawler.stats import AgentLoadMeter, CpuUtilisation
from fieldmouse.crawler.stop_conditions import CrawlLimits, FailureLatch, StopRequest
from fieldmouse.fetch.auth_headers import AuthHeadersPlugin
from fieldmouse.fetch.outage import OutageDetector
from fieldmouse.fetch.politeness_gate import FetchServices, PolitenessGate
from fieldmouse.fetch.worker import ActiveWorkers, FetchPool, FetchSettings, FetchWorker
from fieldmouse.frontier.distribution_decision_log import DecisionLog
from fieldmouse.frontier.durable_parts import frontier_state_of
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.http import connection
from fieldmouse.http.client import Fetcher, HttpFetcher
from fieldmouse.http.connection import SourceAddress, create_tls_context
from fieldmouse.http.dns import DnsBackend, Resolver
from fieldmouse.import_string import import_callable
from fieldmouse.policy.concurrency_thresholds import FixedLifetime, PageLifetime
from fieldmouse.policy.distribution import registry
from fieldmouse.policy.dns_and_header_options import NameOverrides
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.policy.politeness import Politeness
from fieldmouse.policy.scope import Scope
from fieldmouse.robotstxt.parser import RobotsTxtCache
from fieldmouse.storage import checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import BestEffortLog
from fieldmouse.types.outcome import Outcome
from fieldmouse.url import Url, host_of, parse
from fieldmouse.workers.pool import ShardsPart, WorkerPool
from fieldmouse.workers.supervisor import MAX_OUTSTANDING_PAGES, WorkerConnection

if TYPE_CHECKING:
    from fieldmouse.crawler.cluster_agent import ClusterStage, CrawlToJoin
    from fieldmouse.policy.concurrency_thresholds import Thresholds
    from fieldmouse.queueing.in_flight.model import WhenFull
    from fieldmouse.workers.inline_worker import InlineWorker


#: Pages that keep a worker process busy while results and new pages are on their way.
PAGES_AT_WORK = 16


def when_full_policy(settings: Settings) -> FullBufferPolicy:
    """Under a given rule on the level, a page without room is dropped as in the model; else it waits."""
    asked = settings.buffer.when_full
    if asked == "auto":
        return FullBufferPolicy.DROP if settings.control.mode == "thresholds" else FullBufferPolicy.WAIT
    return FullBufferPolicy(asked)


def fetch_settings(settings: Settings, politeness: Politeness) -> FetchSettings:
    return FetchSettings(
        politeness,
        obey_robots_txt=settings.politeness.obey_robots_txt,
        max_redirects=settings.limits.redirects,
        pages_per_host=settings.limits.pages_per_host,
        retry_patience=settings.politeness.patience,
        max_robots_txt_bytes=settings.limits.robots_txt,
    )


def politeness_policy(settings: Settings) -> Politeness:
    asked = settings.politeness
    return Politeness(
        delay=asked.delay,
        address_delay=asked.effective_address_delay,
        crawl_delay_cap=asked.crawl_delay_cap,
        backoff=asked.backoff,
        backoff_cap=asked.backoff_cap,
        retry_after_cap=asked.retry_after_cap,
    )


def policy_options(settings: Settings, policy: str | None = None) -> dict[str, object]:
    """Options of a policy that differ from its defaults; by default of the configured policy."""
    name = policy or settings.frontier.policy
    if name == "index":
        return {"depth": settings.fetch.urls_per_visit}
    if name == "mice-and-elephants" or name.startswith(("alg11", "alg12")):
        return {"delta": settings.frontier.delta}
    return {}


def open_decision_log(home: CrawlDir, settings: Settings) -> DecisionLog | None:
    """Log of the policy's decisions, if the settings ask for one."""
    if not settings.frontier.record_decisions:
        return None
    return DecisionLog(
        home / "decisions.log",
        limit=settings.frontier.record_decisions,
        policy=settings.frontier.policy,
        options=policy_options(settings),
    )


def worker_config(
    home: CrawlDir, settings: Settings, scope: Scope, *, is_open: bool = False, is_shared: bool = False
) -> PageProcessingConfig:
    """`is_open` and `is_shared` as in `PageProcessingConfig`; both are false for a reader of stored pages."""
    limits = settings.limits
    return PageProcessingConfig(
        user_agent=settings.crawl.user_agent,
        robot=settings.crawl.product.partition("/")[0].lower(),
        contact=settings.crawl.contact,
        key_seed=home.identity.key_seed,
        scope=scope,
        scope_is_open=is_open,
        scope_is_shared=is_shared,
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
        revisits=settings.refresh.revisits,
        plugins=plugins_of(settings),
        noise=noise_of(settings),
    )


def open_local_frontier(
    home: CrawlDir,
    settings: Settings,
    last: checkpoint.Checkpoint | None,
    clock: Clock,
    politeness: Politeness,
    witness: DecisionLog | None,
    hold_before: float,
) -> Frontier:
    return Frontier(
        home / "frontier",
        key_seed=home.identity.key_seed,
        clock=clock,
        policy=registry.create_policy(settings.frontier.policy, policy_options(settings)),
        front=FrontSizeRule(settings.frontier.front_min, settings.frontier.front_max),
        errand_links=settings.fetch.urls_per_visit,
        state=frontier_state_of(last) if last else None,
        resumed_delay=politeness.host_delay,
        run_size=settings.frontier.sieve_run,
        decision_log=witness,
        limits=site_limits_of(settings),
        share=settings.refresh.share,
        hold_before=hold_before,
    )


RESERVED_DESCRIPTORS = 64  # for logs, runs, pipes to workers, nameservers


def max_connections() -> int:
    """Return the number of sockets that fit beside the open and the reserved descriptors; at least 2."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(2, limit - _open_descriptors() - RESERVED_DESCRIPTORS)


def _open_descriptors() -> int:
    for names in (Path("/proc/self/fd"), Path("/dev/fd")):
        if names.is_dir():
            return len(os.listdir(names))
    return 32  # unknown; this is a typical number


def make_fetcher(
    settings: Settings, clock: Clock, resolver: Resolver, may_ask: Callable[[], bool] | None = None
) -> HttpFetcher:
    limits, network = settings.limits, settings.network
    return HttpFetcher(
        user_agent=settings.crawl.user_agent,
        clock=clock,
        contact=settings.crawl.contact,
        limits=connection.ResponseLimits(
            body=limits.body,
            header=limits.headers,
            connect=limits.connect,
            first_byte=limits.first_byte,
            idle=limits.idle,
            total=limits.total,
            min_speed=limits.min_speed,
            grace=limits.grace,
        ),
        port=resolver.mapped_port,
        tls=create_tls_context(verify=network.tls_verify, ca_file=Path(network.ca_file) if network.ca_file else None),
        keep_alive=settings.fetch.keep_alive,
        idle_connections=2 * settings.fetch.concurrency,
        most_connections=max_connections(),
        headers=network.headers,
        sign=make_signer(settings),
        source=SourceAddress(network.source) if network.source else None,
        may_ask=may_ask,
        keep_secrets=settings.plugins.keep_signatures,
    )


def make_signer(settings: Settings) -> AuthHeadersPlugin | None:
    """Signer of requests to the user's own sites, if the settings name a plug-in."""
    asked = settings.plugins
    if not asked.sign:
        return None
    return AuthHeadersPlugin(
        import_callable(asked.sign, "sign"),
        asked.sign,
        hosts=[host_of(url) for url in map(parse, asked.sign_hosts or settings.crawl.seeds) if url],
        patience=asked.patience,
        keep=asked.keep_signatures,
        taken=settings.network.headers,
    )


class _Closeable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closeable)


class ResourceStack(ExitStack):
    """Closes its resources in reverse order."""

    def close_later(self, thing: C) -> C:
        self.callback(thing.close)
        return thing

    def close(self) -> None:
        """Close all, ignoring `OSError`: a failed disk may fail again, and the checkpoint is safe."""
        with suppress(OSError):
            super().close()

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


#: Opens a part at the last checkpoint, or empty if the checkpoint does not have it; changes nothing on disk.
OpenDurable = Callable[[CrawlDir, checkpoint.Checkpoint | None], checkpoint.Durable]


@dataclass(frozen=True, slots=True)
class BuiltCrawl:
    """An assembled crawl and its cleanup."""

    crawler: Crawler
    stages: Stages
    outage_detector: OutageDetector
    fetcher: Fetcher
    resolver: Resolver
    resources: ResourceStack

    async def close(self) -> None:
        await self.stages.pool.stop(0.0)  # after an error fetch workers may still be running
        if self.stages.cluster is not None:
            await self.stages.cluster.close()
        await self.outage_detector.close()
        await self.fetcher.close()
        await self.resolver.close()
        await self.stages.indexing.indexer.close()
        self.resources.close()


def build_crawl(
    home: CrawlDir,
    settings: Settings,
    listeners: Sequence[StatsListener] = (),
    *,
    clock: Clock | None = None,
    fetcher: Fetcher | None = None,
    dns: DnsBackend | None = None,
    lane: type[WorkerConnection] | type[InlineWorker] = WorkerConnection,
    obsolescence: PageLifetime | None = None,
    parts: Sequence[OpenDurable] = (),
    audience: ConsumerBackpressure | None = None,
    order: RefreshRunMode | None = None,
    joining: CrawlToJoin | None = None,
) -> BuiltCrawl:
    """Open every stage at the last checkpoint and connect them; if one fails, those before it are closed.

    The defaults are the wall clock, the network and worker processes; the lab has others. `parts` are
    checkpointed with the crawl: see `storage/checkpoint.py`. `listeners` get every reading, and `audience`
    consumes pages as they become durable. Known pages are
    polled if `order` or the settings say so.
    """
    opened, real, clock = ResourceStack(), clock is None, clock or WallClock()
    order = order or (RefreshRunMode() if settings.refresh.on else None)
    with opened.closed_on_error():
        home.check_regular_files()
        journal, last = checkpoint.open_journal(home)
        opened.close_later(journal)
        seeds = seeds_of(settings)
        politeness = politeness_policy(settings)
        meter, bell, failure_latch = BackpressureState(), WakeUpCallbacks(), FailureLatch(home.path)
        stopping, roster = StopRequest(bell), ActiveWorkers(meter)
        tally = checkpoint.sealed_counters(last)
        with checkpoint.explain_lost_checkpoint(journal):
            now = clock.now()
            refresh = state_for_run(last, order, now) if order is not None else RefreshState()
            witness = open_decision_log(home, settings)
            if witness is not None:
                opened.close_later(witness)
            exclusions = RobotsTxtCache(clock, product=settings.crawl.product.partition("/")[0])
            network = None
            if joining is not None:
                from fieldmouse.crawler.cluster_agent import ClusterStage  # only for an agent of a cluster

                network = ClusterStage(
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
                    failure_latch=failure_latch,
                    stopping=stopping,
                )
            frontier: CrawlFrontier = opened.close_later(
                network.frontier
                if network is not None
                else open_local_frontier(home, settings, last, clock, politeness, witness, refresh.held)
            )
            outcomes = opened.close_later(checkpoint.DurableLog("outcomes", home / "outcomes.log", last))
            shared = network.scope_additions if network is not None else None
            scope = CrawlScope(scope_of(settings, seeds), seeds, home, last, shared=shared)
            more: list[checkpoint.Durable] = [scope]
            if scope.held_links is not None:
                more.append(opened.close_later(scope.held_links))
            more += [*(opened.close_later(open_part(home, last)) for open_part in parts)]
            refreshing = None
            if order is not None:
                # imports all polling policies, which few crawls need
                from fieldmouse.crawler import refresh as polls

                table = opened.close_later(polls.open_page_table(home, settings, last))
                refreshing = polls.Poller(
                    order,
                    refresh,
                    table=table,
                    frontier=frontier,
                    outcomes=outcomes,
                    clock=clock,
                    scheduler=polls.make_scheduler(home, table, frontier, settings, refresh, clock),
                    opened_at=now,
                    round_noted=saved_refresh_state(last).round if order.once else 0.0,
                    share=network.poll_budget_share if network is not None else None,
                    elsewhere=_fetched_by_others(scope, network) if network is not None else None,
                )
                more += [table, refreshing]
            if network is not None:
                more += [opened.close_later(part) for part in network.durables]
        quota = network.page_quota if network is not None else None
        in_flight_table = InFlightTable(tally, page_limit=settings.crawl.pages if quota is None else 0, quota=quota)
        readings = opened.close_later(BestEffortLog(home / "readings.log"))
        trace_file = TraceFileWriter(home / "pages.trace", settings.control.trace)
        trace = opened.close_later(BufferTrace(clock=clock, file=trace_file, meter=meter))
        shards, when_full = home.identity.shards, when_full_policy(settings)
        buffer: PageBuffer[tuple[int, Outcome]] = PageBuffer(
            lanes=shards,
            pages=settings.buffer.pages,
            size=settings.buffer.bytes,
            when_full=when_full,
            meter=meter,
            serving_counts=when_full is FullBufferPolicy.DROP or settings.control.mode == "auto",
        )
        open_indexer = partial(
            WorkerPool,
            home.path,
            shards=shards,
            states=checkpoint.shard_states(last) or None,
            config=worker_config(home, settings, scope.scope, is_open=scope.may_grow, is_shared=network is not None),
            lane=lane,
            meter=meter,
        )
        indexing = IndexingStage(
            open_indexer=open_indexer,
            buffer=buffer,
            trace=trace,
            obsolescence=obsolescence or FixedLifetime(settings.buffer.obsolete_after or math.inf),
            in_flight=in_flight_table,
            frontier=frontier,
            outcomes=outcomes,
            scope=scope,
            failure=failure_latch,
            stop=stopping,
            active_workers=roster,
            wake_up=bell,
            clock=clock,
            follow_sitemaps=settings.index.sitemaps,
            is_target_stored=refreshing.is_target_stored if refreshing is not None else None,
        )
        durable = checkpoint.CheckpointParts(
            home, journal, (ShardsPart(indexing.indexer), outcomes, in_flight_table, frontier, *more), last
        )

        resolver = Resolver(
            clock=clock,
            allow_private=settings.network.allow_private,
            names=NameOverrides(settings.network.resolve),
            nameservers=settings.network.nameservers,
            dns=dns,
        )
        fetcher = fetcher or make_fetcher(settings, clock, resolver, network.has_valid_lease if network else None)
        if network is not None:
            fetcher = leased = network.wrap_fetcher(fetcher)
        transport = FetchServices(fetcher, resolver, PolitenessGate(clock), exclusions, clock)
        prober = OutageDetector(
            transport, politeness, size=settings.limits.robots_txt, seeds=map(host_of, seeds), meter=meter, bell=bell
        )
        opinion = network.other_agents if network is not None else None
        robot = FetchWorker(transport, fetch_settings(settings, politeness), indexing, prober, opinion)
        visits = VisitRunner(robot, in_flight_table, frontier, failure_latch, stopping, bell, clock)
        fleet = FetchPool(
            rule=initial_rule(settings),
            meter=meter,
            roster=roster,
            bell=bell,
            clock=clock,
            take=visits.take_visit,
            ready_at=frontier.ready_at,
            give_back=visits.end_visit,
            on_change=trace.record_level,
            run=visits.run_visit if network is None else network.wrap_visits(visits.run_visit, leased),
        )

        def apply_rule(rule: Thresholds, way: WhenFull) -> None:
            buffer.set_policy(FullBufferPolicy(way))
            fleet.set_rule(rule)

        reserve = PAGES_AT_WORK * shards if lane is None else 0
        governor = build_governor(home, settings, clock, trace, apply_rule, reserve)
        if governor is not None:
            opened.close_later(governor)
        load = None
        if network is not None:
            cpu = CpuUtilisation(lambda: indexing.indexer.pids) if real else None
            load = AgentLoadMeter(meter, lambda: trace.gauge.served, MAX_OUTSTANDING_PAGES * shards, cpu=cpu)
        stages = Stages(
            home=home,
            durables=durable,
            indexing=indexing,
            pool=fleet,
            backpressure=meter,
            trace=trace,
            readings=readings,
            governor=governor,
            poller=refreshing,
            cluster=network,
            load=load,
        )
        limits = CrawlLimits(
            seconds=settings.crawl.time if joining is None else 0.0,
            min_free=settings.storage.min_free,
            checkpoint_every=settings.storage.checkpoint,
        )
        agent = Crawler(stages, clock=clock, limits=limits, listeners=listeners, audience=audience)
        return BuiltCrawl(agent, stages, prober, fetcher, resolver, opened)


def _fetched_by_others(scope: CrawlScope, network: ClusterStage) -> Callable[[Url, float], bool]:
    return lambda url, found_at: scope.scope.admits(url, 1) and network.was_idle_after(found_at)
