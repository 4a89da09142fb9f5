"""Options of a meadow: one frozen value that determines the whole synthetic web.

Shares are between 0 and 1. Durations are seconds. The defaults make a varied but finite and fast meadow:
unless requested, nothing in it is slow, stalls or is infinite.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from fieldmouse.errors import UsageError
from fieldmouse.testing.meadow.addresses import LOOPBACK, HostAddresses


class MeadowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a meadow. `pages` counts exactly the allowed HTML pages with status 200."""

    hosts: int = 1000
    pages: int = 20_000
    gamma: float = 1.0  # host i's share of the pages is proportional to i**-gamma
    seed: int = 7
    port: int = 8000  # 0: the system picks one
    seeds: int = 3  # number of seed URLs printed; each of them reaches all pages
    truth: Path | None = None
    arrivals: Path | None = None
    changes: Path | None = None
    processes: int = 1
    follow_parent: bool = False  # exit when the parent process exits

    # addresses of hosts
    listen: str = LOOPBACK  # network of the hosts' addresses
    named: bool = False  # DNS names, distinguished by the Host header, instead of address literals
    hosts_per_address: int = 1  # more than 1 implies `named`

    # look of pages
    page_kb: float = 30.0  # mean size of a page's HTML, in KiB
    links: int = 100  # mean number of links on a page
    duplicates: float = 0.02  # share of pages with the same body as another page
    noindex: float = 0.0
    compression: bool = True  # hosts differ in the encoding they offer: gzip, br, zstd or none
    changing: float = 0.3  # share of pages that ever change
    change_every: float = 86_400.0  # typical time between two changes of a changing page
    # spread of the change rates with that as median; None: 1, with that as mean
    change_sigma: float | None = None
    rewriting: bool = False  # a change rewrites a paragraph, not only the revision number
    noise: float = 0.0  # share of pages with a counter, a date or a token that differs at every fetch

    # pages that appear, vanish or move; times count from `began`
    appearing: float = 0.0  # share of changing pages that link to a new page after their first change
    vanishing: float = 0.0  # share of leaf pages that vanish; half of them come back
    moving: float = 0.0  # share of leaf pages that move to another path of their host
    staying: float = 86_400.0  # mean time before they do, and before they return
    began: float = 0.0  # epoch seconds; a server uses its start time
    stands_at: float = 0.0  # fixed time in epoch seconds at which all pages are shown; 0: the current time

    # rules and sitemaps of hosts
    robots: float = 0.7  # share of hosts with a robots.txt; the others answer 404
    crawl_delay_share: float = 0.0  # share of those with a Crawl-delay
    crawl_delay: float = 1.0
    sitemaps: float = 0.3  # share of these hosts with a sitemap
    sitemap_only: float = 0.02  # share of such a host's pages that are only in the sitemap
    sitemap_lies: float = 0.0  # share of these hosts whose lastmod is always today, or never changes
    date_lies: float = 0.0  # share of all hosts whose Last-Modified is the time of the request, or never changes
    private: float = 0.02  # share of pages with a link that robots.txt excludes
    nofollow: float = 0.01  # share of pages with a nofollow link

    # errors
    redirects: float = 0.02  # share of pages with a link that redirects
    not_found: float = 0.01  # share of pages with a dead link
    server_error: float = 0.005  # share of pages that answer 500 to the first request only
    broken: float = 0.001  # share of pages with a link that always answers 500
    busy: float = 0.01  # share of hosts that answer 429 to the first page request
    busy_seconds: int = 1  # their Retry-After
    traps: float = 0.05  # share of hosts with an infinite calendar and session ids in links
    open_traps: bool = False  # robots.txt does not exclude the traps: the meadow becomes infinite

    # timing
    latency: float = 0.0  # mean over all requests
    latency_spread: float = 0.5  # sigma of the lognormal from which each host's mean is drawn
    places: int = 1  # if more than 1, hosts and clients have a place, and distance adds delay
    near: float = 0.005  # extra delay of each answer within a place
    far: float = 0.08  # extra delay of each answer between two places
    slow: float = 0.0  # share of hosts that drip their bodies
    slow_seconds: float = 10.0  # for one body
    stalling: float = 0.0  # share of hosts on which some leaf pages never answer

    def __post_init__(self) -> None:
        if self.hosts < 1:
            raise UsageError("a meadow has at least one host", "say `--hosts 1` or more")
        if self.pages < self.hosts:
            raise UsageError(
                f"{self.pages} pages are too few for {self.hosts} hosts: each has at least one",
                f"say `--pages {self.hosts}` or more, or fewer hosts",
            )
        if self.hosts_per_address < 1 or self.processes < 1 or self.places < 1:
            raise UsageError("hosts per address, processes and places are at least 1")
        room = len(HostAddresses(self.listen))
        if self.addresses > room:
            raise UsageError(
                f"`{self.listen}` has {room:,} addresses for hosts, and {self.addresses:,} are needed",
                "widen `--listen`, or say `--hosts-per-address 10`",
            )
        if self.change_every <= 0.0 or self.staying <= 0.0:
            raise UsageError("pages change and go after some time", "say `--change-every 10s` or more")
        if self.change_sigma is not None and not 0.0 <= self.change_sigma <= 4.0:
            raise UsageError(
                f"rates cannot be spread by {self.change_sigma:g}", "say `--change-sigma 2`; it is 4 at most"
            )
        for name in _SHARES:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UsageError(f"`{name}` is {getattr(self, name)}; a share lies between 0 and 1")

    @property
    def has_names(self) -> bool:
        return self.named or self.hosts_per_address > 1

    @property
    def addresses(self) -> int:
        """Number of addresses the hosts use."""
        return -(-self.hosts // self.hosts_per_address)


_SHARES = (
    "duplicates noindex changing robots crawl_delay_share sitemaps sitemap_only private nofollow redirects "
    "not_found server_error broken busy traps slow stalling noise appearing vanishing moving sitemap_lies "
    "date_lies"
).split()

#: Options of a meadow without errors, exclusions, sitemaps and copies.
CALM: dict[str, Any] = dict.fromkeys(
    "duplicates robots sitemaps private nofollow redirects not_found server_error broken busy traps".split(), 0.0
)
