"""List of all settings: section, name, type, default and purpose.

Durations are read into seconds, sizes into bytes, speeds into bytes per second. The text of each setting is
written into every new `fieldmouse.toml` and compared with `docs/settings.md` by a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from fieldmouse import __version__
from fieldmouse.config import values
from fieldmouse.config.values import Count, Duration, Flag, Number, Positive, PositiveDuration, Size, Texts
from fieldmouse.errors import SettingsError
from fieldmouse.import_string import IMPORT_NAME
from fieldmouse.policy.concurrency_thresholds import check_thresholds
from fieldmouse.policy.distribution.registry import POLICIES, installed_policies

_PRODUCT = f"fieldmouse/{'.'.join(__version__.split('.')[:2])}"

_product = values.text_matching(r"[A-Za-z_-]+(/[!-~]+( [ -~]+)?)?", 'a name and version, such as "fieldmouse/0.1"')
_contact = values.text_matching(r"[!-~]*", "a mail address or a web page about your crawl")


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of `fieldmouse.toml`."""


class CrawlSection(Section, frozen=True):
    """Seeds and limits of the crawl, and the name it crawls under."""

    seeds: Annotated[tuple[str, ...], values.SEEDS, "URLs to start from; URLs added later are visited too"] = ()
    contact: Annotated[str, _contact, "your mail address or web page; sent with every request"] = ""
    product: Annotated[str, _product, "name of the crawler in requests and in robots.txt"] = _PRODUCT
    pages: Annotated[Count, "stop after this number of pages; 0 for no limit"] = 0
    time: Annotated[Duration, "stop after this time; 0s for no limit"] = 0.0
    max_depth: Annotated[
        int | None, values.COUNT_OR_NONE, 'most links away from a seed; 0 for the seeds only, "none" for no limit'
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
        values.choice("page", "host", "site", "web"),
        "page, host, site or web: the seeds, their hosts, their registered domains"
        " (all of loopback is one site), or everything",
    ] = "site"
    follow_seed_redirects: Annotated[
        Flag, "a seed that redirects to another registered domain takes the crawl there"
    ] = False
    include_hosts: Annotated[Texts, "more host names to crawl"] = ()
    exclude_hosts: Annotated[Texts, "host names never to crawl"] = ()
    include_domains: Annotated[Texts, "more domains to crawl, with all their subdomains"] = ()
    exclude_domains: Annotated[Texts, "domains never to crawl"] = ()
    prefixes: Annotated[Texts, "if any, only URLs that begin with one of these; one with a leading / is a path"] = ()
    exclude_prefixes: Annotated[Texts, "leave out URLs that begin with one of these"] = ()
    include_regex: Annotated[tuple[str, ...], values.REGEXES, "if any, only URLs that match one of these"] = ()
    exclude_regex: Annotated[tuple[str, ...], values.REGEXES, "leave out URLs that match one of these"] = ()


class PolitenessSection(Section, frozen=True):
    """Delays and back-off between requests."""

    delay: Annotated[float, values.INTERVAL, "time between two requests to one host"] = 1.0
    address_delay: Annotated[
        float | None, values.INTERVAL_OR_SAME, 'time between two requests to one address; "same" as delay'
    ] = None
    obey_robots_txt: Annotated[Flag, "fetch and obey robots.txt (RFC 9309); turn off only for your own servers"] = True
    crawl_delay_cap: Annotated[Duration, "longest Crawl-delay of a robots.txt; a longer one is cut to this"] = 300.0
    retry_after_cap: Annotated[Duration, "longest Retry-After of a server; a longer one is cut to this"] = 86400.0
    backoff: Annotated[Duration, "first pause after a host fails; doubles with each failure in a row"] = 2.0
    backoff_cap: Annotated[Duration, "longest pause after a host fails"] = 900.0
    patience: Annotated[Number, "scales the waits between retries of a URL; 0 retries at once"] = 1.0

    @property
    def effective_address_delay(self) -> float:
        """Delay of an address: its own, or the same as a host's."""
        return self.delay if self.address_delay is None else self.address_delay


class FetchSection(Section, frozen=True):
    """Concurrent fetches and connections."""

    concurrency: Annotated[Positive, "fetches at the same time, each to a different address"] = 128
    urls_per_visit: Annotated[Positive, "most URLs fetched in one visit to a host"] = 16
    keep_alive: Annotated[Duration, "how long an idle connection is kept for the next request"] = 5.0


