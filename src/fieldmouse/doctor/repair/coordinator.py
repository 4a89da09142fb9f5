"""Rebuild of a lost coordinator from the directories of its agents.

Links are not stored: they were sent to the coordinator. So they are extracted from the archived pages again,
as the workers extracted them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import msgspec

from fieldmouse import __version__
from fieldmouse.archive import cdxj
from fieldmouse.archive.audit import log_lines
from fieldmouse.archive.record_reader import Library
from fieldmouse.archive.warc_reader import Torn
from fieldmouse.archive.warc_writer import log_path
from fieldmouse.cluster.client.connect import open_builder
from fieldmouse.cluster.client.identity import read_origin
from fieldmouse.cluster.client.outbox import PART, found_links, sealed_tellings
from fieldmouse.cluster.coordinator import Charter, Heard, Luggage, Name, Offer, Row, SiteBounds
from fieldmouse.cluster.rebuild import BoardBuilder, RestoredHost
from fieldmouse.cluster.rows import pack_urls, to_row
from fieldmouse.config import settings_file
from fieldmouse.config.policies import scope_of, seeds_of, site_limits_of
from fieldmouse.config.settings_file import Settings
from fieldmouse.config.shared_settings import Decider, decider, published
from fieldmouse.config.toml_format import written
from fieldmouse.crawler.factories import indexer_config, politeness_of
from fieldmouse.errors import BoardError, CrawlLocked, UsageError, typed
from fieldmouse.formatting import counted
from fieldmouse.parse.content import read_contents
from fieldmouse.parse.links import Links
from fieldmouse.policy.politeness import sane_delay
from fieldmouse.policy.site_limits import limited_site
from fieldmouse.robotstxt.parser import HOPS, Exclusion, Redirect, judge
from fieldmouse.storage import outcome_log
from fieldmouse.storage.checkpoint import Checkpoint, read_checkpoint, sealed_outcomes, sealed_scope
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.shard_state import sealed_shards
from fieldmouse.types.host import HostState
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import Kind, Link
from fieldmouse.url import Host, Url, host_of, key_of, resolve
from fieldmouse.workers.plugins import Guests

_ROBOTS_TXT = b'/robots.txt"'
_UNREADABLE = (Torn, OSError, ValueError, KeyError)


class ArchivedCrawl:
    """A crawl as of its last checkpoint."""

    def __init__(self, home: CrawlDir, last: Checkpoint | None):
        self.home, self.last = home, last
        self.settings = settings_file.load(home / "fieldmouse.toml")
        self._scope = scope_of(self.settings, seeds_of(self.settings)).joined(sealed_scope(last).joined)
        self._library = Library(home / "archive", sealed_shards(last))
        self.unreadable = 0  # archived responses that could not be read so far

    def rows(self) -> Iterator[OutcomeRow]:
        """Every outcome, oldest first; a URL that was fetched again occurs again."""
        return outcome_log.rows(self.home, length=sealed_outcomes(self.last))

    def links(self) -> Iterator[list[Link]]:
        """The links of each page and each redirect."""
        config = indexer_config(self.home, self.settings, self._scope)
        # Rows are not extracted again, so a missing extract plug-in does no harm.
        guests = Guests(msgspec.structs.replace(config.plugins, extract=""))
        links = Links(config, guests.admission)
        for row in self.rows():
            link = Link(row.url, row.depth, row.via, Kind(row.found_as), row.seen_at)
            if row.kind is OutcomeKind.MOVED and row.target:
                links.begin(row.url)
                yield links.follow(link, Url(row.target), row.at)
            elif row.kind is OutcomeKind.PAGE:
                try:
                    answer = self._library.answer(row.warc, row.offset)
                except _UNREADABLE:
                    self.unreadable += 1
                    continue
                answer = msgspec.structs.replace(answer, ended_at=row.at)
                yield read_contents(link, answer, config, links, guests.readers).links

    def sitemaps(self, host: Host, rules: Exclusion, now: float) -> list[Link]:
        """Requests for the sitemaps that a robots.txt names."""
        if not self.settings.index.sitemaps:
            return []
        base = Url(host + "/robots.txt")
        urls = (resolve(text.strip(), base) for text in rules.sitemaps)
        return [
            Link(url, via=base, kind=Kind.SITEMAP, seen_at=now)
            for url in urls
            if url is not None and self._scope.admits(url, 1)
        ]

    # -- robots.txt

    def robots_txts(self) -> Iterator[tuple[Host, str, Exclusion]]:
        """Host, timestamp and rules of each archived robots.txt."""
        product = self.settings.crawl.product.partition("/")[0]
        wanted: dict[Url, set[Host]] = {}  # redirect targets, and the hosts that redirect there
        for url, stamp, entry in self._robots_lines():
            rules = self._judged(entry, url, product)
            if isinstance(rules, Redirect):
                wanted.setdefault(rules.target, set()).add(host_of(url))
            elif isinstance(rules, Exclusion):
                yield host_of(url), stamp, rules
        for hops in range(1, HOPS + 1):
            further: dict[Url, set[Host]] = {}
            for url, hosts in wanted.items():
                for stamp, entry in self._library.lines_of(url):
                    rules = self._judged(entry, url, product, hops)
                    if isinstance(rules, Redirect):
                        further.setdefault(rules.target, set()).update(hosts)
                    elif isinstance(rules, Exclusion):
                        yield from ((host, stamp, rules) for host in hosts)
            wanted = further

    def _robots_lines(self) -> Iterator[tuple[Url, str, cdxj.Entry]]:
        for shard, state in enumerate(sealed_shards(self.last)):
            for line in log_lines(log_path(self.home / "archive", shard), state.cdxj_length):
                if _ROBOTS_TXT in line:
                    stamp, entry = cdxj.read_line(line)
                    if entry.url == host_of(Url(entry.url)) + "/robots.txt":
                        yield Url(entry.url), stamp, entry

    def _judged(self, entry: cdxj.Entry, url: Url, product: str, hops: int = 0) -> object:
        try:
            answer = self._library.answer(entry.filename, int(entry.offset))
        except _UNREADABLE:
            self.unreadable += 1
            return None
        return judge(answer, url, product, hops)


T = TypeVar("T")

_URLS = 1000  # outcomes per call
_HOSTS = 200  # hosts per call
_LINKS = 1000  # links per call


class RebuiltBoard(msgspec.Struct, frozen=True):
    """Totals of a rebuilt crawl: `seen = booked + waiting`."""

    crawl: str
    directories: int
    seen: int
    booked: int
    waiting: int
    hosts: int
    unreadable: int  # pages and robots.txt files that could not be read from an archive


@dataclass(slots=True)
class _HostFacts:
    """State of a host according to the directories."""

    last_at: float = 0.0  # time of the last request
    pages: int = 0
    robots_txt_at: str = ""
    crawl_delay: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentDirectory:
    """An agent's directory."""

    name: Name
    crawl: ArchivedCrawl

    @property
    def path(self) -> Path:
        return self.crawl.home.path

    @property
    def since(self) -> Heard:
        """The heartbeat mark of a coordinator that is as recent as this directory."""
        return sealed_tellings(self.crawl.last).since

    @property
    def told(self) -> int:
        """Number of the last outbox entry that it has sent or still has to send."""
        return sealed_tellings(self.crawl.last).done

    @property
    def begun_at(self) -> float:
        """Time of creation or of the first outcome, if that is earlier; the crawl began with the oldest."""
        first = next(iter(self.crawl.rows()), None)
        made_at = self.crawl.home.identity.created_at
        return made_at if first is None else min(made_at, first.at)


