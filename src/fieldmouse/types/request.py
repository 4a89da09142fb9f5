"""Requests: a URL and its known facts, on its way through the frontier."""

from __future__ import annotations

from enum import Enum

import msgspec

from fieldmouse.types.host_state import HostState
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.url import Host, Url


class RequestKind(Enum):
    """How a link was found, which decides how its response is read."""

    PAGE = "page"
    SEED = "seed"
    REDIRECT = "redirect"
    SITEMAP = "sitemap"  # named by robots.txt or by a sitemap index: read for its URLs
    FEED = "feed"  # named by a page as its feed: read for its URLs, like a sitemap
    # stored in the archive, but neither a page nor an outcome: its ticket number is 0
    ROBOTS_TXT = "robots.txt"


class FrontierEntry(Enum):
    """How a URL entered the frontier, which decides where its outcome is counted."""

    DISCOVERED = 0  # through the sieve: seen for the first time
    POLLED = 1  # behind the sieve: a URL with an outcome, fetched again
    TRANSFERRED = 2  # with its host, from another crawl: only in directories of early versions


class Request(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A request: a URL and the data it carries through the crawl."""

    url: Url
    depth: int = 0  # links away from a seed; redirects do not count
    via: str = ""  # the page it was found on; "" for a seed
    kind: RequestKind = RequestKind.PAGE
    seen_at: float = 0.0
    redirects: int = 0  # redirects followed before this URL
    tries: int = 0  # failed fetches so far
    not_before: float = 0.0  # a retry is not made before then
    etag: str = ""  # validators of the stored copy, for a conditional request
    last_modified: str = ""
    trail: tuple[str, ...] = ()  # URLs whose redirects led here, the first one first
    drops: int = 0  # fetches discarded because the buffer was full or the page waited too long in it
    door: FrontierEntry = FrontierEntry.DISCOVERED
    was: str = ""  # polled: kind of the URL's latest outcome
    digest: str = ""  # of the stored copy, to detect changes
    simhash: int = 0
    warc: str = ""  # where that copy is stored
    offset: int = 0
    memory: bytes = b""  # noise of the page, learned from earlier fetches
    why: OutcomeReason = OutcomeReason.NONE  # polled: the reason it was no page
    forgiven: bool = False  # on a cluster: its failure was withdrawn, so it is tried again

    @property
    def is_from_seed(self) -> bool:
        """Whether it is a seed or the redirect target of a seed."""
        return self.depth == 0 and self.kind in (RequestKind.SEED, RequestKind.REDIRECT)

    @property
    def may_have_stored_copy(self) -> bool:
        """Whether it may have been stored before: its page replaces the older copy."""
        return self.door is not FrontierEntry.DISCOVERED


class NumberedRequest(msgspec.Struct, frozen=True, array_like=True):
    number: int  # the frontier's, for a link that is online
    link: Request

    @property
    def frontier_entry(self) -> FrontierEntry:
        return self.link.door


class HostVisit(msgspec.Struct, frozen=True):
    """A visit to one host: one fetch worker holds host and address until it gives them back."""

    host: Host
    address: str  # "" before the first DNS lookup
    tickets: tuple[NumberedRequest, ...]
    state: HostState = HostState()
