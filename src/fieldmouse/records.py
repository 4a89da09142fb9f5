"""Requests, host state and outcomes: the frozen values that travel through a crawl.

A `Link` is one request. It passes the sieve, waits in the frontier, leaves on an `Errand` (a host visit),
and comes back as an `Outcome`. Times are epoch seconds, sizes are bytes. All are msgspec structs, so each
can be written to a log or sent to a worker process.
"""

from __future__ import annotations

from enum import Enum, StrEnum

import msgspec

from fieldmouse.outcome import OutcomeKind as OutcomeKind
from fieldmouse.sighting import News as News
from fieldmouse.sighting import Sighting
from fieldmouse.summary import Reading as Reading
from fieldmouse.summary import Summary as Summary
from fieldmouse.url import Host, Url


class Kind(Enum):
    """How a link was found, which decides how its response is read."""

    PAGE = "page"
    SEED = "seed"
    REDIRECT = "redirect"
    SITEMAP = "sitemap"  # named by robots.txt or by a sitemap index: read for its URLs
    FEED = "feed"  # named by a page as its feed: read for its URLs, like a sitemap
    # stored in the archive, but neither a page nor an outcome: its ticket number is 0
    EXCLUSION = "robots.txt"


class Door(Enum):
    """How a URL entered the frontier, which decides where its outcome is counted."""

    DISCOVERED = 0  # through the sieve: seen for the first time
    POLLED = 1  # behind the sieve: a URL with an outcome, fetched again
    ADOPTED = 2  # with its host, from another crawl: only in directories of early versions


class Reason(StrEnum):
    """Reason there is no page. The values are shown to people and stored in files."""

    NONE = ""  # there is a page
    # refused by us, without a request
    EXCLUDED = "excluded by robots.txt"
    PRIVATE = "private address"
    HOST_FULL = "pages per host reached"
    TOO_MANY_REDIRECTS = "too many redirects"
    UNSIGNED = "cannot be signed"  # the `sign` plug-in has no headers for it
    # the network
    NO_ADDRESS = "name does not resolve"
    NO_CONNECTION = "cannot connect"
    TLS = "TLS error"
    CLOSED = "connection closed early"
    TIMEOUT = "took too long"
    TOO_SLOW = "slower than the minimum speed"
    # the server's response
    BAD_HTTP = "not HTTP"
    HEADERS_TOO_LARGE = "headers too large"
    BODY_TOO_LARGE = "body too large"
    BOMB = "decompresses to too much"
    BAD_ENCODING = "content encoding is broken"
    CLIENT_ERROR = "client error status"
    SERVER_ERROR = "server error status"
    BUSY = "told to come back later"
    BAD_REDIRECT = "redirect leads nowhere"
    EXCLUSION_UNREACHABLE = "robots.txt unreachable"
    # the host as a whole
    BURIED = "host given up"
    # our own bug: logged with its traceback
    CRASHED = "fieldmouse stumbled over it"


