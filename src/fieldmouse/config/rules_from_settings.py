"""Policies and the worker configuration, made from settings.

The crawler and `explain` make them in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import asdict, replace

from fieldmouse.import_string import import_path
from fieldmouse.plugins.runner import PluginConfig
from fieldmouse.policy.noise_rules import NoiseRules
from fieldmouse.policy.scope import NO_TRAP_RULES, Scope, SiteLimits, TrapRules
from fieldmouse.url import Url, parse

if TYPE_CHECKING:
    from fieldmouse.config.settings_file import Settings  # workers do not load it


def seeds_of(settings: Settings) -> list[Url]:
    """URLs where the crawl begins."""
    return [url for url in map(parse, settings.crawl.seeds) if url is not None]


def scope_of(settings: Settings, seeds: Iterable[Url]) -> Scope:
    return Scope.from_seeds(seeds, max_depth=settings.crawl.max_depth, **asdict(settings.scope))


def site_limits_of(settings: Settings) -> SiteLimits:
    return SiteLimits(hosts=settings.limits.hosts_per_site, urls=settings.limits.urls_per_site)


def traps_of(settings: Settings) -> TrapRules:
    limits = settings.limits
    return replace(TrapRules() if limits.traps else NO_TRAP_RULES, url_length=limits.url_length)


def noise_of(settings: Settings) -> NoiseRules:
    return NoiseRules.from_texts(**asdict(settings.noise))


def plugins_of(settings: Settings) -> PluginConfig:
    """The plug-ins in the settings; if workers load any, with this process's module search path."""
    asked = settings.plugins
    path = import_path() if asked.extract or asked.admit or asked.readers else ()
    return PluginConfig(asked.extract, asked.admit, asked.readers, asked.sign, asked.patience, asked.items, path)


class PageProcessingConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the crawl for workers; the same for all of them."""

    user_agent: str = "fieldmouse"
    robot: str = "fieldmouse"  # our name in robots rules, lower case
    contact: str = ""  # operator of the crawl, for the warcinfo record
    key_seed: int = 0
    scope: Scope = Scope()
    scope_is_open: bool = False  # a redirect of a seed may still add hosts to it
    scope_is_shared: bool = False  # other agents add hosts to it, too: a page on such a host is the sign
    traps: TrapRules = TrapRules()
    links_per_page: int = 0  # links taken from one page; 0 for all
    decoded_limit: int = 64 << 20  # bytes of a decoded body
    ratio_limit: int = 200  # decoded to encoded size
    nofollow: bool = True  # obey rel=nofollow, meta robots and X-Robots-Tag
    sitemaps: bool = True  # read sitemaps for their URLs
    feeds: bool = True  # read feeds for their URLs
    outlinks: bool = False  # list every link in the WARC metadata records
    warc_size: int = 1 << 30  # bytes after which a new file begins
    warc_prefix: str = "fieldmouse"
    index_heap: int = 48 << 20  # bytes that the index writer buffers before it writes a segment
    generation: int = 24 << 20  # bytes of text after which a shard's index begins a new generation
    store_text: bool = True  # keep the text in the index, for snippets
    revisits: bool = True  # write revisit records for unchanged pages
    plugins: PluginConfig = PluginConfig()
    noise: NoiseRules = NoiseRules()  # parts of a page to ignore when it is compared
