"""Location of a URL in a frontier, read from outside: no locks, no writes.

It reads the files as the last checkpoint describes them. While a crawl runs, the next
checkpoint may have deleted one of these files: then `FileNotFoundError` is
raised, and the caller should read the newer checkpoint and try again.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import msgspec

from fieldmouse.frontier.durable_parts import FrontierState, read_open_tickets
from fieldmouse.frontier.hosts.host_table import read_hosts
from fieldmouse.frontier.hosts.site_limits import site_counts
from fieldmouse.frontier.queues.sieved_urls import read_ready_items
from fieldmouse.frontier.queues.virtualizer import read_queued_links
from fieldmouse.frontier.seen.sieve import has_key
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import Request
from fieldmouse.url import Url, host_of, key_of

_decode = msgspec.msgpack.Decoder(Request).decode


class UrlPlace(Enum):
    """Possible locations of a URL."""

    UNKNOWN = "never seen"
    READY = "seen, not yet given to its host"
    QUEUED = "in its host's queue"
    ONLINE = "its host may be visited, or is being visited"
    RESTING = "tried, and resting until it may be tried again"
    DONE = "done"


class UrlStatus(msgspec.Struct, frozen=True):
    """Location of one URL at the last checkpoint."""

    place: UrlPlace
    ahead: int = 0  # URLs before it: of all hosts when ready, of its host when queued
    link: Request | None = None  # its waiting request; None when it does not wait
    host: HostState | None = None  # None when its host is unknown
    site: str = ""  # of a URL never seen: the site it counts towards; "" if exempt or not counted
    site_hosts: int = 0
    site_urls: int = 0


def locate_url(directory: Path, state: FrontierState, key_seed: int, url: Url) -> UrlStatus:
    """Find `url` at the time when `state` was sealed, and the state of its host."""
    host = host_of(url)
    standing = read_hosts(directory, state.hosts, only=host).get(host)
    if not has_key(directory, state.sieve, key_of(url, key_seed)):
        site, hosts, urls = site_counts(directory, state.sites, host, key_seed) if state.sites else ("", 0, 0)
        return UrlStatus(UrlPlace.UNKNOWN, host=standing, site=site, site_hosts=hosts, site_urls=urls)
    wanted = url.encode()
    for row in read_open_tickets(directory, state.front).values():
        if wanted in row and (link := _decode(row)).url == url:
            place = UrlPlace.RESTING if link.not_before else UrlPlace.ONLINE
            return UrlStatus(place, link=link, host=standing)
    for ahead, row in enumerate(read_queued_links(directory, state.queues, host)):
        if wanted in row and (link := _decode(row)).url == url:
            return UrlStatus(UrlPlace.QUEUED, ahead, link, standing)
    for ahead, (_, row) in enumerate(read_ready_items(directory, state.ready)):
        if wanted in row and (link := _decode(row)).url == url:
            return UrlStatus(UrlPlace.READY, ahead, link, standing)
    return UrlStatus(UrlPlace.DONE, host=standing)
