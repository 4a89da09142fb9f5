"""What travels: plain frozen values, from the seed to the archive.

A `Link` is a URL on its way round. It goes to the sieve, waits in the frontier,
leaves on an `Errand`, and comes back as an `Outcome`. Times are epoch seconds,
sizes are bytes. All of these are msgspec structs: each is fit for a log or a worker process.
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
    """How a link was found, and so how its answer is read."""

    PAGE = "page"
    SEED = "seed"
    REDIRECT = "redirect"
    SITEMAP = "sitemap"  # named by robots.txt or by a sitemap index: read for its URLs
    FEED = "feed"  # named by a page as its feed: read for its URLs, like a sitemap
    EXCLUSION = "robots.txt"  # kept in the archive, but neither a page nor an outcome: its ticket number is 0


class Door(Enum):
    """By which door a URL came into the frontier, and so in which books its outcome stands."""

    DISCOVERED = 0  # through the sieve: seen for the first time
    POLLED = 1  # behind it: a URL that has an outcome, to be asked again
    ADOPTED = 2  # with its host, from another crawl: only in directories of early versions


class Reason(StrEnum):
    """Why there is no page. The values are what people read and what files keep."""

    NONE = ""  # there is one
    # refused by us, before asking
    EXCLUDED = "excluded by robots.txt"
    PRIVATE = "private address"
    HOST_FULL = "pages per host reached"
    TOO_MANY_REDIRECTS = "too many redirects"
    UNSIGNED = "cannot be signed"  # by the plug-in that has the headers for it
    # the network
    NO_ADDRESS = "name does not resolve"
    NO_CONNECTION = "cannot connect"
    TLS = "TLS error"
    CLOSED = "connection closed early"
    TIMEOUT = "took too long"
    TOO_SLOW = "slower than the minimum speed"
    # the server's words
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
    # our own mistake: logged with its traceback
    CRASHED = "fieldmouse stumbled over it"


class Link(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A URL with the little that must travel along with it."""

    url: Url
    depth: int = 0  # links away from a seed; redirects do not count
    via: str = ""  # the page it was found on; "" for a seed
    kind: Kind = Kind.PAGE
    seen_at: float = 0.0
    redirects: int = 0  # redirects followed to come here
    tries: int = 0  # fetches that failed so far
    not_before: float = 0.0  # a retry waits at least until then
    etag: str = ""  # validators of the copy we hold: ask only for something newer
    last_modified: str = ""
    trail: tuple[str, ...] = ()  # the URLs whose redirects led here, the first one first
    drops: int = 0  # fetches thrown away because the buffer was full or they waited too long in it
    door: Door = Door.DISCOVERED
    was: str = ""  # polled: the kind of the newest outcome that stands for it
    digest: str = ""  # of the copy we hold, so that its reader can say what changed
    simhash: int = 0
    warc: str = ""  # where that copy lies
    offset: int = 0
    memory: bytes = b""  # what earlier looks taught of the page's noise
    why: Reason = Reason.NONE  # polled: for which reason it was no page
    forgiven: bool = False  # of a network: it has failed, and that was taken back

    @property
    def from_seed(self) -> bool:
        """Whether it is a seed, or what the redirects of a seed led to."""
        return self.depth == 0 and self.kind in (Kind.SEED, Kind.REDIRECT)

    @property
    def again(self) -> bool:
        """Whether it may have been stored before: what comes now replaces the older copy."""
        return self.door is not Door.DISCOVERED


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    number: int  # the frontier's, for a link that is online
    link: Link

    @property
    def door(self) -> Door:
        """By which door it came in."""
        return self.link.door


