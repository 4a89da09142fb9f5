"""Scope of a crawl: the URLs it may visit.

A scope is derived from the seeds: their pages, their hosts, their sites (the registered domains) or the
whole web, widened by include rules and narrowed by exclude rules. Exclusion wins. A redirect's target
must pass like any link.

A host is its name: scheme and port do not matter, so a site that moved to https is still the same host.

Seeds redirect: `http://example.org/` leads to `https://www.example.org/`. The redirects of a seed are
followed within the registered domains of the seeds (with `follow_seed_redirects`, anywhere), and the page
at the end counts as a seed, too (`joined`). Exclude rules still apply.

The decision has two parts: a host is judged by its name alone, so a caller may cache the answer per host;
path rules, if there are any, are checked per URL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

import msgspec

from fieldmouse.errors import SettingsError
from fieldmouse.url import Host, Url, host_of, hostname_of, path_of, site_of

Mode = Literal["page", "host", "site", "web"]


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a crawl; created by `Scope.from_seeds`.

    Names are DNS names or address literals. A domain covers itself and all names under it. A prefix that
    starts with "/" is compared with path and query on any host, any other prefix with the whole URL.
    Regular expressions are searched for in the whole URL. Empty means no such rule.
    """

    mode: Mode = "web"
    pages: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    sites: frozenset[str] = frozenset()
    include_hosts: frozenset[str] = frozenset()
    exclude_hosts: frozenset[str] = frozenset()
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    exclude_prefixes: tuple[str, ...] = ()
    include_regex: tuple[str, ...] = ()
    exclude_regex: tuple[str, ...] = ()
    max_depth: int | None = None  # links away from a seed; None means no limit
    follow_seed_redirects: bool = False  # redirects of seeds are followed to any registered domain

    @classmethod
    def from_seeds(
        cls,
        seeds: Iterable[Url],
        mode: Mode = "site",
        *,
        include_hosts: Iterable[str] = (),
        exclude_hosts: Iterable[str] = (),
        include_domains: Iterable[str] = (),
        exclude_domains: Iterable[str] = (),
        prefixes: Iterable[str] = (),
        exclude_prefixes: Iterable[str] = (),
        include_regex: Iterable[str] = (),
        exclude_regex: Iterable[str] = (),
        max_depth: int | None = None,
        follow_seed_redirects: bool = False,
    ) -> Scope:
        """Scope derived from the seeds.

        >>> scope = Scope.from_seeds([Url("https://www.example.org/")])
        >>> scope.admits(Url("http://news.example.org/today")), scope.admits(Url("https://example.com/"))
        (True, False)
        """
        seeds = list(seeds)
        names = [hostname_of(host_of(seed)) for seed in seeds]
        scope = cls(
            mode=mode,
            pages=frozenset(seeds) if mode == "page" else frozenset(),
            hosts=frozenset(names),
            sites=frozenset(site_of(name) for name in names),
            include_hosts=frozenset(name.lower() for name in include_hosts),
            exclude_hosts=frozenset(name.lower() for name in exclude_hosts),
            include_domains=tuple(name.lower().strip(".") for name in include_domains),
            exclude_domains=tuple(name.lower().strip(".") for name in exclude_domains),
            prefixes=tuple(prefixes),
            exclude_prefixes=tuple(exclude_prefixes),
            include_regex=tuple(include_regex),
            exclude_regex=tuple(exclude_regex),
            max_depth=max_depth,
            follow_seed_redirects=follow_seed_redirects,
        )
        for pattern in scope.include_regex + scope.exclude_regex:
            compile_pattern(pattern)
        return scope

    def admits(self, url: Url, depth: int = 0) -> bool:
        return self.admits_depth(depth) and self.admits_host(host_of(url)) and self.admits_path(url)

    def admits_depth(self, depth: int) -> bool:
        return self.max_depth is None or depth <= self.max_depth

    def admits_host(self, host: Host) -> bool:
        """Whether any URL of this host may be visited."""
        name = hostname_of(host)
        if self._excludes(name):
            return False
        if name in self.include_hosts or _under(name, self.include_domains):
            return True
        match self.mode:
            case "web":
                return True
            case "site":
                return site_of(name) in self.sites
            case "host" | "page":
                return name in self.hosts

    # -- redirects of seeds

    def with_seeds(self, urls: Iterable[Url]) -> Scope:
        """Scope derived from these URLs and the seeds together.

        >>> scope = Scope.from_seeds([Url("http://example.org/")], "host")
        >>> scope.with_seeds([Url("https://www.example.org/en/")]).admits(Url("https://www.example.org/de/"))
        True
        """
        urls = frozenset(urls)
        names = frozenset(hostname_of(host_of(url)) for url in urls)
        return msgspec.structs.replace(
            self,
            pages=self.pages | urls if self.mode == "page" else self.pages,
            hosts=self.hosts | names,
            sites=self.sites | {site_of(name) for name in names},
        )

    def follows_redirect(self, target: Url) -> bool:
        """Whether a redirect of a seed, or of a page that a seed redirects to, may lead there."""
        name = hostname_of(host_of(target))
        if not self._excludes(name) and (self.follow_seed_redirects or site_of(name) in self.sites):
            return self._rules_admit(target)
        return self.admits_host(host_of(target)) and self._rules_admit(target)

    @property
    def may_grow(self) -> bool:
        """Whether a redirect of a seed can bring pages into the scope that are linked from elsewhere."""
        return self.mode == "host" or (self.mode == "site" and self.follow_seed_redirects)

    def may_join(self, host: Host) -> bool:
        """Whether a redirect of a seed can bring a host into the scope."""
        name = hostname_of(host)
        if not self.may_grow or self._excludes(name) or self.admits_host(host):
            return False
        return self.follow_seed_redirects or site_of(name) in self.sites

    def scope_name(self, host: Host) -> str:
        """Part of a host name that decides about scope: hosts with the same part join together."""
        return site_of(hostname_of(host)) if self.mode == "site" else hostname_of(host)

    def _excludes(self, name: str) -> bool:
        return name in self.exclude_hosts or _under(name, self.exclude_domains)

    def excluding_setting(self, url: Url) -> str:
        """Setting that excludes a URL at any depth, for messages; "" if none does."""
        name = hostname_of(host_of(url))
        if name in self.exclude_hosts:
            return "scope.exclude_hosts"
        if _under(name, self.exclude_domains):
            return "scope.exclude_domains"
        if not self.admits_host(host_of(url)):
            return "scope.mode"
        if self.mode == "page" and url not in self.pages and not self._is_included(url):
            return "scope.mode"
        if _starts(url, self.exclude_prefixes):
            return "scope.exclude_prefixes"
        if self.prefixes and not _starts(url, self.prefixes):
            return "scope.prefixes"
        if _matches(url, self.exclude_regex):
            return "scope.exclude_regex"
        return "" if self.admits_path(url) else "scope.include_regex"

    @property
    def has_path_rules(self) -> bool:
        """Whether there is any rule that `admits_path` would apply."""
        return self.mode == "page" or bool(
            self.prefixes or self.exclude_prefixes or self.include_regex or self.exclude_regex
        )

    def admits_path(self, url: Url) -> bool:
        """Whether the path rules admit this URL of an admitted host."""
        if self.mode == "page" and url not in self.pages and not self._is_included(url):
            return False
        return self._rules_admit(url)

    def _rules_admit(self, url: Url) -> bool:
        if self.exclude_prefixes and _starts(url, self.exclude_prefixes):
            return False
        if self.prefixes and not _starts(url, self.prefixes):
            return False
        if self.exclude_regex and _matches(url, self.exclude_regex):
            return False
        return not self.include_regex or _matches(url, self.include_regex)

    def _is_included(self, url: Url) -> bool:
        name = hostname_of(host_of(url))
        return name in self.include_hosts or _under(name, self.include_domains)


class ScopeState(msgspec.Struct, frozen=True, array_like=True):
    """Scope of a crawl as stored in a checkpoint."""

    mark: str = ""  # of the scope in the settings
    joined: tuple[Url, ...] = ()  # pages that redirects of seeds led to
    open: bool = False  # a seed, or the target of its redirect, has no outcome yet
    seeds: int = 0  # number of seeds


def _under(name: str, domains: tuple[str, ...]) -> bool:
    return any(name == domain or name.endswith("." + domain) for domain in domains)


def _starts(url: Url, prefixes: tuple[str, ...]) -> bool:
    path = path_of(url)
    return any((path if prefix.startswith("/") else url).startswith(prefix) for prefix in prefixes)


def _matches(url: Url, patterns: tuple[str, ...]) -> bool:
    # Separate expressions instead of alternatives of one: each has its own flags, group names and numbers.
    return any(pattern.search(url) for pattern in _compiled(patterns))


@lru_cache(maxsize=64)
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(map(re.compile, patterns))


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression from a setting; SettingsError if it is invalid."""
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as trouble:
        raise SettingsError(
            f"`{text}` is not a regular expression: {trouble}",
            "escape special characters with a backslash, or use a prefix instead",
        ) from trouble