def rebuild_board(
    boards: Sequence[str],
    crawl: str,
    directories: Sequence[Path],
    tell: Callable[[str], None] = lambda _: None,
) -> RebuiltBoard:
    """Rebuild a crawl on a coordinator that has lost it; `tell` receives progress messages."""
    members = [open_agent(path, crawl) for path in directories]
    _agree(members)

    async def rebuild() -> RebuiltBoard:
        builder = open_builder(boards, crawl)
        try:
            return await rebuild_with(builder, members, crawl, time.time(), tell)
        finally:
            await builder.close()

    return asyncio.run(rebuild())


def open_agent(path: Path, crawl: str) -> AgentDirectory:
    """Open the directory of an agent of that crawl; raises if it is not one, or if it is locked."""
    home = CrawlDir.open(path)
    origin = read_origin(path)
    if origin is None:
        raise UsageError(
            f"the crawl in `{path}` is not an agent of a cluster",
            "name the directories of the agents, all of them",
        )
    if origin.agent and origin.crawl != crawl:  # an agent that never joined has no outcomes
        raise UsageError(
            f"the agent in `{path}` belongs to the crawl `{origin.crawl}`",
            f"name it with `--crawl {typed(origin.crawl)}`, or leave the directory out",
        )
    if (owner := home.owner()) is not None:
        raise CrawlLocked(path, owner)
    last = read_checkpoint(home)
    name = Name(origin.agent, origin.incarnation)
    if not origin.agent:  # its identity file is damaged: the checkpoint has the last name it used
        outbox = sealed_tellings(last)
        name = Name(outbox.agent, outbox.incarnation)
    return AgentDirectory(name, ArchivedCrawl(home, last))


