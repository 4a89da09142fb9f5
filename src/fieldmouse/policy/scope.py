"""Scope of a crawl: the URLs it may visit, crawler traps, and limits per site.

A scope is derived from the seeds: their pages, their hosts, their sites (the registered domains) or the
whole web, widened by include rules and narrowed by exclude rules. Exclusion wins. A redirect's target
must pass like any link.

A host is its name: scheme and port do not matter, so a site that moved to https is still the same host.

Seeds redirect: `http://example.org/` leads to `https://www.example.org/`. The redirects of a seed are
followed within the registered domains of the seeds (with `follow_seed_redirects`, anywhere), and the page
at the end counts as a seed, too (`joined`). Exclude rules still apply.

The decision has two parts: a host is judged by its name alone, so a caller may cache the answer per host;
path rules, if there are any, are checked per URL.

The owner of a domain owns any number of names under it, and can put them into pages faster than a crawler
can visit them. So hosts and URLs are counted by *site*, the registered domain, which costs money and has
an owner. The limits are far above the sizes of real sites; docs/settings.md says why.

Exempt are addresses, which cannot be invented by the million, and names under `.test` and `localhost`,
which exist only where they were set up on purpose.

Endless calendars, paths that repeat because of a broken relative link, session ids that give every visit
its own URLs. Each check is cheap and looks at the URL alone; each has a name, so that a refusal can be
explained. A trap that shows none of these signs is limited by depth and by pages per host.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Literal

import msgspec

from fieldmouse.errors import SettingsError
from fieldmouse.url import LOOPBACK, Host, Url, host_of, hostname_of, path_of, site_of

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
        if self._excludes_name(name):
            return False
        if name in self.include_hosts or _is_under_domain(name, self.include_domains):
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

    def follows_seed_redirect(self, target: Url) -> bool:
        """Whether a redirect of a seed, or of a page that a seed redirects to, may lead there."""
        name = hostname_of(host_of(target))
        if not self._excludes_name(name) and (self.follow_seed_redirects or site_of(name) in self.sites):
            return self._rules_admit(target)
        return self.admits_host(host_of(target)) and self._rules_admit(target)

    @property
    def can_grow(self) -> bool:
        """Whether a redirect of a seed can bring pages into the scope that are linked from elsewhere."""
        return self.mode == "host" or (self.mode == "site" and self.follow_seed_redirects)

    def can_host_join(self, host: Host) -> bool:
        """Whether a redirect of a seed can bring a host into the scope."""
        name = hostname_of(host)
        if not self.can_grow or self._excludes_name(name) or self.admits_host(host):
            return False
        return self.follow_seed_redirects or site_of(name) in self.sites

    def scope_key(self, host: Host) -> str:
        """Part of a host name that decides about scope: hosts with the same part join together."""
        return site_of(hostname_of(host)) if self.mode == "site" else hostname_of(host)

    def _excludes_name(self, name: str) -> bool:
        return name in self.exclude_hosts or _is_under_domain(name, self.exclude_domains)

    def excluding_setting(self, url: Url) -> str:
        """Setting that excludes a URL at any depth, for messages; "" if none does."""
        name = hostname_of(host_of(url))
        if name in self.exclude_hosts:
            return "scope.exclude_hosts"
        if _is_under_domain(name, self.exclude_domains):
            return "scope.exclude_domains"
        if not self.admits_host(host_of(url)):
            return "scope.mode"
        if self.mode == "page" and url not in self.pages and not self._is_included(url):
            return "scope.mode"
        if _starts_with_any(url, self.exclude_prefixes):
            return "scope.exclude_prefixes"
        if self.prefixes and not _starts_with_any(url, self.prefixes):
            return "scope.prefixes"
        if _matches_any(url, self.exclude_regex):
            return "scope.exclude_regex"
        return "" if self.admits_path(url) else "scope.include_regex"

    def excluding_entry(self, url: Url) -> str:
        """First entry of an exclude rule that matches a URL, for messages; "" if none does."""
        name = hostname_of(host_of(url))
        matching = [name] if name in self.exclude_hosts else []
        matching += [entry for entry in self.exclude_domains if _is_under_domain(name, (entry,))]
        matching += [entry for entry in self.exclude_prefixes if _starts_with_any(url, (entry,))]
        matching += [entry for entry in self.exclude_regex if _matches_any(url, (entry,))]
        return matching[0] if matching else ""

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
        if self.exclude_prefixes and _starts_with_any(url, self.exclude_prefixes):
            return False
        if self.prefixes and not _starts_with_any(url, self.prefixes):
            return False
        if self.exclude_regex and _matches_any(url, self.exclude_regex):
            return False
        return not self.include_regex or _matches_any(url, self.include_regex)

    def _is_included(self, url: Url) -> bool:
        name = hostname_of(host_of(url))
        return name in self.include_hosts or _is_under_domain(name, self.include_domains)


class SavedScope(msgspec.Struct, frozen=True, array_like=True):
    """Scope of a crawl as stored in a checkpoint."""

    mark: str = ""  # of the scope in the settings
    joined: tuple[Url, ...] = ()  # pages that redirects of seeds led to
    open: bool = False  # a seed, or the target of its redirect, has no outcome yet
    seeds: int = 0  # number of seeds


def _is_under_domain(name: str, domains: tuple[str, ...]) -> bool:
    return any(name == domain or name.endswith("." + domain) for domain in domains)


def _starts_with_any(url: Url, prefixes: tuple[str, ...]) -> bool:
    path = path_of(url)
    return any((path if prefix.startswith("/") else url).startswith(prefix) for prefix in prefixes)


def _matches_any(url: Url, patterns: tuple[str, ...]) -> bool:
    # Separate expressions instead of alternatives of one: each has its own flags, group names and numbers.
    return any(pattern.search(url) for pattern in _compiled_patterns(patterns))


@lru_cache(maxsize=64)
def _compiled_patterns(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(map(re.compile, patterns))


def compile_pattern(
    text: str, hint: str = "escape special characters with a backslash, or use a prefix instead"
) -> re.Pattern[str]:
    """Compile a regular expression from a setting; SettingsError if it is invalid."""
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as trouble:
        raise SettingsError(f"`{text}` is not a regular expression: {trouble}", hint) from trouble


class ExceededLimit(Enum):
    """Reasons for dropping a link. The values are shown to users and name the setting."""

    LINKS = "limits.links_per_page"
    HOSTS = "limits.hosts_per_site"
    URLS = "limits.urls_per_site"


@dataclass(frozen=True, slots=True)
class SiteLimits:
    """Limits per site; 0 means no limit."""

    hosts: int = 0
    urls: int = 0

    def remaining_urls(self, hosts: int, urls: int, *, new_host: bool) -> int | None:
        """Number of further URLs to accept for a host, given the counts of its site; None: no limit.

        >>> full = SiteLimits(hosts=2)
        >>> full.remaining_urls(2, 40, new_host=True), full.remaining_urls(2, 40, new_host=False)
        (0, None)
        >>> SiteLimits(urls=50).remaining_urls(2, 40, new_host=True)
        10
        """
        if new_host and self.hosts and hosts >= self.hosts:
            return 0
        return max(0, self.urls - urls) if self.urls else None

    def drop_reason(self, hosts: int, urls: int, *, new_host: bool) -> ExceededLimit | None:
        """Rule that drops the next URL, if any."""
        if self.remaining_urls(hosts, urls, new_host=new_host) != 0:
            return None
        return ExceededLimit.HOSTS if new_host and self.hosts and hosts >= self.hosts else ExceededLimit.URLS


def site_for_limits(host: Host) -> str:
    """Site whose limits apply to a host, or "" if it is exempt.

    >>> site_for_limits(Host("https://a.b.example.co.uk:81")), site_for_limits(Host("http://93.184.216.34"))
    ('example.co.uk', '')
    >>> site_for_limits(Host("http://mouse.test")), site_for_limits(Host("http://a.localhost"))
    ('', '')
    """
    name = hostname_of(host).rstrip(".")
    if name.endswith(".test") or name == "test" or ":" in name:
        return ""
    site = site_of(name)
    # A name whose last part is a number is an address.
    return "" if site == LOOPBACK or site.rpartition(".")[2].isdigit() else site


SECONDS_PER_YEAR = 31_556_952.0


class TrapRules(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for URLs; 0 (or False) turns a check off."""

    url_length: int = 2000
    segments: int = 20  # path segments
    repeats: int = 4  # repetitions of one segment
    parameters: int = 20
    session_ids: bool = True
    years_ahead: int = 2  # years from now beyond which a calendar page is a trap
    years_back: int = 150


