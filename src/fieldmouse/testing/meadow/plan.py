"""Hosts of the synthetic web: sizes, names, addresses, places and habits.

All of it is a pure function of the options, computed once at the start and small: a host is one object,
its pages are numbers. Host number 0 is the largest and the first seed. Every host has its root page,
numbered 0, and `size - 1` others, in three ranges: the first `original` pages are linked and have their
own body; the next, up to `linked`, are linked and copy another page's body; the last, up to `size`, are
only in the sitemap.

With several *places*, each host is in a random one, and the last number of a client's address gives its
place: 127.9.0.1 is in the first, 127.9.0.2 in the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from fieldmouse.testing.meadow.addresses import HostAddresses, place_of_host
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.rng import lognormal_quantiles, random_threshold, random_words

#: Pages that a page links to first on its host: few levels, so a large host never runs out of known URLs.
FANOUT = 20

#: Hosts that a root page links to first: 5,000 hosts are two hops from the seed.
HOST_FANOUT = 75

SECTIONS = "news blog guide notes field atlas letters archive garden weather journal library".split()


@dataclass(frozen=True, slots=True, eq=False)
class SiteHabits:
    """Behaviour of a host: its robots.txt rules and its HTTP peculiarities."""

    has_robots: bool
    keeps_private: bool  # robots.txt excludes /private/ and files by wildcard
    names_mice: bool  # robots.txt has a group for fieldmouse with an extra exclusion
    has_trap: bool
    crawl_delay: float  # 0: none
    has_sitemap: bool
    sitemap_indexed: bool  # the sitemap is an index of others
    sitemap_gzipped: bool
    encoding: str  # "gzip", "br", "zstd" or "" for plain
    chunked: bool
    closing: bool  # closes the connection after each answer
    validators: int  # 0: none, 1: Last-Modified, 2: ETag too
    date_lie: str  # Last-Modified is the time of the request ("now"), never moves ("never"), or is true ("")
    busy: bool
    slow: bool
    stalling: bool
    latency: float


@dataclass(slots=True, eq=False)
class Site:
    """One host of the meadow. `number` is its rank by size."""

    number: int
    size: int
    original: int
    linked: int
    authority: str  # as in URLs and the Host header
    address: str
    place: int  # from 1 on; 1 for all hosts if there is only one place
    salt: bytes
    scatter: int  # odd, to scatter words and copies over page numbers
    sections: list[str]
    habits: SiteHabits
    path_start: int  # index in the host's URLs at which the path begins
    pages_before: int  # number of pages of all earlier hosts
    links_to_sites: range  # the hosts that its root page links to first

    @property
    def origin(self) -> str:
        return f"http://{self.authority}"


def host_sizes(pages: int, hosts: int, gamma: float) -> list[int]:
    """Pages per host: proportional to i**-gamma, at least one each, exactly `pages` together.

    >>> host_sizes(10, 4, 1.0)
    [5, 3, 1, 1]
    >>> host_sizes(5, 4, 9.0)
    [2, 1, 1, 1]
    """
    shape = np.arange(1, hosts + 1, dtype=np.float64) ** -gamma
    # bounds of the shape's scale: the largest scale that does not exceed `pages`
    low, high = 0.0, pages / float(shape[-1])
    for _ in range(200):
        scale = (low + high) / 2
        if np.maximum(1, np.floor(scale * shape)).sum() <= pages:
            low = scale
        else:
            high = scale
    counts = np.maximum(1, np.floor(low * shape)).astype(np.int64)
    short = pages - int(counts.sum())
    # The remainder of rounding goes to the hosts that are closest to one more page, largest first among
    # equals.
    order = np.argsort(counts - low * shape, kind="stable")
    for k in range(short):
        counts[order[k % hosts]] += 1
    return [int(n) for n in counts]


class MeadowPlan:
    """All hosts, with lookup by name and by address."""

    def __init__(self, options: MeadowOptions, port: int):
        self.options = options
        self.port = port
        self.addresses = HostAddresses(options.listen)
        spread = lognormal_quantiles(options.latency_spread)
        counts = host_sizes(options.pages, options.hosts, options.gamma)
        firsts = accumulate(counts, initial=0)
        self.sites = [
            self._make_site(k, size, first, spread) for k, (size, first) in enumerate(zip(counts, firsts, strict=False))
        ]
        self.by_authority = {site.authority: site for site in self.sites}
        self.by_address = {site.address: site for site in self.sites}

    def _make_site(self, number: int, size: int, before: int, spread: list[float]) -> Site:
        options = self.options
        habits = _draw_habits(options, number, size, spread)
        address_number = number // options.hosts_per_address
        address = self.addresses[address_number]
        name = f"h{number}.a{address_number}.meadow.test" if options.has_names else address
        hidden = int(size * options.sitemap_only + 0.5) if habits.has_sitemap else 0
        copies = int(size * options.duplicates + 0.5) if size - hidden > 4 else 0
        # Copies must be leaves of the link tree, and the root is always an original.
        copies = min(copies, (size - hidden) // 2)
        hidden = min(hidden, size - 1)
        first = number * HOST_FANOUT + 1
        dice = random_words(options.seed, "twist", number)
        authority = f"{name}:{self.port}" if self.port != 80 else name
        return Site(
            number=number,
            size=size,
            original=size - hidden - copies,
            linked=size - hidden,
            authority=authority,
            address=address,
            place=place_of_host(options.seed, number, options.places),
            salt=b"%d/%d" % (options.seed, number),
            scatter=dice[0] | 1,
            sections=SECTIONS[: min(len(SECTIONS), 1 + size // 20)],
            habits=habits,
            path_start=len(authority) + 7,
            pages_before=before,
            links_to_sites=range(first, min(first + HOST_FANOUT, options.hosts)),
        )

    @cached_property
    def popular_sites(self) -> list[Site]:
        """4,096 random hosts, weighted by size: index it with a random number."""
        bounds = np.cumsum([site.size for site in self.sites])
        rng = np.random.default_rng(self.options.seed)
        picks = np.searchsorted(bounds, rng.integers(0, int(bounds[-1]), 4096), side="right")
        return [self.sites[int(k)] for k in picks]

    def resolve_map(self) -> list[str]:
        """Addresses of the host names in the format of `--resolve`; empty when hosts are address literals."""
        if not self.options.has_names:
            return []
        count = self.options.addresses
        return [f"*.a{k}.meadow.test={self.addresses[k]}:{self.port}" for k in range(count)]


def _draw_habits(options: MeadowOptions, number: int, size: int, spread: list[float]) -> SiteHabits:
    r = random_words(options.seed, "habits", number)
    has_robots = r[0] < random_threshold(options.robots)
    trap = has_robots and r[1] < random_threshold(options.traps)
    # The largest hosts use gzip, the cheapest to serve; otherwise one random number would decide the meadow's
    # speed.
    tongue = 0 if not options.compression else 19 if number < 8 and options.hosts > 8 else r[2] % 20
    return SiteHabits(
        has_robots=has_robots,
        keeps_private=has_robots and r[3] % 2 == 0,
        names_mice=has_robots and r[4] % 4 == 0,
        has_trap=trap,
        crawl_delay=options.crawl_delay if has_robots and r[5] < random_threshold(options.crawl_delay_share) else 0.0,
        has_sitemap=has_robots and r[6] < random_threshold(options.sitemaps),
        sitemap_indexed=r[7] % 2 == 0,
        sitemap_gzipped=r[8] % 2 == 0,
        encoding="" if tongue < 2 else "br" if tongue == 2 else "zstd" if tongue == 3 else "gzip",
        chunked=r[9] % 10 == 0,
        closing=r[10] % 20 == 0,
        validators=2 if r[11] % 5 < 3 else r[11] % 5 - 3,
        date_lie=_draw_date_lie(options, number),
        busy=r[12] < random_threshold(options.busy),
        slow=r[13] < random_threshold(options.slow),
        stalling=r[14] < random_threshold(options.stalling),
        latency=options.latency * spread[r[15] % len(spread)],
    )


def _draw_date_lie(options: MeadowOptions, number: int) -> str:
    lies, kind, *_ = random_words(options.seed, "dates", number)
    return ("now", "never")[kind & 1] if lies < random_threshold(options.date_lies) else ""
