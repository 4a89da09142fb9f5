"""List of all settings: section, name, type, default and purpose.

Durations are read into seconds, sizes into bytes, speeds into bytes per second. The text of each setting
is
written into every new `fieldmouse.toml` and compared with `docs/settings.md` by a test.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fieldmouse import __version__
from fieldmouse.named import NAME
from fieldmouse.policy.distribution import POLICIES
from fieldmouse.settings import kinds
from fieldmouse.settings.kinds import About

_PRODUCT = f"fieldmouse/{'.'.join(__version__.split('.')[:2])}"

_product = kinds.shaped(r"[A-Za-z_-]+(/[!-~]+( [ -~]+)?)?", 'a name and version, such as "fieldmouse/0.1"')
_contact = kinds.shaped(r"[!-~]*", "a mail address or a web page about your crawl")


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of `fieldmouse.toml`."""


class CrawlSection(Section, frozen=True):
    """Seeds and limits of the crawl, and the name it crawls under."""

    seeds: Annotated[
        tuple[str, ...], About(kinds.SEEDS, "URLs to start from; URLs added later are visited too")
    ] = ()
    contact: Annotated[str, About(_contact, "your mail address or web page; sent with every request")] = ""
    product: Annotated[str, About(_product, "name of the crawler in requests and in robots.txt")] = _PRODUCT
    pages: Annotated[int, About(kinds.COUNT, "stop after this number of pages; 0 for no limit")] = 0
    time: Annotated[float, About(kinds.DURATION, "stop after this time; 0s for no limit")] = 0.0
    max_depth: Annotated[
        int | None,
        About(kinds.COUNT_OR_NONE, 'most links away from a seed; 0 for the seeds only, "none" for no limit'),
    ] = None

    @property
    def user_agent(self) -> str:
        """Value of the User-Agent header.

        >>> CrawlSection(contact="you@example.org", product="fieldmouse/0.1").user_agent
        'fieldmouse/0.1 (+you@example.org)'
        """
        return f"{self.product} (+{self.contact})" if self.contact else self.product


class ScopeSection(Section, frozen=True):
    """URLs that belong to the crawl. Exclusion beats inclusion."""

    mode: Annotated[
        str,
        About(
            kinds.one_of("page", "host", "site", "web"),
            "the seeds, their hosts, their registered domains (all of loopback is one site), or everything",
        ),
    ] = "site"
    follow_seed_redirects: Annotated[
        bool,
        About(kinds.FLAG, "a seed that redirects to another registered domain takes the crawl there"),
    ] = False
    include_hosts: Annotated[tuple[str, ...], About(kinds.TEXTS, "more host names to crawl")] = ()
    exclude_hosts: Annotated[tuple[str, ...], About(kinds.TEXTS, "host names never to crawl")] = ()
    include_domains: Annotated[
        tuple[str, ...], About(kinds.TEXTS, "more domains to crawl, with all their subdomains")
    ] = ()
    exclude_domains: Annotated[tuple[str, ...], About(kinds.TEXTS, "domains never to crawl")] = ()
    prefixes: Annotated[
        tuple[str, ...],
        About(kinds.TEXTS, "if any, only URLs that begin with one of these; one with a leading / is a path"),
    ] = ()
    exclude_prefixes: Annotated[
        tuple[str, ...], About(kinds.TEXTS, "leave out URLs that begin with one of these")
    ] = ()
    include_regex: Annotated[
        tuple[str, ...], About(kinds.REGEXES, "if any, only URLs that match one of these")
    ] = ()
    exclude_regex: Annotated[
        tuple[str, ...], About(kinds.REGEXES, "leave out URLs that match one of these")
    ] = ()


class PolitenessSection(Section, frozen=True):
    """Delays and back-off between requests."""

    delay: Annotated[float, About(kinds.INTERVAL, "time between two requests to one host")] = 1.0
    address_delay: Annotated[
        float | None,
        About(kinds.INTERVAL_OR_SAME, 'time between two requests to one address; "same" as delay'),
    ] = None
    obey_robots_txt: Annotated[
        bool,
        About(kinds.FLAG, "fetch and obey robots.txt (RFC 9309); turn off only for your own servers"),
    ] = True
    crawl_delay_cap: Annotated[
        float, About(kinds.DURATION, "longest Crawl-delay of a robots.txt; a longer one is cut to this")
    ] = 300.0
    retry_after_cap: Annotated[
        float, About(kinds.DURATION, "longest Retry-After of a server; a longer one is cut to this")
    ] = 86400.0
    backoff: Annotated[
        float, About(kinds.DURATION, "first pause after a host fails; doubles with each failure in a row")
    ] = 2.0
    backoff_cap: Annotated[float, About(kinds.DURATION, "longest pause after a host fails")] = 900.0
    patience: Annotated[
        float,
        About(kinds.NUMBER, "scales the waits between retries of a URL; 0 retries at once"),
    ] = 1.0

    @property
    def per_address(self) -> float:
        """Delay of an address: its own, or the same as a host's."""
        return self.delay if self.address_delay is None else self.address_delay


