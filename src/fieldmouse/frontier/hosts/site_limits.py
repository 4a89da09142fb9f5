"""Limits per site: counts of hosts and URLs, which decide what may still pass the sieve.

The sieve asks here before it remembers a URL, since it never forgets a URL that it
let through. Counts are durable: rows of changed sites are written at each checkpoint,
the latest wins, and after a kill the log is cut back to its noted length. Memory holds
some 40 bytes a site.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from fieldmouse.errors import DamagedFile
from fieldmouse.frontier.hosts.host_table import HostTable
from fieldmouse.frontier.seen.key_table import KeyNumbering
from fieldmouse.policy.scope import ExceededLimit, SiteLimits, site_for_limits
from fieldmouse.storage.log import Log, SupersededFiles, delete_unnamed_files, read_records
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Host, host_of

_ROW = np.dtype([("key", "<u8"), ("hosts", "<u4"), ("urls", "<u8")])
_PART = 1 << 16  # rows per record
_REWRITE_AT = 1 << 20
_CACHED = 1 << 14  # hosts whose site is cached
_EXEMPT = -1


class SitesState(msgspec.Struct, frozen=True, array_like=True):
    """Number and length of the log, and the number of links dropped by each rule."""

    serial: int = 0
    length: int = 0
    snapshot: int = 0  # its length when it was last rewritten
    dropped: dict[str, int] = {}


class SiteTable:
    """Counts per site, and the limits on them."""

    def __init__(
        self, directory: Path, state: SitesState | None, limits: SiteLimits, hosts: HostTable, seed: int
    ) -> None:
        state = state or SitesState()
        self._directory, self._limits, self._known, self._seed = directory, limits, hosts, seed
        self._numbering = KeyNumbering()
        self._keys, self._hosts, self._urls = array("Q"), array("I"), array("Q")
        self._changed: set[int] = set()
        self._cache: dict[Host, int] = {}
        self._leftovers = SupersededFiles()
        self._serial, self._snapshot = state.serial, state.snapshot
        self.dropped = dict(state.dropped)
        for rows in read_sites(directory, state):
            for key, host_count, url_count in rows.tolist():
                site = self._get_or_add_number(key)
                self._hosts[site], self._urls[site] = host_count, url_count
        self._log = Log(directory / _log_name(state.serial), state.length)

    def roll_back_to_checkpoint(self) -> None:
        """Cut and delete everything written after the checkpoint."""
        delete_unnamed_files(self._directory, "sites-*.log", [_log_name(self._serial)])
        self._log.roll_back_to_checkpoint()

    def __len__(self) -> int:
        return len(self._keys)

    def _get_or_add_number(self, key: int) -> int:
        site = self._numbering.find_number(key)
        if site < 0:
            site = self._numbering.add_number(key)
            self._keys.append(key)
            self._hosts.append(0)
            self._urls.append(0)
        return site

    def _site_number(self, host: Host) -> int:
        """Number of a host's site, or `_EXEMPT`."""
        site = self._cache.get(host)
        if site is None:
            if len(self._cache) >= _CACHED:
                self._cache.clear()
            name = site_for_limits(host)
            site = self._get_or_add_number(key_of_site(name, self._seed)) if name else _EXEMPT
            self._cache[host] = site
        return site

    def admit_urls(self, links: Sequence[Request]) -> list[bool] | None:
        """Decide which of these new URLs may pass; None: all. These are counted, and their hosts added.

        A seed always passes: the user asked for it.
        """
        link_hosts = [host_of(link.url) for link in links]
        room: dict[Host, int] = {}  # for hosts of which only some may pass
        seeds: Counter[Host] | None = None
        for host, urls in Counter(link_hosts).items():
            new = host not in self._known
            site = self._site_number(host)
            if site != _EXEMPT:
                hosts_there, urls_there = self._hosts[site], self._urls[site]
                left = self._limits.remaining_urls(hosts_there, urls_there, new_host=new)
                if left is not None and left < urls:
                    if seeds is None:
                        pairs = zip(links, link_hosts, strict=True)
                        seeds = Counter(name for link, name in pairs if link.kind is RequestKind.SEED)
                    room[host] = max(0, left - seeds[host])
                    taken = min(urls, room[host] + seeds[host])
                    self._count_dropped(
                        self._limits.drop_reason(hosts_there, urls_there + left, new_host=new), urls - taken
                    )
                    urls = taken
                    if not urls:
                        continue
                self._urls[site] = urls_there + urls
                self._hosts[site] = hosts_there + new
                self._changed.add(site)
            if new:
                self._known.get_or_add(host)
        if not room:
            return None
        return [_takes_room(link, host, room) for link, host in zip(links, link_hosts, strict=True)]

    def _count_dropped(self, rule: ExceededLimit | None, links: int) -> None:
        if rule is not None and links:
            self.dropped[rule.value] = self.dropped.get(rule.value, 0) + links

    def count_existing_hosts(self, hosts: Iterable[Host]) -> None:
        """Count the hosts of a crawl that was made before sites were counted."""
        for host in hosts:
            site = self._site_number(host)
            if site != _EXEMPT:
                self._hosts[site] += 1
                self._changed.add(site)

    def seal(self) -> tuple[SitesState, list[Path]]:
        if self._log.length > _REWRITE_AT + 4 * self._snapshot:
            self._leftovers.add([self._log.path])
            self._log.close()
            self._serial += 1
            self._log = Log(self._directory / _log_name(self._serial))
            self._write_rows(range(len(self._keys)))
            self._snapshot = self._log.length
        elif self._changed:
            self._write_rows(sorted(self._changed))
        self._changed.clear()
        self._leftovers.seal()
        state = SitesState(self._serial, self._log.flush(), self._snapshot, dict(self.dropped))
        return state, [self._log.path]

    def _write_rows(self, sites: Sequence[int]) -> None:
        chosen = np.fromiter(sites, np.intp, len(sites))
        rows = np.empty(chosen.size, _ROW)
        rows["key"] = np.frombuffer(self._keys, np.uint64)[chosen]
        rows["hosts"] = np.frombuffer(self._hosts, np.uint32)[chosen]
        rows["urls"] = np.frombuffer(self._urls, np.uint64)[chosen]
        for start in range(0, rows.size, _PART):
            self._log.append(rows[start : start + _PART].tobytes())

    def on_checkpoint_committed(self) -> None:
        self._leftovers.on_checkpoint_committed()

    def close(self) -> None:
        self._log.close()