class FetchLimitsSection(Section, frozen=True):
    """Limits on one server, one page or one URL."""

    body: Annotated[Size, "longest body as sent; longer ones are truncated"] = 16 << 20
    decoded: Annotated[Size, "longest body after decompression"] = 64 << 20
    ratio: Annotated[Positive, "most times its size that a body may decompress to"] = 200
    headers: Annotated[Size, "longest response head"] = 64 << 10
    connect: Annotated[Duration, "time to connect, TLS included"] = 10.0
    first_byte: Annotated[Duration, "time until the first byte of the response"] = 20.0
    total: Annotated[Duration, "time for a whole response"] = 120.0
    idle: Annotated[Duration, "longest silence within a response"] = 20.0
    min_speed: Annotated[float, values.SPEED, "lowest average speed of a response; 0 for any"] = 100.0
    grace: Annotated[Duration, "how long a response may be slower than that"] = 20.0
    redirects: Annotated[Count, "redirects followed in a row"] = 10
    url_length: Annotated[Positive, "longest URL, in characters"] = 2000
    pages_per_host: Annotated[Count, "pages stored from one host; 0 for no limit"] = 0
    links_per_page: Annotated[Count, "links taken from one page, sitemaps aside; 0 for no limit"] = 100_000
    hosts_per_site: Annotated[Count, "hosts of one registered domain; new ones beyond are dropped; 0 for no limit"] = (
        100_000
    )
    urls_per_site: Annotated[Count, "URLs of one registered domain; new ones beyond are dropped; 0 for no limit"] = (
        100_000_000
    )
    robots_txt: Annotated[Size, "most bytes read of a robots.txt"] = 500 << 10
    traps: Annotated[Flag, "leave out URLs that look like endless calendars and mazes"] = True


class NetworkSection(Section, frozen=True):
    """Addresses, DNS, TLS and headers of requests."""

    allow_private: Annotated[Flag, "also visit loopback, private and link-local addresses; metadata services never"] = (
        False
    )
    resolve: Annotated[tuple[str, ...], values.RESOLVE, "addresses (and ports) of host names, used instead of DNS"] = ()
    nameservers: Annotated[tuple[str, ...], values.NAMESERVERS, "DNS servers; none for those of the system"] = ()
    source: Annotated[str, values.SOURCE, "local address of connections; none for any"] = ""
    tls_verify: Annotated[Flag, "check certificates"] = True
    ca_file: Annotated[str, values.TEXT, "file with more certificates to trust"] = ""
    headers: Annotated[dict[str, str], values.HEADERS, "more header lines for every request"] = {}


class FrontierSection(Section, frozen=True):
    """Order of URLs, and the memory of the frontier."""

    policy: Annotated[
        str,
        values.built_in_or(POLICIES, IMPORT_NAME.pattern, "package.module:Class", installed_policies),
        "how hosts are chosen for the front (see docs/tour.md)",
    ] = "index"
    delta: Annotated[Positive, "mice-and-elephants: a host with more URLs online is an elephant"] = 5
    front_min: Annotated[Positive, "fewest hosts kept ready to be visited"] = 64
    front_max: Annotated[Positive, "most hosts kept ready to be visited"] = 4096
    sieve_run: Annotated[Positive, "URL hashes kept in memory until they are sorted into a file; 8 bytes each"] = (
        1_000_000
    )
    record_decisions: Annotated[Size, "most bytes of decisions.log, which `lab replay` reads; 0B for none"] = 64 << 20


class BufferSection(Section, frozen=True):
    """Pages fetched and not yet taken by the indexer."""

    pages: Annotated[Positive, "most pages in the buffer"] = 256
    bytes: Annotated[Size, "most bytes in the buffer"] = 64 << 20
    when_full: Annotated[
        str,
        values.choice("auto", "wait", "lose"),
        "auto, wait or lose: fetches wait, or the page is dropped and fetched again; auto drops under thresholds",
    ] = "auto"
    obsolete_after: Annotated[
        float | None, values.DURATION_OR_NEVER, "fetch a page again that waited longer in the buffer"
    ] = None


BALANCE_POLICIES = ("priced", "kalman", "hash", "ipmicra", "shortest-delay", "two-choices")


