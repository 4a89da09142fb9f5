"""Policies made from settings: scope, traps, noise, and limits of a site.

The crawler and `explain` make them in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from msgspec.structs import replace

from fieldmouse.config.settings_file import Settings
from fieldmouse.policy.noise_rules import NoiseRules
from fieldmouse.policy.scope import Mode, Scope
from fieldmouse.policy.site_limits import SiteLimits
from fieldmouse.policy.traps import NO_TRAP_RULES, TrapRules
from fieldmouse.url import Url, parse


def seeds_of(settings: Settings) -> list[Url]:
    """URLs where the crawl begins."""
    return [url for url in map(parse, settings.crawl.seeds) if url is not None]


def scope_of(settings: Settings, seeds: Iterable[Url]) -> Scope:
    asked = settings.scope
    return Scope.from_seeds(
        seeds,
        cast(Mode, asked.mode),
        include_hosts=asked.include_hosts,
        exclude_hosts=asked.exclude_hosts,
        include_domains=asked.include_domains,
        exclude_domains=asked.exclude_domains,
        prefixes=asked.prefixes,
        exclude_prefixes=asked.exclude_prefixes,
        include_regex=asked.include_regex,
        exclude_regex=asked.exclude_regex,
        max_depth=settings.crawl.max_depth,
        follow_seed_redirects=asked.follow_seed_redirects,
    )


def site_limits_of(settings: Settings) -> SiteLimits:
    return SiteLimits(hosts=settings.limits.hosts_per_site, urls=settings.limits.urls_per_site)


def traps_of(settings: Settings) -> TrapRules:
    limits = settings.limits
    return replace(TrapRules() if limits.traps else NO_TRAP_RULES, url_length=limits.url_length)


def noise_of(settings: Settings) -> NoiseRules:
    asked = settings.noise
    return NoiseRules.of(asked.ignore, asked.only, learn=asked.learn)
