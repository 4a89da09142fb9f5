"""Kinds and reasons of outcomes."""

from __future__ import annotations

from enum import StrEnum


class OutcomeKind(StrEnum):
    """Result of a URL."""

    PAGE = "page"
    UNCHANGED = "unchanged"
    MOVED = "moved"
    REFUSED = "refused"  # by us: no request was made
    FAILED = "failed"
    WITHDRAWN = "forgiven"  # no outcome, but a mark that withdraws the earlier outcome of the URL


class StoppedBy(StrEnum):
    """Reason a run ended although work may be left."""

    NOTHING = ""  # the work was done
    PAGE_LIMIT = "pages"
    TIME_LIMIT = "time"
    DISK_FULL = "disk"
    SIGNAL = "signal"  # or any other caller that asked for it
    DRAINED = "drained"  # an agent that was asked remotely to leave


class OutcomeReason(StrEnum):
    """Reason there is no page. The values are shown to people and stored in files."""

    NONE = ""  # there is a page
    # refused by us, without a request
    ROBOTS_TXT_EXCLUDED = "excluded by robots.txt"
    PRIVATE_ADDRESS = "private address"
    HOST_FULL = "pages per host reached"
    TOO_MANY_REDIRECTS = "too many redirects"
    NOT_SIGNED = "cannot be signed"  # the `sign` plug-in has no headers for it
    # the network
    NO_ADDRESS = "name does not resolve"
    NO_CONNECTION = "cannot connect"
    TLS = "TLS error"
    CONNECTION_CLOSED = "connection closed early"
    TIMEOUT = "took too long"
    TOO_SLOW = "slower than the minimum speed"
    # the server's response
    BAD_HTTP = "not HTTP"
    HEADERS_TOO_LARGE = "headers too large"
    BODY_TOO_LARGE = "body too large"
    DECOMPRESSION_BOMB = "decompresses to too much"
    BAD_ENCODING = "content encoding is broken"
    CLIENT_ERROR = "client error status"
    SERVER_ERROR = "server error status"
    RETRY_LATER = "told to come back later"
    BAD_REDIRECT = "redirect leads nowhere"
    ROBOTS_TXT_UNREACHABLE = "robots.txt unreachable"
    # the host as a whole
    HOST_ABANDONED = "host given up"
    # our own bug: logged with its traceback
    CRASHED = "fieldmouse stumbled over it"