NO_TRAP_RULES = TrapRules(url_length=0, segments=0, repeats=0, parameters=0, session_ids=False, years_ahead=0)

# Most URLs are short, with few segments, no parameters and no long number. They need no closer look.
_PLAIN = re.compile(r"https?://[^/?;]{1,80}(?:/(?!(?:19|2\d)\d\d/)[^/?;]{0,60}){1,3}").fullmatch

_SESSION = re.compile(
    r"(?i)(?:[;?&](?:jsessionid|phpsessid|aspsessionid\w*|cftoken|zenid|oscsid)=[^&;?/]*"
    r"|[;?&](?:s|sid|sess|session|sessionid|session_id)=(?=[^&;?/]*\d)[0-9a-z]{16,}(?![^&;?/]))"
)
_CALENDAR = re.compile(
    r"(?i)/(\d{4})[/-](?:0?[1-9]|1[0-2])(?=[/.?-]|$)"
    r"|[?&;](?:y|yr|year|date|day|month|week|cal|calendar|from|start|d|m)=(\d{4})(?=[-/&;]|$)"
)


def is_plain(url: Url, rules: TrapRules) -> bool:
    """Whether a quick check shows that the URL is no trap and has no session id.

    >>> is_plain(Url("http://example.org/news/today.html"), TrapRules())
    True
    """
    return _PLAIN(url) is not None and len(url) <= (rules.url_length or len(url))