def _takes_room(link: Request, host: Host, room: dict[Host, int]) -> bool:
    left = room.get(host)
    if left is None or link.kind is RequestKind.SEED:
        return True
    room[host] = left - 1
    return left > 0


def key_of_site(site: str, seed: int) -> int:
    return xxh3_64_intdigest(site.encode(), seed) or 1


def site_counts(directory: Path, state: SitesState, host: Host, seed: int) -> tuple[str, int, int]:
    """Return the site a host counts towards ("": exempt), its hosts and its URLs; reads only."""
    site, latest = site_for_limits(host), (0, 0)
    if site:
        wanted = key_of_site(site, seed)
        for rows in read_sites(directory, state):
            for _, hosts, urls in rows[rows["key"] == np.uint64(wanted)].tolist():
                latest = hosts, urls
    return site, *latest


def read_sites(directory: Path, state: SitesState) -> Iterator[NDArray[np.void]]:
    """Yield the rows of the log up to that state, oldest first; reads only."""
    if not state.length:
        return
    path = directory / _log_name(state.serial)
    for offset, record in read_records(path, length=state.length):
        if len(record) % _ROW.itemsize:
            raise DamagedFile(path, f"the record at byte {offset} holds no whole rows")
        yield np.frombuffer(record, _ROW)


def _log_name(serial: int) -> str:
    return f"sites-{serial}.log"
