"""Link extraction: hrefs of a page become requests that are in scope and not sent before.

Resolving a hundred hrefs costs more than parsing their page, and most hrefs occur on many pages. So three
bounded caches are kept: processed hrefs (a relative href means the same on every page of a directory, a
rooted one on a whole host, an absolute one everywhere), origins with their scope decision, and keys of
links already sent. A cleared cache only costs time: the sieve of the frontier never forgets.

Plain hrefs are joined by hand, all others by `url.resolve`; a property test proves that both agree.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable

import xxhash
from msgspec.structs import replace

from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.plugins.link_filter import AdmitPlugin
from fieldmouse.policy.scope import detect_trap, is_plain, strip_session_id
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Host, Url, host_of, resolve

CACHED_KEYS = 1 << 18  # keys of sent links that are cached
CACHED_HREFS = 100_000  # processed hrefs that are cached
CACHED_ORIGINS = 50_000
LONGEST_CACHED_HREF = 200  # longer hrefs (in characters) are not cached
MAX_SITEMAP_DEPTH = 3  # levels of nested sitemaps; sitemaps.org allows one index level
FEEDS_PER_HOST = 8  # feeds of one host that a worker requests: a blog has one for each post
LONGEST_HREF = 8192  # longer hrefs (in characters) are ignored

# Characters that the URL parser leaves as they are. A dot is accepted only where it cannot make a dot
# segment, a percent sign only where it cannot hide one.
_STEPS = r"(?:[A-Za-z0-9_\-~!$&()*+,;:=@/]++|\.(?!\.?(?:[/?#]|\Z)|%)|%(?!2[eE])[0-9A-Fa-f]{2}(?!\.))*+"
_TAIL = r"(?:\?[A-Za-z0-9_\-.~!$&()*+,;:=@/?%]*+)?+)(?:#[\x20-\x7e]*+)?\Z"
_absolute = re.compile(rf"(https?://[A-Za-z0-9.\-]+(?::[0-9]+)?)(/{_STEPS}{_TAIL}").match
_rooted = re.compile(rf"(/(?!/){_STEPS}{_TAIL}").match
# The first segment of a relative path has no colon: that would be a scheme.
_FIRST = r"(?![^/?#]*:)[A-Za-z0-9_\-~]"
_relative = re.compile(rf"((?:\.\./)*+)({_FIRST}{_STEPS}{_TAIL}").match

# An href like this means the same on every page of a directory: it has its own path or scheme. White space
# inside could hide that it has neither; `http:x` is relative where the scheme is the same.
is_cacheable = re.compile(r"(?:(?i:https?)://|/|\.|(?!(?i:https?):)[A-Za-z0-9_~\-])[^\t\n\r]*\Z").match
# Prefixes of hrefs that mean the same on every page.
_ANYWHERE = ("http://", "https://", "mailto:", "javascript:", "tel:")

_key = xxhash.xxh3_64_intdigest


class BaseDirectory:
    """The directory that the relative hrefs of a page resolve against."""

    __slots__ = ("directory", "origin", "scheme")

    def __init__(self, base: Url):
        self.origin: str = host_of(base)
        self.scheme = self.origin[: self.origin.index("/")]
        path = base[len(self.origin) :].partition("?")[0]
        self.directory = path[: path.rindex("/") + 1]

    def ancestor(self, steps: int) -> str:
        """Return the directory `steps` levels up, at most the root."""
        if not steps:
            return self.directory
        parts = self.directory.split("/")[:-1]
        return "/".join(parts[: max(1, len(parts) - steps)]) + "/"


def join_plain_href(href: str, ground: BaseDirectory, admits: Callable[[str], str | None]) -> str | None:
    """Return the URL of a plain `href`, "" if its host is out of scope, None if it is not plain.

    `admits` returns an origin in normal form if it is in scope, "" if it is not, and None if it is not an
    origin. Every plain href also satisfies `is_cacheable`.
    """
    if href.startswith("/"):
        if match := _rooted(href):
            return ground.origin + match[1] if admits(ground.origin) else ""
        match = _absolute(ground.scheme + href)
    elif href.startswith("http"):
        match = _absolute(href)
    elif match := _relative(href):
        return ground.origin + ground.ancestor(len(match[1]) // 3) + match[2] if admits(ground.origin) else ""
    if match is None:
        return None
    origin = admits(match[1])
    return origin and origin + match[2]


class LinkExtractor:
    """Filter from the hrefs of pages to the requests that a worker sends to the crawler."""

    def __init__(self, config: PageProcessingConfig, admission: AdmitPlugin | None = None):
        self._scope, self._rules, self._seed = config.scope, config.traps, config.key_seed
        self._is_open, self._is_shared = config.scope_is_open, config.scope_is_shared
        self._may_join: set[str] = set()  # origins out of scope that a seed's redirect may still bring in
        self._held: list[Request] = []
        self._checks_paths = config.scope.has_path_rules
        self._links_per_page = config.links_per_page
        self._admission = admission
        self.dropped_hrefs = 0  # hrefs of the last page that were ignored because it had enough links
        self._sent = array("Q", bytes(8 * CACHED_KEYS))
        self._absolute_hrefs: set[str] = set()  # processed absolute hrefs
        # processed hrefs: rooted ones by origin, relative ones by directory
        self._hrefs_by_ground: dict[str, set[str]] = {}
        self._cached_hrefs = 0
        self._origins: dict[str, str | None] = {}
        self._feeds: dict[str, int] = {}  # feeds sent, by origin

    # -- redirects of seeds

    def add_to_scope(self, joined: Iterable[Url], is_open: bool) -> None:
        """Add pages that seeds redirected to; `is_open` if more seeds may still redirect elsewhere."""
        if not self._is_open or not is_open:  # scope decisions may have changed
            self._origins.clear()
            self._may_join.clear()
        self._scope, self._is_open = self._scope.with_seeds(joined), is_open
        # Hrefs to these hosts were reported as held links already: they stay in the cache.
        self._may_join = {host for host in self._may_join if not self._scope.admits_host(Host(host))}

    def take_held_links(self) -> list[Request]:
        """Return the links of the last page that are held until the scope is known to include them or not."""
        held, self._held = self._held, []
        return held

    def extend_scope_by_redirect(self, page: Request) -> None:
        """Extend the scope by `page` if a seed redirected to it; call this before `new_links_of_page`.

        With a shared scope any page outside of it counts: another agent was redirected to that host.
        """
        may = page.is_from_seed or self._is_shared
        if may and not self._scope.admits(page.url) and self._scope.follows_seed_redirect(page.url):
            self.add_to_scope([page.url], self._is_open)

    # -- links of a page

    def new_links_of_page(self, page: Request, base: Url, hrefs: Iterable[str], now: float) -> list[Request]:
        """Return the links of a page that are in scope, not traps, and not known to be sent before."""
        depth = page.depth + 1
        self.dropped_hrefs = 0
        if not self._scope.admits_depth(depth):
            return []
        ground = BaseDirectory(base)
        if self._cached_hrefs > CACHED_HREFS:
            self._clear_hrefs()
        everywhere, rooted = self._absolute_hrefs, self._get_seen_hrefs(ground.origin)
        relative = self._get_seen_hrefs(ground.origin + ground.directory)
        admits, links = self._admitted_origin, []
        unseen = [href for href in hrefs if href not in rooted and href not in everywhere and href not in relative]
        waiting = iter(unseen)
        for href in waiting:
            url = join_plain_href(href, ground, admits)
            if url is None:
                if href.startswith("#") or len(href) > LONGEST_HREF:
                    continue
                url = resolve(href, base)
                if url is not None and not admits(host_of(url)):
                    url = None
                remembered = is_cacheable(href) is not None
            else:
                remembered = True
            if remembered and len(href) <= LONGEST_CACHED_HREF:
                ours = rooted if href.startswith("/") else relative
                (everywhere if href.startswith(_ANYWHERE) else ours).add(href)
                self._cached_hrefs += 1
            if url and (link := self._admit_link(Url(url), depth, page.url, RequestKind.PAGE, 0, now)) is not None:
                links.append(link)
                if len(links) == self._links_per_page:
                    self.dropped_hrefs = sum(1 for _ in waiting)
        return links

    def _get_seen_hrefs(self, name: str) -> set[str]:
        hrefs = self._hrefs_by_ground.get(name)
        if hrefs is None:
            hrefs = self._hrefs_by_ground[name] = set()
            self._cached_hrefs += 2  # an empty set takes as much memory
        return hrefs

    def _clear_hrefs(self) -> None:
        self._absolute_hrefs.clear()
        self._hrefs_by_ground.clear()
        self._cached_hrefs = 0

    def redirect_link(self, page: Request, target: Url, now: float) -> list[Request]:
        """Return the target of a redirect, with the depth of the redirecting page."""
        if page.is_from_seed:
            if not self._scope.follows_seed_redirect(target):
                return []
        elif not self._admitted_origin(host_of(target)):
            return []
        kind = page.kind if page.kind in (RequestKind.SITEMAP, RequestKind.FEED) else RequestKind.REDIRECT
        link = self._admit_link(target, page.depth, page.url, kind, page.redirects + 1, now, followed=page.is_from_seed)
        return [] if link is None else [replace(link, trail=(*page.trail, page.url))]

    def listed_links(self, page: Request, urls: Iterable[Url], kind: RequestKind, now: float) -> list[Request]:
        """Return the URLs listed by a sitemap or feed.

        Pages have depth 1 if a sitemap lists them, else the depth of their feed plus 1. The depth of a
        sitemap counts the sitemaps above it. It is limited: an index of indexes violates the protocol, and
        one that lists ever new ones would never end.
        """
        depth = 1 if page.kind is RequestKind.SITEMAP and kind is RequestKind.PAGE else page.depth + 1
        if depth > MAX_SITEMAP_DEPTH if kind is RequestKind.SITEMAP else not self._scope.admits_depth(depth):
            return []
        offered = (
            self._admit_link(url, depth, page.url, kind, 0, now) for url in urls if self._admitted_origin(host_of(url))
        )
        return [link for link in offered if link is not None]

    def links_to_feeds(self, page: Request, base: Url, hrefs: Iterable[str], now: float) -> list[Request]:
        """Return the feeds that a page names, the first few of each host."""
        links: list[Request] = []
        if not self._scope.admits_depth(page.depth + 1):
            return links
        if len(self._feeds) >= CACHED_ORIGINS:
            self._feeds.clear()
        for href in hrefs:
            url = resolve(href, base) if len(href) <= LONGEST_HREF else None
            if url is None or not self._admitted_origin(host_of(url)):
                continue
            origin = host_of(url)
            if self._feeds.get(origin, 0) < FEEDS_PER_HOST:
                link = self._admit_link(url, page.depth + 1, page.url, RequestKind.FEED, 0, now)
                if link is not None:
                    self._feeds[origin] = self._feeds.get(origin, 0) + 1
                    links.append(link)
        return links

    def start_page(self, url: str, *, bare: bool = False) -> None:
        """Start a page: its links come next. Its own URL counts as sent."""
        if self._admission is not None:
            self._admission.start_page(bare)
        key = _key(url.encode(), self._seed)
        self._sent[key & (CACHED_KEYS - 1)] = key
        self._held = []

    def _admit_link(
        self, url: Url, depth: int, via: str, kind: RequestKind, redirects: int, now: float, *, followed: bool = False
    ) -> Request | None:
        """Return the link if it is to be sent now; `followed` if the scope was checked already."""
        key = _key(url.encode(), self._seed)
        place = key & (CACHED_KEYS - 1)
        if self._sent[place] == key:
            return None
        self._sent[place] = key
        if not followed and self._checks_paths and not self._scope.admits_path(url):
            return None
        if not is_plain(url, self._rules):
            if self._rules.session_ids:
                url = strip_session_id(url)
            if detect_trap(url, self._rules, now):
                return None
        link = Request(url, depth, via, kind, now, redirects)
        if self._admission is not None and not self._admission.admits(link):
            return None
        if self._may_join and not followed and host_of(url) in self._may_join:
            self._held.append(link)
            return None
        return link

    @property
    def plugin_error(self) -> str:
        """Error of the `admit` plug-in for the links of this page, or ""."""
        return "" if self._admission is None else self._admission.error_text

    def _admitted_origin(self, origin: str) -> str | None:
        """Return the origin in normal form, "" if it is out of scope, None if it is not an origin.

        An origin that may still come into scope is admitted: `_admit_link` holds its links.
        """
        try:
            return self._origins[origin]
        except KeyError:
            pass
        if len(self._origins) >= CACHED_ORIGINS:
            self._origins.clear()
            self._may_join.clear()
        root = resolve(origin + "/")
        verdict = None
        if root is not None:
            host = Host(root[:-1])
            verdict = host if self._scope.admits_host(host) else ""
            if not verdict and self._is_open and self._scope.can_host_join(host):
                self._may_join.add(host)
                verdict = host
        self._origins[origin] = verdict
        return verdict
