"""Configuration of each stage, derived from the settings."""

from __future__ import annotations

from fieldmouse.buffer import WhenFull
from fieldmouse.crawldir import CrawlDir
from fieldmouse.frontier.decisions import DecisionLog
from fieldmouse.indexer.indexer import IndexerConfig
from fieldmouse.plugins.names import PluginNames
from fieldmouse.policy.politeness import Politeness
from fieldmouse.policy.scope import Scope
from fieldmouse.robots.robot import Manners
from fieldmouse.settings import Settings
from fieldmouse.settings.rules import noise_of, traps_of


def when_full_of(settings: Settings) -> WhenFull:
    """Under a rule on the level, a page without room is dropped as in the model; else it waits."""
    asked = settings.buffer.when_full
    if asked == "auto":
        return WhenFull.LOSE if settings.control.dropping else WhenFull.WAIT
    return WhenFull(asked)


def manners_of(settings: Settings, politeness: Politeness) -> Manners:
    return Manners(
        politeness,
        obey_exclusion=settings.politeness.obey_robots_txt,
        most_redirects=settings.limits.redirects,
        pages_per_host=settings.limits.pages_per_host,
        patience=settings.politeness.patience,
        exclusion_bytes=settings.limits.robots_txt,
    )


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
    """Options of a policy that differ from its defaults; by default of the configured policy."""
    wishes: dict[str, dict[str, object]] = {
        "mice-and-elephants": {"delta": settings.frontier.delta},
        "index": {"depth": settings.fetch.urls_per_visit},
    }
    return wishes.get(policy or settings.frontier.policy, {})


def witness_of(home: CrawlDir, settings: Settings) -> DecisionLog | None:
    """Log of the policy's decisions, if the settings ask for one."""
    if not settings.frontier.record_decisions:
        return None
    return DecisionLog(
        home / "decisions.log",
        limit=settings.frontier.record_decisions,
        policy=settings.frontier.policy,
        options=policy_options(settings),
    )


def indexer_config(
    home: CrawlDir, settings: Settings, scope: Scope, *, is_open: bool = False, is_shared: bool = False
) -> IndexerConfig:
    """`is_open` and `is_shared` as in `IndexerConfig`; both are false for a reader of stored pages."""
    limits = settings.limits
    return IndexerConfig(
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
        plugins=PluginNames.of(settings.plugins),
        noise=noise_of(settings),
    )