class ClusterSection(Section, frozen=True):
    """Agents that share a crawl through a coordinator (see docs/network.md); unused on one machine."""

    policy: Annotated[str, values.choice(*BALANCE_POLICIES), "which agent visits a host next (see docs/network.md)"] = (
        "priced"
    )
    lease: Annotated[PositiveDuration, "an agent without a heartbeat for this time loses its hosts"] = 15.0
    heartbeat: Annotated[PositiveDuration, "time between two heartbeats of an agent"] = 5.0
    keep_acked: Annotated[Flag, "the coordinator stores which agent fetched what, in case a machine is lost"] = True

    def check(self) -> None:
        """Raise unless two heartbeats fit into a lease: one late heartbeat must cost no hosts."""
        if self.heartbeat > 0.4 * self.lease:
            raise SettingsError(
                f"`cluster.heartbeat` ({self.heartbeat:g} s) is too long for `cluster.lease` ({self.lease:g} s)",
                "make the lease at least two and a half times as long, or agents lose their hosts",
            )


_NoiseRules = Annotated[tuple[str, ...], values.NOISE_RULES]
_Counts = Annotated[tuple[int, ...], values.COUNTS]
_Named = Annotated[str, values.text_matching(f"({IMPORT_NAME.pattern})?", '"package.module:name", or "" for none')]
_prefix = values.text_matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "a file name of letters, digits, dots and dashes")
_shards = values.count_between(0, 256, "a whole number, 0 to 256")
_heap = values.size_between(15 << 20, 4000 << 20, 'a size from "15MiB" to "4000MiB"')


class IndexSection(Section, frozen=True):
    """Parsing and full text."""

    shards: Annotated[int, _shards, "worker processes; 0 for one per core; fixed when the crawl is made"] = 0
    heap: Annotated[int, _heap, "memory of each worker's index writer; 15MiB to 4000MiB"] = 48 << 20
    sitemaps: Annotated[Flag, "read the sitemaps that robots.txt files name"] = True
    feeds: Annotated[Flag, "read the feeds (RSS, Atom) that pages name, a few of each host"] = True
    store_text: Annotated[Flag, "keep the text of pages in the index, for snippets"] = True


class ArchiveSection(Section, frozen=True):
    """The WARC files."""

    warc_size: Annotated[Size, "start a new file after this size"] = 1 << 30
    prefix: Annotated[str, _prefix, "prefix of file names"] = "fieldmouse"


class PluginsSection(Section, frozen=True):
    """Your own code, by its import path (see docs/guides)."""

    extract: Annotated[_Named, "function that makes rows from a page, for `export --items`"] = ""
    admit: Annotated[_Named, "function that decides whether to follow a link"] = ""
    readers: Annotated[dict[str, str], values.READERS, "functions for documents of other MIME types"] = {}
    sign: Annotated[_Named, "function that returns request headers, for logins and tokens"] = ""
    sign_hosts: Annotated[
        tuple[str, ...], values.SEEDS, "hosts that get these headers, with their scheme; none for those of the seeds"
    ] = ()
    keep_signatures: Annotated[
        Flag, "write its headers, and secret ones of `network.headers`, into WARC records as they are"
    ] = False
    patience: Annotated[PositiveDuration, "longest time of one call; its result is lost after that"] = 5.0
    items: Annotated[Size, "most bytes of rows of one page; a page with more has none"] = 1 << 20


class StorageSection(Section, frozen=True):
    """Durability."""

    checkpoint: Annotated[Duration, "time between checkpoints; a kill repeats the fetches since the last one"] = 5.0
    min_free: Annotated[Size, "stop, ready to resume, when the disk has less space than this"] = 1 << 30


class NoiseSection(Section, frozen=True):
    """Parts of a page that do not count as a change."""

    ignore: Annotated[_NoiseRules, "parts neither compared nor shown: where, css, xpath or regex, and what"] = ()
    only: Annotated[_NoiseRules, "compare only the parts that match, on sites with such a rule"] = ()
    learn: Annotated[Flag, "ignore parts that differ on three polls in a row; turn off for prices"] = True


#: Policies that can run live, because they learn their parameters from the polls.
#:
#: Listed here, not looked up, so that reading settings does not load the solvers.
LIVE_POLICIES = ("learned", "uniform", "proportional", "harmonic", "automaton", "multiplicative")