def _agree(members: Sequence[AgentDirectory]) -> None:
    """Raise if these are not agents of one crawl."""
    first = members[0]
    places = {member.path.resolve(): member for member in members}
    if len(places) != len(members):
        raise UsageError("one directory is named twice", "name each of them once")
    for member in members[1:]:
        if member.crawl.home.identity.key_seed != first.crawl.home.identity.key_seed:
            raise UsageError(
                f"`{first.path}` and `{member.path}` are agents of different crawls of the same name",
                "name the directories of one crawl",
            )
        for section in Settings.__struct_fields__:
            ours, theirs = getattr(first.crawl.settings, section), getattr(member.crawl.settings, section)
            for key in ours.__struct_fields__:
                may_differ = decider(section, key) in (Decider.MACHINE, Decider.RUN, Decider.LONGER)
                if not may_differ and getattr(ours, key) != getattr(theirs, key):
                    here, there = (written(each.crawl.settings, section, key) for each in (first, member))
                    raise UsageError(
                        f"`{section}.{key}` is {here} in `{first.path}`, and {there} in `{member.path}`",
                        "their fieldmouse.toml files must agree in all settings of the crawl",
                    )


def _initial_settings(members: Sequence[Settings]) -> Settings:
    """The initial settings of the crawl: agents may lengthen delays, so each delay is the shortest."""
    settings = members[0]
    for section in Settings.__struct_fields__:
        for key in getattr(settings, section).__struct_fields__:
            if decider(section, key) is Decider.LONGER:
                values = [getattr(getattr(member, section), key) for member in members]
                shortest = None if None in values else min(values)
                table = msgspec.structs.replace(getattr(settings, section), **{key: shortest})
                settings = msgspec.structs.replace(settings, **{section: table})
    return settings


async def rebuild_with(
    builder: BoardBuilder,
    members: Sequence[AgentDirectory],
    crawl: str,
    now: float,
    tell: Callable[[str], None] = lambda _: None,
) -> RebuiltBoard:
    """Rebuild with an open connection and opened agents; `now` is epoch seconds."""
    seed = members[0].crawl.home.identity.key_seed
    settings = _initial_settings([member.crawl.settings for member in members])
    seeds = seeds_of(settings)
    made_by = f"fieldmouse/{__version__}"
    charter = Charter(seed, published(settings), tuple(map(str, seeds)), made_by)
    if await builder.clear(seed, [member.since for member in members]):
        tell("the coordinator had an old copy of the crawl, which was cleared")
    if (await builder.hide(charter)).key_seed != seed:
        raise BoardError(
            f"half of another crawl `{crawl}` is on this coordinator: its rebuild was not finished",
            "finish that rebuild first, or name another coordinator",
        )
    hosts: dict[Host, _HostFacts] = {}
    begun_at = now
    for member in members:
        urls = await _restore(builder, member, seed, hosts)
        await builder.note_restored(member.name, member.told)
        if member.since.agent:  # copied directory: the entries that the original had sent by then
            await builder.note_restored(Name(member.since.agent, member.since.incarnation), 0)
        begun_at = min(begun_at, member.begun_at)
        tell(f"`{member.path}` has outcomes of {counted(urls, 'URL')} that no other has")
    named: list[Link] = []
    for member in members:
        for host, stamp, rules in member.crawl.robots_txts():
            facts = hosts.get(host)
            if facts is not None and stamp >= facts.robots_txt_at:
                facts.robots_txt_at, facts.crawl_delay = stamp, sane_delay(rules.crawl_delay)
            named += member.crawl.sitemaps(host, rules, now)
    await _settle_hosts(builder, hosts, settings, now)
    offering = _Offering(builder, settings, seed, now)
    await offering.offer([[Link(url, kind=Kind.SEED, seen_at=now) for url in seeds], named])
    for member in members:
        before = offering.new
        await offering.offer_outbox(member)
        await offering.offer(member.crawl.links())
        tell(f"`{member.path}` leads to {offering.new - before:,} more")
    politeness = politeness_of(settings)
    books = await builder.books()
    delay = max(politeness.delay, politeness.address_delay)
    await builder.publish(settings.cluster.lease, delay, age=now - begun_at)
    unreadable = sum(member.crawl.unreadable for member in members)
    return RebuiltBoard(
        crawl, len(members), books.seen, books.settled, books.waiting, books.hosts, unreadable
    )