class Link(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A request: a URL and the data it carries through the crawl."""

    url: Url
    depth: int = 0  # links away from a seed; redirects do not count
    via: str = ""  # the page it was found on; "" for a seed
    kind: Kind = Kind.PAGE
    seen_at: float = 0.0
    redirects: int = 0  # redirects followed before this URL
    tries: int = 0  # failed fetches so far
    not_before: float = 0.0  # a retry is not made before then
    etag: str = ""  # validators of the stored copy, for a conditional request
    last_modified: str = ""
    trail: tuple[str, ...] = ()  # URLs whose redirects led here, the first one first
    drops: int = 0  # fetches discarded because the buffer was full or the page waited too long in it
    door: Door = Door.DISCOVERED
    was: str = ""  # polled: kind of the URL's latest outcome
    digest: str = ""  # of the stored copy, to detect changes
    simhash: int = 0
    warc: str = ""  # where that copy is stored
    offset: int = 0
    memory: bytes = b""  # noise of the page, learned from earlier fetches
    why: Reason = Reason.NONE  # polled: the reason it was no page
    forgiven: bool = False  # on a cluster: its failure was withdrawn, so it is tried again

    @property
    def from_seed(self) -> bool:
        """Whether it is a seed or the redirect target of a seed."""
        return self.depth == 0 and self.kind in (Kind.SEED, Kind.REDIRECT)

    @property
    def again(self) -> bool:
        """Whether it may have been stored before: its page replaces the older copy."""
        return self.door is not Door.DISCOVERED


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    number: int  # the frontier's, for a link that is online
    link: Link

    @property
    def door(self) -> Door:
        return self.link.door


class Unreached(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """An agent of a cluster that could not reach a host: other agents try before that counts."""

    agent: str
    machine: str
    reason: Reason
    until: float  # the agent does not try again before then; on the coordinator: seconds left
    counts: bool = True  # it says something about the host: the trouble was not clearly the agent's own
    alone: bool = False  # only known pages of that agent are left on the host: no other agent is sent there


class HostState(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """State of a host between visits; as durable as its URLs."""

    address: str = ""  # "" before the first DNS lookup
    ready_at: float = 0.0  # no request to the host before then
    address_ready_at: float = 0.0  # no request to the address before then
    crawl_delay: float = 0.0  # from robots.txt; 0 if it has none
    failures: int = 0  # in a row, of the host as a whole (connect, DNS, 429, 503)
    pages: int = 0  # pages stored from it
    verdict: Reason = Reason.NONE  # set when all its URLs are answered without a request (abandoned, full)
    detail: str = ""  # of the verdict, shown to people
    put_off: int = 0  # consecutive delays caused by our own trouble; not counted as failures
    unreached: tuple[Unreached, ...] = ()  # recent failures of agents of a cluster
    asked: str = ""  # the server's request to wait, for example "status 429, Retry-After: 120"
    asked_beyond: float = 0.0  # seconds it asked for beyond `ready_at`; negative if it asked for less


class Errand(msgspec.Struct, frozen=True):
    """A visit to one host: one fetch worker holds host and address until it gives them back."""

    host: Host
    address: str  # "" before the first DNS lookup
    tickets: tuple[Ticket, ...]
    state: HostState = HostState()


class Response(msgspec.Struct, frozen=True, array_like=True):
    """One HTTP exchange as it went over the wire, the body still content-encoded but no longer chunked."""

    status: int
    head: bytes  # status line and headers as received, including the final empty line
    body: bytes
    request: bytes  # head of the request that was sent
    address: str
    started_at: float  # when the request was sent
    answered_at: float  # when the first byte of the response arrived
    ended_at: float
    headers: tuple[tuple[str, str], ...] = ()  # names in lower case, values decoded as latin-1
    truncated: str = ""  # WARC's reason for an incomplete body: length, time, disconnect, unspecified

    def header(self, name: str) -> str:
        """The first header of that name; "" if there is none."""
        for key, value in self.headers:
            if key == name:
                return value
        return ""

    def all(self, name: str) -> list[str]:
        """All headers of that name, in the order received."""
        return [value for key, value in self.headers if key == name]


class Page(msgspec.Struct, frozen=True, tag="page", array_like=True):
    """A fetched document (status 2xx)."""

    link: Link
    response: Response


class Unchanged(msgspec.Struct, frozen=True, tag="unchanged", array_like=True):
    """Status 304: the stored copy is still current."""

    link: Link
    response: Response


class Moved(msgspec.Struct, frozen=True, tag="moved", array_like=True):
    """A redirect; its target goes through the sieve like any link."""

    link: Link
    response: Response
    target: Url
    # polled: the redirect is permanent and its target is stored, so this page can be removed
    for_good: bool = False


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """No request was made, with the reason."""

    link: Link
    reason: Reason
    at: float
    detail: str = ""


class Failed(msgspec.Struct, frozen=True, tag="failed", array_like=True):
    """A request without a document, with the reason."""

    link: Link
    reason: Reason
    at: float
    detail: str = ""
    response: Response | None = None
    retry_after: float = 0.0  # seconds the server asked us to wait; 0 if it did not ask
    errno: int = 0  # error number of the operating system, 0 if there is none


Outcome = Page | Unchanged | Moved | Refused | Failed

GONE = frozenset((404, 410))  # the page no longer exists; other failures do not affect the stored copy


class OutcomeRow(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Permanent record of one URL's outcome: a line of the outcome log, read by export and explain."""

    url: Url
    kind: OutcomeKind
    at: float  # when the response was complete, or the fetch was given up
    depth: int = 0
    via: str = ""
    seen_at: float = 0.0
    status: int = 0
    reason: Reason = Reason.NONE
    detail: str = ""
    target: str = ""  # target of a redirect
    mime: str = ""
    title: str = ""
    language: str = ""
    charset: str = ""
    digest: str = ""  # of the payload, "sha1:BASE32"
    simhash: int = 0
    duplicate_of: str = ""  # an earlier page with the same payload
    near_duplicate_of: str = ""
    canonical: str = ""
    size: int = 0  # bytes of the payload, decoded
    words: int = 0
    links: int = 0
    indexed: bool = False
    warc: str = ""
    offset: int = 0
    tries: int = 0
    found_as: str = "page"
    items: int = 0  # rows extracted from it
    items_at: int = 0  # offset in `warc` of the record that holds them
    etag: str = ""  # validators of the page, for conditional requests
    last_modified: str = ""
    polled: str = ""  # kind of the outcome before this poll; "" for the first outcome of the URL
    news: News = News.NONE  # of a poll: the difference as a reader would judge it
    difference: float = 0.0  # share of the words that differ from the previous copy
    withdrawn_at: tuple[float, ...] = ()  # `at` of rows whose change turned out to be noise
    memory: bytes = b""  # noise of the page, learned from all its fetches
    unlisted: bool = False  # unchanged, but its headers now ask not to be indexed

    @property
    def withdrawn(self) -> int:
        """Number of changes reported before that turned out to be noise."""
        return len(self.withdrawn_at)

    @property
    def stands(self) -> bool:
        """Whether this row replaces the earlier outcome of the URL.

        A poll's row does if the server decided: a page, a permanent redirect to a stored page, a page that
        is gone, or an exclusion by robots.txt. Failures, 304 and temporary redirects keep the earlier
        outcome.
        """
        if not self.polled or self.kind is OutcomeKind.PAGE or self.gone:
            return True
        if self.kind is OutcomeKind.MOVED:
            return self.news is News.MOVED
        return self.kind is OutcomeKind.REFUSED and self.reason is Reason.EXCLUDED

    @property
    def gone(self) -> bool:
        """Whether the server says that the page does not exist."""
        return self.kind == OutcomeKind.FAILED and self.status in GONE


class Parsed(msgspec.Struct, frozen=True, array_like=True):
    """The indexer's result for one stored response."""

    number: int  # of the ticket
    shard: int
    batch: int
    # of the OutcomeRow; may differ from the fetch worker's (a decompression bomb shows only when decoded)
    kind: OutcomeKind
    row: bytes  # the OutcomeRow, encoded
    links: tuple[Link, ...] = ()
    size: int = 0
    reason: Reason = Reason.NONE  # of the OutcomeRow
    left_out: int = 0  # links of the page beyond `limits.links_per_page`
    complaint: str = ""  # error of a plug-in
    sighting: Sighting | None = None  # of a page, an unchanged page or a page that is gone
    held: tuple[Link, ...] = ()  # out of scope, unless a redirect of a seed adds their hosts