class FetchSection(Section, frozen=True):
    """Concurrent fetches and connections."""

    concurrency: Annotated[
        int, About(kinds.POSITIVE, "fetches at the same time, each to a different address")
    ] = 128
    urls_per_visit: Annotated[int, About(kinds.POSITIVE, "most URLs fetched in one visit to a host")] = 16
    keep_alive: Annotated[
        float, About(kinds.DURATION, "how long an idle connection is kept for the next request")
    ] = 5.0


class LimitsSection(Section, frozen=True):
    """Limits on one server, one page or one URL."""

    body: Annotated[int, About(kinds.SIZE, "longest body as sent; longer ones are truncated")] = 16 << 20
    decoded: Annotated[int, About(kinds.SIZE, "longest body after decompression")] = 64 << 20
    ratio: Annotated[int, About(kinds.POSITIVE, "most times its size that a body may decompress to")] = 200
    headers: Annotated[int, About(kinds.SIZE, "longest response head")] = 64 << 10
    connect: Annotated[float, About(kinds.DURATION, "time to connect, TLS included")] = 10.0
    first_byte: Annotated[float, About(kinds.DURATION, "time until the first byte of the response")] = 20.0
    total: Annotated[float, About(kinds.DURATION, "time for a whole response")] = 120.0
    idle: Annotated[float, About(kinds.DURATION, "longest silence within a response")] = 20.0
    min_speed: Annotated[float, About(kinds.SPEED, "lowest average speed of a response; 0 for any")] = 100.0
    grace: Annotated[float, About(kinds.DURATION, "how long a response may be slower than that")] = 20.0
    redirects: Annotated[int, About(kinds.COUNT, "redirects followed in a row")] = 10
    url_length: Annotated[int, About(kinds.POSITIVE, "longest URL, in characters")] = 2000
    pages_per_host: Annotated[int, About(kinds.COUNT, "pages stored from one host; 0 for no limit")] = 0
    links_per_page: Annotated[
        int, About(kinds.COUNT, "links taken from one page, sitemaps aside; 0 for no limit")
    ] = 100_000
    hosts_per_site: Annotated[
        int, About(kinds.COUNT, "hosts of one registered domain; new ones beyond are dropped; 0 for no limit")
    ] = 100_000
    urls_per_site: Annotated[
        int, About(kinds.COUNT, "URLs of one registered domain; new ones beyond are dropped; 0 for no limit")
    ] = 100_000_000
    robots_txt: Annotated[int, About(kinds.SIZE, "most bytes read of a robots.txt")] = 500 << 10
    traps: Annotated[bool, About(kinds.FLAG, "leave out URLs that look like endless calendars and mazes")] = (
        True
    )


class NetworkSection(Section, frozen=True):
    """Addresses, DNS, TLS and headers of requests."""

    allow_private: Annotated[
        bool,
        About(kinds.FLAG, "also visit loopback, private and link-local addresses; metadata services never"),
    ] = False
    resolve: Annotated[
        tuple[str, ...], About(kinds.RESOLVE, "addresses (and ports) of host names, used instead of DNS")
    ] = ()
    nameservers: Annotated[
        tuple[str, ...], About(kinds.NAMESERVERS, "DNS servers; none for those of the system")
    ] = ()
    source: Annotated[str, About(kinds.SOURCE, "local address of connections; none for any")] = ""
    tls_verify: Annotated[bool, About(kinds.FLAG, "check certificates")] = True
    ca_file: Annotated[str, About(kinds.TEXT, "file with more certificates to trust")] = ""
    headers: Annotated[dict[str, str], About(kinds.HEADERS, "more header lines for every request")] = {}


class FrontierSection(Section, frozen=True):
    """Order of URLs, and the memory of the frontier."""

    policy: Annotated[
        str,
        About(
            kinds.named(POLICIES, NAME.pattern, "package.module:Class"),
            "how hosts are chosen for the front (see docs/tour.md)",
        ),
    ] = "index"
    delta: Annotated[
        int, About(kinds.POSITIVE, "mice-and-elephants: a host with more URLs online is an elephant")
    ] = 5
    front_min: Annotated[int, About(kinds.POSITIVE, "fewest hosts kept ready to be visited")] = 64
    front_max: Annotated[int, About(kinds.POSITIVE, "most hosts kept ready to be visited")] = 4096
    sieve_run: Annotated[
        int,
        About(kinds.POSITIVE, "URL hashes kept in memory until they are sorted into a file; 8 bytes each"),
    ] = 1_000_000
    record_decisions: Annotated[
        int, About(kinds.SIZE, "most bytes of decisions.log, which `lab replay` reads; 0B for none")
    ] = 64 << 20


class BufferSection(Section, frozen=True):
    """Pages fetched and not yet taken by the indexer."""

    pages: Annotated[int, About(kinds.POSITIVE, "most pages in the buffer")] = 256
    bytes: Annotated[int, About(kinds.SIZE, "most bytes in the buffer")] = 64 << 20
    when_full: Annotated[
        str,
        About(
            kinds.one_of("auto", "wait", "lose"),
            'fetches wait, or the page is dropped and fetched again; "auto" waits if control is fixed',
        ),
    ] = "auto"
    obsolete_after: Annotated[
        float | None,
        About(kinds.DURATION_OR_NEVER, "fetch a page again that waited longer in the buffer"),
    ] = None