async def _restore(
    builder: BoardBuilder, member: AgentDirectory, seed: int, hosts: dict[Host, _HostFacts]
) -> int:
    """Restore all URLs with an outcome as seen and settled, and update the state of their hosts."""
    settings, new = member.crawl.settings, 0
    limits = site_limits_of(settings)
    for rows in _batches(member.crawl.rows(), _URLS):
        by_host: dict[Host, dict[int, OutcomeRow]] = {}
        for row in rows:
            host = host_of(row.url)
            by_host.setdefault(host, {}).setdefault(key_of(row.url, seed), row)
            facts = hosts.setdefault(host, _HostFacts())
            facts.last_at = max(facts.last_at, row.at)
            facts.pages += row.kind == "page" and not row.polled
        restored = [
            RestoredHost(host, limited_site(host), list(keyed), [row.kind.value for row in keyed.values()])
            for host, keyed in by_host.items()
        ]
        urls = [str(row.url) for keyed in by_host.values() for row in keyed.values()]
        packed = pack_urls(urls) if settings.cluster.keep_acked else b""
        new += await builder.restore(member.name, restored, packed, bounded=bool(limits.hosts or limits.urls))
    return new


async def _settle_hosts(
    builder: BoardBuilder, hosts: dict[Host, _HostFacts], settings: Settings, now: float
) -> None:
    politeness = politeness_of(settings)
    for batch in _batches(hosts.items(), _HOSTS):
        luggage = {}
        for host, facts in batch:
            state = HostState(crawl_delay=facts.crawl_delay, pages=facts.pages)
            delay = politeness.host_delay(state)
            rest = min(delay, max(0.0, facts.last_at + delay - now))
            luggage[host] = Luggage(msgspec.msgpack.encode(state), rest=rest, delay=delay)
        await builder.settle_hosts(luggage)


class _Offering:
    """Offers links to the coordinator in batches."""

    def __init__(self, builder: BoardBuilder, settings: Settings, seed: int, now: float):
        limits = site_limits_of(settings)
        self._builder, self._bounds = builder, SiteBounds(limits.hosts, limits.urls)
        self._seed, self._now = seed, now
        self.new = 0

    async def offer(self, links: Iterable[list[Link]]) -> None:
        for batch in _batches(chain.from_iterable(links), _LINKS):
            rows: dict[Host, list[Row]] = {}
            for link in batch:
                host = host_of(link.url)
                row = to_row(link, host, self._now)
                rows.setdefault(host, []).append((key_of(link.url, self._seed), row))
            await self._put(rows)

    async def offer_outbox(self, member: AgentDirectory) -> None:
        """Offer the links in the agent's outbox, including those sent recently."""
        for entry in found_links(member.path / PART, member.crawl.last):
            await self._put({entry.host: entry.links})

    async def _put(self, rows: Mapping[Host, Sequence[Row]]) -> None:
        offers = [Offer(host, limited_site(host), host_rows) for host, host_rows in rows.items()]
        self.new += (await self._builder.offer(offers, self._bounds)).new


def _batches(things: Iterable[T], most: int) -> Iterator[list[T]]:
    rest = iter(things)
    while batch := list(islice(rest, most)):
        yield batch
