"""Outcomes of requests: responses, and the rows that the outcome log keeps of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Url


class ContentChange(StrEnum):
    """Difference to the earlier copy, as a reader of the page would judge it."""

    NONE = ""  # nothing was learned: a first fetch, or a failure
    SAME = "same"  # the same bytes, or status 304
    # other bytes, but only where the page differs at every fetch, or outside its readable text
    NOISE = "noise"
    CHANGED = "changed"
    GONE = "gone"
    MOVED = "moved"


class PageComparison(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One fetch of a page, compared with the copy that its request described."""

    at: float  # when the answer was complete
    # of the payload, "sha1:BASE32"; for a 304 that of the stored copy, "" for a page that is gone
    digest: str = ""
    simhash: int = 0
    etag: str = ""
    last_modified: str = ""
    changed: bool | None = None  # the bytes differ from the stored copy, or there are none; None: unknown
    difference: float = 0.0  # share of the words that differ, estimated from the simhashes
    gone: bool = False


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

    def all_headers(self, name: str) -> list[str]:
        """All headers of that name, in the order received."""
        return [value for key, value in self.headers if key == name]


class Page(msgspec.Struct, frozen=True, tag="page", array_like=True):
    """A fetched document (status 2xx)."""

    link: Request
    response: Response


class Unchanged(msgspec.Struct, frozen=True, tag="unchanged", array_like=True):
    """Status 304: the stored copy is still current."""

    link: Request
    response: Response


class Moved(msgspec.Struct, frozen=True, tag="moved", array_like=True):
    """A redirect; its target goes through the sieve like any link."""

    link: Request
    response: Response
    target: Url
    # polled: the redirect is permanent and its target is stored, so this page can be removed
    for_good: bool = False


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """No request was made, with the reason."""

    link: Request
    reason: OutcomeReason
    at: float
    detail: str = ""


class Failed(msgspec.Struct, frozen=True, tag="failed", array_like=True):
    """A request without a document, with the reason."""

    link: Request
    reason: OutcomeReason
    at: float
    detail: str = ""
    response: Response | None = None
    retry_after: float = 0.0  # seconds the server asked us to wait; 0 if it did not ask
    errno: int = 0  # error number of the operating system, 0 if there is none


Outcome = Page | Unchanged | Moved | Refused | Failed

GONE_STATUSES = frozenset((404, 410))  # the page no longer exists; other failures do not affect the stored copy


class OutcomeRow(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Permanent record of one URL's outcome: a line of the outcome log, read by export and explain."""

    url: Url
    kind: OutcomeKind
    at: float  # when the response was complete, or the fetch was given up
    depth: int = 0
    via: str = ""
    seen_at: float = 0.0
    status: int = 0
    reason: OutcomeReason = OutcomeReason.NONE
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
    news: ContentChange = ContentChange.NONE  # of a poll: the difference as a reader would judge it
    difference: float = 0.0  # share of the words that differ from the previous copy
    withdrawn_at: tuple[float, ...] = ()  # `at` of rows whose change turned out to be noise
    memory: bytes = b""  # noise of the page, learned from all its fetches
    unlisted: bool = False  # unchanged, but its headers now ask not to be indexed

    @property
    def withdrawn_change_count(self) -> int:
        """Number of changes reported before that turned out to be noise."""
        return len(self.withdrawn_at)

    @property
    def supersedes_earlier(self) -> bool:
        """Whether this row replaces the earlier outcome of the URL.

        A poll's row does if the server decided: a page, a permanent redirect to a stored page, a page that
        is gone, or an exclusion by robots.txt. Failures, 304 and temporary redirects keep the earlier
        outcome.
        """
        if not self.polled or self.kind is OutcomeKind.PAGE or self.is_gone:
            return True
        if self.kind is OutcomeKind.MOVED:
            return self.news is ContentChange.MOVED
        return self.kind is OutcomeKind.REFUSED and self.reason is OutcomeReason.ROBOTS_TXT_EXCLUDED

    @property
    def is_gone(self) -> bool:
        """Whether the server says that the page does not exist."""
        return self.kind == OutcomeKind.FAILED and self.status in GONE_STATUSES


def outcome_row(link: Request, kind: OutcomeKind, at: float, **columns: Any) -> OutcomeRow:
    """Row of a request's outcome; `columns` are those that do not come from the request."""
    return OutcomeRow(
        link.url,
        kind,
        at,
        link.depth,
        link.via,
        link.seen_at,
        tries=link.tries,
        found_as=link.kind.value,
        polled=link.was,
        **columns,
    )


class WorkerResult(msgspec.Struct, frozen=True, array_like=True):
    """The indexer's result for one stored response."""

    number: int  # of the ticket
    shard: int
    batch: int
    # of the OutcomeRow; may differ from the fetch worker's (a decompression bomb shows only when decoded)
    kind: OutcomeKind
    row: bytes  # the OutcomeRow, encoded
    links: tuple[Request, ...] = ()
    size: int = 0
    reason: OutcomeReason = OutcomeReason.NONE  # of the OutcomeRow
    left_out: int = 0  # links of the page beyond `limits.links_per_page`
    complaint: str = ""  # error of a plug-in
    sighting: PageComparison | None = None  # of a page, an unchanged page or a page that is gone
    held: tuple[Request, ...] = ()  # out of scope, unless a redirect of a seed adds their hosts