class RefreshSection(Section, frozen=True):
    """Known pages, fetched again (see docs/refresh.md). `fieldmouse refresh` does so without `on`."""

    on: Annotated[Flag, "poll known pages while the crawl runs; it then ends only at a limit"] = False
    budget: Annotated[
        float | None,
        values.INTERVAL_OR_NONE,
        'polls, as a rate such as "500/h"; "none" for as many as politeness allows',
    ] = None
    policy: Annotated[
        str,
        values.built_in_or(LIVE_POLICIES, IMPORT_NAME.pattern, "package.module:Class"),
        f"{', '.join(LIVE_POLICIES)}, or package.module:Class:"
        " how the budget is spread over the pages (see docs/refresh.md)",
    ] = "learned"
    share: Annotated[float, values.SHARE, "share of a host's visits that are polls while it has new URLs waiting"] = 0.5
    retry: Annotated[PositiveDuration, "time between two polls of a URL that is gone, moved, failed or refused"] = (
        604800.0
    )
    revisits: Annotated[Flag, "write a WARC revisit record for a page that has not changed"] = True


_STEP = 4


class ConcurrencyControlSection(Section, frozen=True):
    """Number of concurrent fetches, given the pages that wait for the indexer (see docs/control.md)."""

    mode: Annotated[
        str,
        values.choice("fixed", "thresholds", "auto"),
        "fixed, thresholds or auto: always `fetch.concurrency`, or fewer as the buffer fills, by your limits"
        " or by fitted ones",
    ] = "fixed"
    robots: Annotated[_Counts, "thresholds: concurrent fetches, from empty to full buffer"] = ()
    limits: Annotated[_Counts, "thresholds: most pages in the buffer for each of them but the last"] = ()
    modes: Annotated[_Counts, "auto: numbers of fetches to choose from; none for a few up to `fetch.concurrency`"] = ()
    every: Annotated[Duration, "auto: time between two decisions"] = 10.0
    pages: Annotated[Positive, "auto: fewest pages between two decisions"] = 100
    explore: Annotated[Duration, "auto: time before the first decision"] = 10.0
    memory: Annotated[Duration, "auto: age up to which measurements are used"] = 1200.0
    trace: Annotated[Size, "most bytes of pages.trace, to which a model can be fitted; 0 for none"] = 16 << 20

    def concurrency_choices(self, most: int) -> tuple[int, ...]:
        """Numbers of fetches that `auto` chooses from, ascending; `most` is `fetch.concurrency`.

        >>> ConcurrencyControlSection().concurrency_choices(128)
        (2, 8, 32, 128)
        >>> ConcurrencyControlSection(modes=(3, 1)).concurrency_choices(128)
        (1, 3)
        """
        if self.modes:
            return tuple(sorted(set(self.modes)))
        numbers = [most]
        while len(numbers) < 4 and numbers[0] > 1:
            numbers.insert(0, max(1, numbers[0] // _STEP))
        return tuple(numbers)

    def check(self, most: int) -> None:
        """Raise `SettingsError` if the rule is invalid; `most` is `fetch.concurrency`."""
        if self.mode == "thresholds":
            check_thresholds(self.robots, self.limits, "control.")
            if self.robots[0] == 0:
                raise SettingsError("`control.robots` allows no fetch", "start with a number above 0")
        # Values of the other modes may stay in the file: a crawl may be resumed under another mode.
        for mode, name, wanted in (("thresholds", "robots", self.robots), ("auto", "modes", self.modes)):
            if mode == self.mode and wanted and max(wanted) > most:
                raise SettingsError(
                    f"`control.{name}` asks for {max(wanted)} robots, and `fetch.concurrency` is {most}",
                    "raise `fetch.concurrency`, or ask for fewer",
                )
        if self.modes and not all(self.modes):
            raise SettingsError("`control.modes` has a 0", "use numbers from 1 on")


class ConcurrencyCostSection(Section, frozen=True):
    """Weights of the cost that `auto` minimises: the sum of these, each times its quantity."""

    loss: Annotated[Number, "a page fetched and dropped because the buffer was full"] = 1.0
    obsolete: Annotated[Number, "a page fetched and dropped because it waited too long"] = 1.0
    response: Annotated[Number, "a second of average delay between fetching and indexing a page"] = 0.1
    robots: Annotated[Number, "a second of one fetch at work"] = 0.01
    starvation: Annotated[Number, "a second in which the indexer has nothing to do"] = 100.0


@dataclass(frozen=True, slots=True)
class RefreshRunMode:
    """Order to poll known pages, whatever `refresh.on` is."""

    once: bool = False  # end when every known page was polled once and all new URLs are fetched
    hold_waiting: bool = False  # leave URLs alone that were waiting when the refresh began
    refresh_only: bool = False  # a refresh without a crawl: it is done when its time is over
