"""From hrefs as written to links worth telling the agent of.

Resolving a hundred hrefs costs more than parsing the page they stand on, and
most of them stand on many pages. So three things are remembered, all bounded: the
hrefs dealt with (an href means the same on every page of a directory, a rooted
one on a whole host, an absolute one everywhere), the origins in scope, and the
keys of links already sent. Forgetting only costs time: the sieve behind us never
forgets, and a worker that dies takes its memory with it.

Plain hrefs are put together by hand; a property test holds this against
`url.resolve`, which answers for all others.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable

import xxhash
from msgspec.structs import replace

from fieldmouse.indexer.admission import Admission
from fieldmouse.indexer.wire import IndexerConfig
from fieldmouse.policy.traps import is_plain, trap_of, without_session
from fieldmouse.records import Kind, Link
from fieldmouse.url import Host, Url, host_of, resolve

SENT = 1 << 18  # keys of links remembered as sent
DEALT = 100_000  # hrefs remembered as dealt with
ORIGINS = 50_000
MEMORABLE = 200  # characters of an href beyond which it is not remembered
NESTED = 3  # sitemaps found through each other; sitemaps.org knows an index and no more
FEEDS = 8  # of one host that a worker asks for: a blog has one for each of its posts
LONGEST = 8192  # characters of an href beyond which we do not look at it

# Characters which the URL parser leaves as they are. A dot is taken only where it cannot make a dot
# segment, a percent sign only where it cannot hide one.
_STEPS = r"(?:[A-Za-z0-9_\-~!$&()*+,;:=@/]++|\.(?!\.?(?:[/?#]|\Z)|%)|%(?!2[eE])[0-9A-Fa-f]{2}(?!\.))*+"
_TAIL = r"(?:\?[A-Za-z0-9_\-.~!$&()*+,;:=@/?%]*+)?+)(?:#[\x20-\x7e]*+)?\Z"
_absolute = re.compile(rf"(https?://[A-Za-z0-9.\-]+(?::[0-9]+)?)(/{_STEPS}{_TAIL}").match
_rooted = re.compile(rf"(/(?!/){_STEPS}{_TAIL}").match
# The first step of a relative path holds no colon: that would be a scheme.
_FIRST = r"(?![^/?#]*:)[A-Za-z0-9_\-~]"
_relative = re.compile(rf"((?:\.\./)*+)({_FIRST}{_STEPS}{_TAIL}").match

# An href like this means the same on every page of a directory: it has a path or a scheme of its own.
# White space inside could hide that it has not; `http:x` is relative where the scheme is the same.
lasting = re.compile(r"(?:(?i:https?)://|/|\.|(?!(?i:https?):)[A-Za-z0-9_~\-])[^\t\n\r]*\Z").match
# Lasting hrefs that need no ground at all.
_ANYWHERE = ("http://", "https://", "mailto:", "javascript:", "tel:")

_key = xxhash.xxh3_64_intdigest


class Ground:
    """The directory that the hrefs of a page are relative to."""

    __slots__ = ("directory", "origin", "scheme")

    def __init__(self, base: Url):
        self.origin: str = host_of(base)
        self.scheme = self.origin[: self.origin.index("/")]
        path = base[len(self.origin) :].partition("?")[0]
        self.directory = path[: path.rindex("/") + 1]

    def up(self, steps: int) -> str:
        """The directory so many steps above, never above the root."""
        if not steps:
            return self.directory
        parts = self.directory.split("/")[:-1]
        return "/".join(parts[: max(1, len(parts) - steps)]) + "/"


def join(href: str, ground: Ground, admits: Callable[[str], str | None]) -> str | None:
    """The URL that a plain `href` means, "" if its host is out of scope, None if it is not plain.

    `admits` gives an origin in normal form if it is in scope, "" if it is not, and
    None if it is no origin. Every plain href is a `lasting` one.
    """
    if href.startswith("/"):
        if found := _rooted(href):
            return ground.origin + found[1] if admits(ground.origin) else ""
        found = _absolute(ground.scheme + href)
    elif href.startswith("http"):
        found = _absolute(href)
    elif found := _relative(href):
        return ground.origin + ground.up(len(found[1]) // 3) + found[2] if admits(ground.origin) else ""
    if found is None:
        return None
    origin = admits(found[1])
    return origin and origin + found[2]


class Links:
    """The links a worker has yet to tell of."""

    def __init__(self, config: IndexerConfig, admission: Admission | None = None):
        self._scope, self._rules, self._seed = config.scope, config.traps, config.key_seed
        self._is_open, self._is_shared = config.scope_is_open, config.scope_is_shared
        self._may_join: set[str] = set()  # origins that are out of scope, and may not stay so
        self._held: list[Link] = []
        self._asks_paths = config.scope.asks_paths
        self._most = config.links_per_page
        self._admission = admission
        self.left_out = 0  # hrefs of the page read last that nobody looked at, since it had enough links
        self._sent = array("Q", bytes(8 * SENT))
        self._everywhere: set[str] = set()  # hrefs dealt with: absolute ones,
        self._grounds: dict[str, set[str]] = {}  # rooted ones by origin, relative ones by directory
        self._dealt = 0
        self._origins: dict[str, str | None] = {}
        self._feeds: dict[str, int] = {}  # how many were sent, by origin

    # -- redirects of seeds

    def widen(self, joined: Iterable[Url], is_open: bool) -> None:
        """Redirects of seeds led to these pages; `is_open` if others may lead elsewhere."""
        if not self._is_open or not is_open:  # what is in scope was judged otherwise
            self._origins.clear()
            self._may_join.clear()
        self._scope, self._is_open = self._scope.joined(joined), is_open
        # Hrefs that lead to them were told of as held: those dealt with are dealt with.
        self._may_join = {host for host in self._may_join if not self._scope.admits_host(Host(host))}

    def take_held(self) -> list[Link]:
        """The links of the page read last that are held back until it is known whether they are in scope."""
        held, self._held = self._held, []
        return held

    def reached(self, page: Link) -> None:
        """This is a page, and its links come next: if a seed redirected to it, it belongs to the scope.

        A page on a host that another agent was led to says that the host is in scope.
        """
        may = page.from_seed or self._is_shared
        if may and not self._scope.admits(page.url) and self._scope.follows(page.url):
            self.widen([page.url], self._is_open)

    # -- links of a page

    def find(self, page: Link, base: Url, hrefs: Iterable[str], now: float) -> list[Link]:
        """Links of a page that are in scope, not traps, and not known to have been sent before."""
        depth = page.depth + 1
        self.left_out = 0
        if not self._scope.admits_depth(depth):
            return []
        ground = Ground(base)
        if self._dealt > DEALT:
            self._forget()
        everywhere, rooted = self._everywhere, self._ground(ground.origin)
        beside = self._ground(ground.origin + ground.directory)
        admits, found = self._admits, []
        fresh = [
            href for href in hrefs if href not in rooted and href not in everywhere and href not in beside
        ]
        rest = iter(fresh)
        for href in rest:
            url = join(href, ground, admits)
            if url is None:
                if href.startswith("#") or len(href) > LONGEST:
                    continue
                url = resolve(href, base)
                if url is not None and not admits(host_of(url)):
                    url = None
                remembered = lasting(href) is not None
            else:
                remembered = True
            if remembered and len(href) <= MEMORABLE:
                ours = rooted if href.startswith("/") else beside
                (everywhere if href.startswith(_ANYWHERE) else ours).add(href)
                self._dealt += 1
            if url and (link := self._offer(Url(url), depth, page.url, Kind.PAGE, 0, now)) is not None:
                found.append(link)
                if len(found) == self._most:
                    self.left_out = sum(1 for _ in rest)
        return found

    def _ground(self, name: str) -> set[str]:
        dealt = self._grounds.get(name)
        if dealt is None:
            dealt = self._grounds[name] = set()
            self._dealt += 2  # an empty set takes as much room
        return dealt

    def _forget(self) -> None:
        self._everywhere.clear()
        self._grounds.clear()
        self._dealt = 0

    def follow(self, page: Link, target: Url, now: float) -> list[Link]:
        """Where a redirect leads: as deep as the page that sent us there."""
        if page.from_seed:
            if not self._scope.follows(target):
                return []
        elif not self._admits(host_of(target)):
            return []
        kind = page.kind if page.kind in (Kind.SITEMAP, Kind.FEED) else Kind.REDIRECT
        link = self._offer(
            target, page.depth, page.url, kind, page.redirects + 1, now, followed=page.from_seed
        )
        return [] if link is None else [replace(link, trail=(*page.trail, page.url))]

    def listed(self, page: Link, urls: Iterable[Url], kind: Kind, now: float) -> list[Link]:
        """URLs that a sitemap or feed names.

        Pages are one link away from their feed, or from the host that named the sitemap. The depth of a
        sitemap says how many others it was found through. An index of indexes is against the rules
        already, and one that names ever new ones would never end.
        """
        depth = 1 if page.kind is Kind.SITEMAP and kind is Kind.PAGE else page.depth + 1
        if depth > NESTED if kind is Kind.SITEMAP else not self._scope.admits_depth(depth):
            return []
        found = []
        for url in urls:
            if self._admits(host_of(url)):
                link = self._offer(url, depth, page.url, kind, 0, now)
                if link is not None:
                    found.append(link)
        return found

    def feeds(self, page: Link, base: Url, hrefs: Iterable[str], now: float) -> list[Link]:
        """The feeds that a page names, the first few of each host."""
        found: list[Link] = []
        if not self._scope.admits_depth(page.depth + 1):
            return found
        if len(self._feeds) >= ORIGINS:
            self._feeds.clear()
        for href in hrefs:
            url = resolve(href, base) if len(href) <= LONGEST else None
            if url is None or not self._admits(host_of(url)):
                continue
            origin = host_of(url)
            if self._feeds.get(origin, 0) < FEEDS:
                link = self._offer(url, page.depth + 1, page.url, Kind.FEED, 0, now)
                if link is not None:
                    self._feeds[origin] = self._feeds.get(origin, 0) + 1
                    found.append(link)
        return found

    def begin(self, url: str, *, bare: bool = False) -> None:
        """The links of this page come next. The agent knows its URL: it sent us the page."""
        if self._admission is not None:
            self._admission.begin(bare)
        key = _key(url.encode(), self._seed)
        self._sent[key & (SENT - 1)] = key
        self._held = []

    def _offer(
        self,
        url: Url,
        depth: int,
        via: str,
        kind: Kind,
        redirects: int,
        now: float,
        *,
        followed: bool = False,
    ) -> Link | None:
        """The link, if it is to be sent now; `followed` if the scope has been asked."""
        key = _key(url.encode(), self._seed)
        place = key & (SENT - 1)
        if self._sent[place] == key:
            return None
        self._sent[place] = key
        if not followed and self._asks_paths and not self._scope.admits_path(url):
            return None
        if not is_plain(url, self._rules):
            if self._rules.session_ids:
                url = without_session(url)
            if trap_of(url, self._rules, now):
                return None
        link = Link(url, depth, via, kind, now, redirects)
        if self._admission is not None and not self._admission.wants(link):
            return None
        if self._may_join and not followed and host_of(url) in self._may_join:
            self._held.append(link)
            return None
        return link

    @property
    def complaint(self) -> str:
        """What `admit` did wrong with the links of this page."""
        return "" if self._admission is None else self._admission.complaint

    def _admits(self, origin: str) -> str | None:
        """The origin in normal form, "" if it is out of scope, None if it is no origin.

        One that may come into scope is taken for now: `_offer` holds its links back.
        """
        try:
            return self._origins[origin]
        except KeyError:
            pass
        if len(self._origins) >= ORIGINS:
            self._origins.clear()
            self._may_join.clear()
        root = resolve(origin + "/")
        verdict = None
        if root is not None:
            host = Host(root[:-1])
            verdict = host if self._scope.admits_host(host) else ""
            if not verdict and self._is_open and self._scope.may_join(host):
                self._may_join.add(host)
                verdict = host
        self._origins[origin] = verdict
        return verdict
