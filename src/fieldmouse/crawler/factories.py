"""Fetcher, frontier and stage configuration, built from the settings."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from fieldmouse.clock import Clock
from fieldmouse.config.policies import noise_of, site_limits_of, traps_of
from fieldmouse.config.settings_file import Settings
from fieldmouse.config.worker_config import WorkerConfig
from fieldmouse.crawler.buffer import WhenFull
from fieldmouse.fetch.signer import Signer
from fieldmouse.fetch.worker import FetchSettings
from fieldmouse.frontier.decision_log import DecisionLog
from fieldmouse.frontier.factory import open_frontier
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.frontier.state import sealed_frontier
from fieldmouse.http import connection
from fieldmouse.http.client import HttpFetcher
from fieldmouse.http.dns import Resolver
from fieldmouse.http.source_address import SourceAddress
from fieldmouse.http.tls import create_tls_context
from fieldmouse.import_string import import_callable
from fieldmouse.plugins.registry import PluginNames
from fieldmouse.policy.distribution import registry
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.policy.politeness import Politeness
from fieldmouse.policy.scope import Scope
from fieldmouse.storage.checkpoint import Checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.url import host_of, parse


def when_full_policy(settings: Settings) -> WhenFull:
    """Under a rule on the level, a page without room is dropped as in the model; else it waits."""
    asked = settings.buffer.when_full
    if asked == "auto":
        return WhenFull.DROP if settings.control.drops_when_full else WhenFull.WAIT
    return WhenFull(asked)


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
    wishes: dict[str, dict[str, object]] = {
        "mice-and-elephants": {"delta": settings.frontier.delta},
        "index": {"depth": settings.fetch.urls_per_visit},
    }
    return wishes.get(policy or settings.frontier.policy, {})


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
) -> WorkerConfig:
    """`is_open` and `is_shared` as in `WorkerConfig`; both are false for a reader of stored pages."""
    limits = settings.limits
    return WorkerConfig(
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
        plugins=PluginNames.from_settings(settings.plugins),
        noise=noise_of(settings),
    )


def open_local_frontier(
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
        policy=registry.create_policy(settings.frontier.policy, policy_options(settings)),
        front=FrontSizeRule(settings.frontier.front_min, settings.frontier.front_max),
        errand_links=settings.fetch.urls_per_visit,
        state=sealed_frontier(last) if last else None,
        resumed_delay=politeness.host_delay,
        run_size=settings.frontier.sieve_run,
        witness=witness,
        limits=site_limits_of(settings),
        share=settings.refresh.share,
        hold_before=hold_before,
    )


RESERVED_DESCRIPTORS = 64  # for logs, runs, pipes to workers, nameservers


def max_connections(*, kept_back: int = RESERVED_DESCRIPTORS) -> int:
    """Return the number of sockets that fit beside the open and the reserved descriptors; at least 2."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(2, limit - _open_now() - kept_back)


def _open_now() -> int:
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
        limits=connection.Limits(
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
        tls=create_tls_context(
            verify=network.tls_verify, ca_file=Path(network.ca_file) if network.ca_file else None
        ),
        keep_alive=settings.fetch.keep_alive,
        idle_connections=2 * settings.fetch.concurrency,
        most_connections=max_connections(),
        headers=network.headers,
        sign=make_signer(settings),
        source=SourceAddress(network.source) if network.source else None,
        may_ask=may_ask,
        keep_secrets=settings.plugins.keep_signatures,
    )


def make_signer(settings: Settings) -> Signer | None:
    """Signer of requests to the user's own sites, if the settings name a plug-in."""
    asked = settings.plugins
    if not asked.sign:
        return None
    return Signer(
        import_callable(asked.sign, "sign"),
        asked.sign,
        hosts=[host_of(url) for url in map(parse, asked.sign_hosts or settings.crawl.seeds) if url],
        patience=asked.patience,
        keep=asked.keep_signatures,
        taken=settings.network.headers,
    )