class Unreached(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """An agent of a network that could not reach a host: others try it before that counts."""

    agent: str
    machine: str
    reason: Reason
    until: float  # before then it does not try again; on the board: seconds that are left
    counts: bool = True  # it says something of the host: the trouble was not plainly the agent's own
    alone: bool = False  # known pages of that agent are all there is to ask for: nobody else is sent there


class HostState(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """What must be remembered of a host between visits; as durable as its URLs."""

    address: str = ""  # "" until the name was looked up
    ready_at: float = 0.0  # no request to the host before then
    address_ready_at: float = 0.0  # no request to the address before then
    crawl_delay: float = 0.0  # asked for by robots.txt; 0 means it did not ask
    failures: int = 0  # in a row, of the host as a whole (connect, DNS, 429, 503)
    pages: int = 0  # pages stored from it
    verdict: Reason = Reason.NONE  # the reason when all its URLs are answered without asking (buried, full)
    detail: str = ""  # of the verdict, for people
    put_off: int = 0  # times in a row that trouble of our own kept us from asking; not held against it
    unreached: tuple[Unreached, ...] = ()  # by agents of a network, lately
    asked: str = ""  # the server's words, if it asked to be left alone: "status 429, Retry-After: 120"
    asked_beyond: float = 0.0  # it asked for so many seconds more than `ready_at` gives it, or fewer


class Errand(msgspec.Struct, frozen=True):
    """A lease of one host to one robot: nobody else visits host or address until it is given back."""

    host: Host
    address: str  # "" when the name has yet to be looked up
    tickets: tuple[Ticket, ...]
    state: HostState = HostState()


class Response(msgspec.Struct, frozen=True, array_like=True):
    """One HTTP exchange as it went over the wire, the body still content-encoded but no longer chunked."""

    status: int
    head: bytes  # status line and headers as received, ending in an empty line
    body: bytes
    request: bytes  # what we sent, head only
    address: str
    started_at: float  # the request was sent
    answered_at: float  # the first byte of the answer was seen
    ended_at: float
    headers: tuple[tuple[str, str], ...] = ()  # names in lower case, values decoded as latin-1
    truncated: str = ""  # WARC's word for why the body is not whole: length, time, disconnect, unspecified

    def header(self, name: str) -> str:
        """The first header of that name, or "" if there is none."""
        for key, value in self.headers:
            if key == name:
                return value
        return ""

    def all(self, name: str) -> list[str]:
        """Every header of that name, in the order they came."""
        return [value for key, value in self.headers if key == name]


class Page(msgspec.Struct, frozen=True, tag="page", array_like=True):
    """A document we asked for and got (status 2xx)."""

    link: Link
    response: Response


class Unchanged(msgspec.Struct, frozen=True, tag="unchanged", array_like=True):
    """304: the copy we hold is still good."""

    link: Link
    response: Response


class Moved(msgspec.Struct, frozen=True, tag="moved", array_like=True):
    """A redirect; its target goes to the sieve like any link."""

    link: Link
    response: Response
    target: Url
    for_good: bool = False  # polled: the page it moved to is stored, so that it can go


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """We did not ask, and why."""

    link: Link
    reason: Reason
    at: float
    detail: str = ""


class Failed(msgspec.Struct, frozen=True, tag="failed", array_like=True):
    """We asked and got no document, and why."""

    link: Link
    reason: Reason
    at: float
    detail: str = ""
    response: Response | None = None
    retry_after: float = 0.0  # seconds the server asked us to wait; 0 means it did not say
    errno: int = 0  # the operating system's number for it, if it had one


Outcome = Page | Unchanged | Moved | Refused | Failed

GONE = frozenset((404, 410))  # after these there is no such page; other failures say nothing of our copy


class OutcomeRow(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """What is kept for ever of one URL's fate: a line of the outcome log, read by export and explain."""

    url: Url
    kind: OutcomeKind
    at: float  # when the answer was complete, or we gave up
    depth: int = 0
    via: str = ""
    seen_at: float = 0.0
    status: int = 0
    reason: Reason = Reason.NONE
    detail: str = ""
    target: str = ""  # where a redirect led
    mime: str = ""
    title: str = ""
    language: str = ""
    charset: str = ""
    digest: str = ""  # of the payload, "sha1:BASE32"
    simhash: int = 0
    duplicate_of: str = ""  # a page fetched earlier with the same payload
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
    items: int = 0  # rows that were extracted from it
    items_at: int = 0  # the byte in `warc` where their record begins
    etag: str = ""  # validators that came with the page, to ask for something newer by
    last_modified: str = ""
    polled: str = ""  # the outcome of a poll: the kind that stood for the URL before it; "" for its first one
    news: News = News.NONE  # of a poll: what a reader of the page would say
    difference: float = 0.0  # share of the words in which it differs from the copy before
    withdrawn_at: tuple[float, ...] = ()  # `at` of rows whose change was noise after all
    memory: bytes = b""  # what its looks taught of its noise
    unlisted: bool = False  # unchanged, but its headers ask now that it not be indexed

    @property
    def withdrawn(self) -> int:
        """So many of the changes told before it were noise after all."""
        return len(self.withdrawn_at)

    @property
    def stands(self) -> bool:
        """Whether the URL is what this row says from now on.

        Of a poll that is so if the server told: a page, one that moved for good to a stored page, none, or,
        in robots.txt, that we may not ask. Trouble, a 304 and redirects for now leave what was there.
        """
        if not self.polled or self.kind is OutcomeKind.PAGE or self.gone:
            return True
        if self.kind is OutcomeKind.MOVED:
            return self.news is News.MOVED
        return self.kind is OutcomeKind.REFUSED and self.reason is Reason.EXCLUDED

    @property
    def gone(self) -> bool:
        """Whether the server says that there is no such page, or no longer."""
        return self.kind == OutcomeKind.FAILED and self.status in GONE


class Parsed(msgspec.Struct, frozen=True, array_like=True):
    """What the indexer tells the agent of one stored answer."""

    number: int  # the ticket's
    shard: int
    batch: int
    kind: OutcomeKind  # the OutcomeRow's; the robot may have thought otherwise (a bomb shows on unpacking)
    row: bytes  # the OutcomeRow, encoded
    links: tuple[Link, ...] = ()
    size: int = 0
    reason: Reason = Reason.NONE  # the OutcomeRow's
    left_out: int = 0  # links of the page beyond `limits.links_per_page`
    complaint: str = ""  # what a plug-in did wrong
    sighting: Sighting | None = None  # of a page, of an unchanged one, and of one that is gone
    held: tuple[Link, ...] = ()  # out of scope, unless a redirect of a seed brings their hosts into it