def detect_trap(url: Url, rules: TrapRules, now: float) -> str | None:
    """Sign of a trap in this URL, in words, or None. `now` is epoch seconds.

    >>> detect_trap(Url("http://example.org/a/b/a/b/a/b/a/b/"), TrapRules(), now=0.0)
    'the path repeats itself'
    """
    if is_plain(url, rules):
        return None
    if rules.url_length and len(url) > rules.url_length:
        return "the URL is too long"
    path, _, query = url[url.index("/", 8) :].partition("?")
    steps = [step for step in path.split("/") if step]
    if rules.segments and len(steps) > rules.segments:
        return "the path is too deep"
    if rules.repeats and len(steps) >= rules.repeats and _has_repeats(steps, rules.repeats):
        return "the path repeats itself"
    if query and rules.parameters and query.count("&") + query.count(";") >= rules.parameters:
        return "too many parameters"
    if rules.session_ids and _SESSION.search(url):
        return "a session id"
    if rules.years_ahead and (found := _CALENDAR.search(url, 8)):
        year = int(found[1] or found[2])
        this = 1970 + int(now // SECONDS_PER_YEAR)
        # Four digits that were never a year, or will not be soon, are some other number. An endless
        # calendar is left at its near edge, so its far pages are not missed.
        if 1583 <= year < 2200 and not this - rules.years_back <= year <= this + rules.years_ahead:
            return "a calendar page far from today"
    return None


def _has_repeats(steps: list[str], times: int) -> bool:
    # A cycle of several segments shows in the count of each of them.
    return Counter(steps).most_common(1)[0][1] >= times


def strip_session_id(url: Url) -> Url:
    """URL without its session ids.

    >>> strip_session_id(Url("http://example.org/a;jsessionid=12AB?x=1"))
    'http://example.org/a?x=1'
    """
    if not _SESSION.search(url):
        return url
    bare = _SESSION.sub(lambda found: "?" if found[0].startswith("?") else "", url)
    bare = bare.replace("?&", "?")
    return Url(bare[:-1] if bare.endswith("?") else bare)


class SharedScopeAdditions:
    """Pages added to the scope (redirects of seeds): URLs to publish, and URLs received from other agents.

    An agent publishes a page before it acknowledges the page's outcome. So an agent that learns that no
    URL waits has already received all added pages.
    """

    def __init__(self) -> None:
        self.unpublished: list[Url] = []
        self._known: dict[Url, None] = {}  # published or received, in order
        self._received: list[Url] = []

    def __len__(self) -> int:
        """Number of pages that the coordinator has, as far as this agent can tell."""
        return len(self._known) - len(self.unpublished)

    def publish(self, urls: Iterable[Url]) -> None:
        """Send these to the other agents, each once."""
        fresh = [url for url in dict.fromkeys(urls) if url not in self._known]
        self.unpublished += fresh
        self._known.update(dict.fromkeys(fresh))

    def mark_published(self, urls: Iterable[Url]) -> None:
        gone = set(urls)
        self.unpublished = [url for url in self.unpublished if url not in gone]

    def publish_again(self) -> None:
        """Publish all again: a restarted server may have lost the last ones."""
        self.unpublished = list(self._known)

    def receive(self, urls: Iterable[Url]) -> None:
        fresh = [url for url in dict.fromkeys(urls) if url not in self._known]
        self._known.update(dict.fromkeys(fresh))
        self._received += fresh

    def take_received(self) -> list[Url]:
        """URLs received since the last call."""
        received, self._received = self._received, []
        return received
