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
from fieldmouse.archive import warc_writer
from fieldmouse.archive.warc_reader import UnreadableMember, read_cdxj_lines
from fieldmouse.archive.warc_writer import cdxj_log_path
from fieldmouse.cluster import coordinator
from fieldmouse.cluster.client.coordinator_outbox import CHECKPOINT_PART, outbox_state_of, stored_link_messages
from fieldmouse.cluster.client.identity import read_original_identity
from fieldmouse.cluster.client.session import open_rebuilder
from fieldmouse.cluster.decoding import encode_row, pack_urls
from fieldmouse.config import settings_file
from fieldmouse.config.rules_from_settings import scope_of, seeds_of, site_limits_of
from fieldmouse.config.settings_file import SettingAuthority, Settings, authority_over, redacted_value, render_published
from fieldmouse.crawler.builder import politeness_policy, worker_config
from fieldmouse.errors import CoordinatorError, CrawlLocked, UsageError, shell_quoted
from fieldmouse.formatting import format_count
from fieldmouse.parse.content import read_page_content
from fieldmouse.parse.links import LinkExtractor
from fieldmouse.policy.politeness import clamp_crawl_delay
from fieldmouse.policy.scope import site_for_limits
from fieldmouse.reader.snapshot import CrawlSnapshot
from fieldmouse.robotstxt.parser import MAX_REDIRECTS, RobotsTxt, RobotsTxtRedirect, interpret_response
from fieldmouse.storage.checkpoint import Checkpoint, read_checkpoint, sealed_scope, shard_states
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.host_state import HostState
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Host, Url, host_of, key_of, resolve
from fieldmouse.workers.shard_writer import WorkerPlugins

_ROBOTS_TXT = b'/robots.txt"'
_UNREADABLE = (UnreadableMember, OSError, ValueError, KeyError)
#: URL of a robots.txt, the hosts that it applies to, its timestamp and its CDXJ line.
_RobotsAnswer = tuple[Url, set[Host], str, warc_writer.CdxjEntry]


class AgentDirectory(CrawlSnapshot):
    """An agent's directory as of its last checkpoint."""

    def __init__(self, name: coordinator.AgentId, home: CrawlDir, last: Checkpoint | None):
        super().__init__(home, last)
        self.name = name
        self.settings = settings_file.load(home / "fieldmouse.toml")
        self._scope = scope_of(self.settings, seeds_of(self.settings)).with_seeds(sealed_scope(last).joined)
        self.unreadable = 0  # archived responses that could not be read so far
        outbox = outbox_state_of(last)
        self.heartbeat_mark = outbox.since  # that of a coordinator which is as recent as this directory
        self.last_outbox_number = outbox.done  # the last entry that it has sent or still has to send

    @property
    def crawl_began_at(self) -> float:
        """Time of creation or of the first outcome, if that is earlier; the crawl began with the oldest."""
        first = next(iter(self.rows()), None)
        made_at = self.home.identity.created_at
        return made_at if first is None else min(made_at, first.at)

    def archived_links(self) -> Iterator[list[Request]]:
        """The links of each page and each redirect."""
        config = worker_config(self.home, self.settings, self._scope)
        # Rows are not extracted again, so a missing extract plug-in does no harm.
        guests = WorkerPlugins(msgspec.structs.replace(config.plugins, extract=""))
        links = LinkExtractor(config, guests.link_filter)
        for row in self.rows():
            link = Request(row.url, row.depth, row.via, RequestKind(row.found_as), row.seen_at)
            if row.kind is OutcomeKind.MOVED and row.target:
                links.start_page(row.url)
                yield links.redirect_link(link, Url(row.target), row.at)
            elif row.kind is OutcomeKind.PAGE:
                try:
                    answer = self.record_reader.read_response(row.warc, row.offset)
                except _UNREADABLE:
                    self.unreadable += 1
                    continue
                answer = msgspec.structs.replace(answer, ended_at=row.at)
                yield read_page_content(link, answer, config, links, guests.readers).links

    def build_sitemap_requests(self, host: Host, rules: RobotsTxt, now: float) -> list[Request]:
        """Requests for the sitemaps that a robots.txt names."""
        if not self.settings.index.sitemaps:
            return []
        base = Url(host + "/robots.txt")
        urls = (resolve(text.strip(), base) for text in rules.sitemaps)
        return [
            Request(url, via=base, kind=RequestKind.SITEMAP, seen_at=now)
            for url in urls
            if url is not None and self._scope.admits(url, 1)
        ]

    # -- robots.txt

    def archived_robots_txt(self) -> Iterator[tuple[Host, str, RobotsTxt]]:
        """Host, timestamp and rules of each archived robots.txt."""
        product = self.settings.crawl.product.partition("/")[0]
        answers: Iterable[_RobotsAnswer] = self._robots_txt_entries()
        for hops in range(MAX_REDIRECTS + 1):
            redirected: dict[Url, set[Host]] = {}  # redirect targets, and the hosts that redirect there
            for url, hosts, stamp, entry in answers:
                rules = self._interpret_robots_txt(entry, url, product, hops)
                if isinstance(rules, RobotsTxtRedirect):
                    redirected.setdefault(rules.target, set()).update(hosts)
                elif isinstance(rules, RobotsTxt):
                    yield from ((host, stamp, rules) for host in hosts)
            answers = [
                (url, hosts, *line)
                for url, hosts in redirected.items()
                for line in self.record_reader.cdxj_entries_of_url(url)
            ]

    def _robots_txt_entries(self) -> Iterator[_RobotsAnswer]:
        for shard, state in enumerate(shard_states(self.last)):
            for line in read_cdxj_lines(cdxj_log_path(self.home / "archive", shard), state.cdxj_length):
                if _ROBOTS_TXT in line:
                    stamp, entry = warc_writer.parse_cdxj_line(line)
                    host = host_of(Url(entry.url))
                    if entry.url == host + "/robots.txt":
                        yield Url(entry.url), {host}, stamp, entry

    def _interpret_robots_txt(self, entry: warc_writer.CdxjEntry, url: Url, product: str, hops: int) -> object:
        try:
            answer = self.record_reader.read_response(entry.filename, int(entry.offset))
        except _UNREADABLE:
            self.unreadable += 1
            return None
        return interpret_response(answer, url, product, hops)


T = TypeVar("T")

_URLS = 1000  # outcomes per call
_HOSTS = 200  # hosts per call
_LINKS = 1000  # links per call


class RebuildSummary(msgspec.Struct, frozen=True):
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


def rebuild_on_coordinator(
    coordinators: Sequence[str],
    crawl: str,
    directories: Sequence[Path],
    progress: Callable[[str], None] = lambda _: None,
) -> RebuildSummary:
    """Rebuild a crawl on a coordinator that has lost it; `progress` receives messages."""
    members = [open_agent_directory(path, crawl) for path in directories]
    _check_same_crawl(members)

    async def rebuild() -> RebuildSummary:
        builder = open_rebuilder(coordinators, crawl)
        try:
            return await rebuild_with_agents(builder, members, crawl, time.time(), progress)
        finally:
            await builder.close()

    return asyncio.run(rebuild())


def open_agent_directory(path: Path, crawl: str) -> AgentDirectory:
    """Open the directory of an agent of that crawl; raises if it is not one, or if it is locked."""
    home = CrawlDir.open(path)
    origin = read_original_identity(path)
    if origin is None:
        raise UsageError(
            f"the crawl in `{path}` is not an agent of a cluster", "name the directories of the agents, all of them"
        )
    if origin.agent and origin.crawl != crawl:  # an agent that never joined has no outcomes
        raise UsageError(
            f"the agent in `{path}` belongs to the crawl `{origin.crawl}`",
            f"name it with `--crawl {shell_quoted(origin.crawl)}`, or leave the directory out",
        )
    if (owner := home.owner_pid()) is not None:
        raise CrawlLocked(path, owner)
    last = read_checkpoint(home)
    name = coordinator.AgentId(origin.agent, origin.incarnation)
    if not origin.agent:  # its identity file is damaged: the checkpoint has the last name it used
        outbox = outbox_state_of(last)
        name = coordinator.AgentId(outbox.agent, outbox.incarnation)
    return AgentDirectory(name, home, last)


def _check_same_crawl(members: Sequence[AgentDirectory]) -> None:
    """Raise if these are not agents of one crawl."""
    first = members[0]
    places = {member.home.path.resolve(): member for member in members}
    if len(places) != len(members):
        raise UsageError("one directory is named twice", "name each of them once")
    for member in members[1:]:
        if member.home.identity.key_seed != first.home.identity.key_seed:
            raise UsageError(
                f"`{first.home.path}` and `{member.home.path}` are agents of different crawls of the same name",
                "name the directories of one crawl",
            )
        for section, key, authority in _setting_keys():
            ours, theirs = (getattr(getattr(each.settings, section), key) for each in (first, member))
            if (
                authority not in (SettingAuthority.MACHINE, SettingAuthority.RUN, SettingAuthority.LONGER)
                and ours != theirs
            ):
                here, there = (redacted_value(each.settings, section, key) for each in (first, member))
                raise UsageError(
                    f"`{section}.{key}` is {here} in `{first.home.path}`, and {there} in `{member.home.path}`",
                    "their fieldmouse.toml files must agree in all settings of the crawl",
                )


def _setting_keys() -> Iterator[tuple[str, str, SettingAuthority]]:
    """Section, key and authority of every setting."""
    for section in Settings.__struct_fields__:
        for key in getattr(Settings(), section).__struct_fields__:
            yield section, key, authority_over(section, key)


def _initial_settings(members: Sequence[Settings]) -> Settings:
    """The initial settings of the crawl: agents may lengthen delays, so each delay is the shortest."""
    settings = members[0]
    for section, key, authority in _setting_keys():
        if authority is SettingAuthority.LONGER:
            values = [getattr(getattr(member, section), key) for member in members]
            shortest = None if None in values else min(values)
            table = msgspec.structs.replace(getattr(settings, section), **{key: shortest})
            settings = msgspec.structs.replace(settings, **{section: table})
    return settings


async def rebuild_with_agents(
    builder: coordinator.CrawlRebuilder,
    members: Sequence[AgentDirectory],
    crawl: str,
    now: float,
    progress: Callable[[str], None] = lambda _: None,
) -> RebuildSummary:
    """Rebuild with an open connection and opened agents; `now` is epoch seconds."""
    seed = members[0].home.identity.key_seed
    settings = _initial_settings([member.settings for member in members])
    seeds = seeds_of(settings)
    made_by = f"fieldmouse/{__version__}"
    spec = coordinator.CrawlSpec(seed, render_published(settings), tuple(map(str, seeds)), made_by)
    if await builder.clear_outdated_crawl(seed, [member.heartbeat_mark for member in members]):
        progress("the coordinator had an old copy of the crawl, which was cleared")
    if (await builder.begin_hidden(spec)).key_seed != seed:
        raise CoordinatorError(
            f"half of another crawl `{crawl}` is on this coordinator: its rebuild was not finished",
            "finish that rebuild first, or name another coordinator",
        )
    hosts: dict[Host, _HostFacts] = {}
    begun_at = now
    for member in members:
        urls = await _restore_outcomes(builder, member, seed, hosts)
        await builder.mark_agent_restored(member.name, member.last_outbox_number)
        if member.heartbeat_mark.agent:  # copied directory: the entries that the original had sent by then
            await builder.mark_agent_restored(
                coordinator.AgentId(member.heartbeat_mark.agent, member.heartbeat_mark.incarnation), 0
            )
        begun_at = min(begun_at, member.crawl_began_at)
        progress(f"`{member.home.path}` has outcomes of {format_count(urls, 'URL')} that no other has")
    named: list[Request] = []
    for member in members:
        for host, stamp, rules in member.archived_robots_txt():
            facts = hosts.get(host)
            if facts is not None and stamp >= facts.robots_txt_at:
                facts.robots_txt_at, facts.crawl_delay = stamp, clamp_crawl_delay(rules.crawl_delay)
            named += member.build_sitemap_requests(host, rules, now)
    await _restore_hosts(builder, hosts, settings, now)
    offering = _LinkOfferSender(builder, settings, seed, now)
    await offering.offer([[Request(url, kind=RequestKind.SEED, seen_at=now) for url in seeds], named])
    for member in members:
        before = offering.new
        await offering.offer_outbox(member)
        await offering.offer(member.archived_links())
        progress(f"`{member.home.path}` leads to {offering.new - before:,} more")
    totals = await builder.totals()
    politeness = politeness_policy(settings)
    delay = max(politeness.delay, politeness.address_delay)
    await builder.publish_crawl(settings.cluster.lease, delay, age=now - begun_at)
    unreadable = sum(member.unreadable for member in members)
    return RebuildSummary(crawl, len(members), totals.seen, totals.settled, totals.waiting, totals.hosts, unreadable)


async def _restore_outcomes(
    builder: coordinator.CrawlRebuilder, member: AgentDirectory, seed: int, hosts: dict[Host, _HostFacts]
) -> int:
    """Restore all URLs with an outcome as seen and settled, and update the state of their hosts."""
    settings, new = member.settings, 0
    limits = site_limits_of(settings)
    for rows in _batches(member.rows(), _URLS):
        by_host: dict[Host, dict[int, OutcomeRow]] = {}
        for row in rows:
            host = host_of(row.url)
            by_host.setdefault(host, {}).setdefault(key_of(row.url, seed), row)
            facts = hosts.setdefault(host, _HostFacts())
            facts.last_at = max(facts.last_at, row.at)
            facts.pages += row.kind == "page" and not row.polled
        restored = [
            coordinator.RestoredOutcomes(
                host, site_for_limits(host), list(keyed), [row.kind.value for row in keyed.values()]
            )
            for host, keyed in by_host.items()
        ]
        urls = [str(row.url) for keyed in by_host.values() for row in keyed.values()]
        packed = pack_urls(urls) if settings.cluster.keep_acked else b""
        new += await builder.restore_outcomes(member.name, restored, packed, bounded=bool(limits.hosts or limits.urls))
    return new


async def _restore_hosts(
    builder: coordinator.CrawlRebuilder, hosts: dict[Host, _HostFacts], settings: Settings, now: float
) -> None:
    politeness = politeness_policy(settings)
    for batch in _batches(hosts.items(), _HOSTS):
        payloads = {}
        for host, facts in batch:
            state = HostState(crawl_delay=facts.crawl_delay, pages=facts.pages)
            delay = politeness.host_delay(state)
            rest = min(delay, max(0.0, facts.last_at + delay - now))
            payloads[host] = coordinator.HostPayload(msgspec.msgpack.encode(state), rest=rest, delay=delay)
        await builder.restore_host_payloads(payloads)


class _LinkOfferSender:
    """Offers links to the coordinator in batches."""

    def __init__(self, builder: coordinator.CrawlRebuilder, settings: Settings, seed: int, now: float):
        limits = site_limits_of(settings)
        self._builder, self._bounds = builder, coordinator.SiteBounds(limits.hosts, limits.urls)
        self._seed, self._now = seed, now
        self.new = 0

    async def offer(self, links: Iterable[list[Request]]) -> None:
        for batch in _batches(chain.from_iterable(links), _LINKS):
            rows: dict[Host, list[coordinator.Row]] = {}
            for link in batch:
                host = host_of(link.url)
                row = encode_row(link, host, self._now)
                rows.setdefault(host, []).append((key_of(link.url, self._seed), row))
            await self._offer_rows(rows)

    async def offer_outbox(self, member: AgentDirectory) -> None:
        """Offer the links in the agent's outbox, including those sent recently."""
        for entry in stored_link_messages(member.home.path / CHECKPOINT_PART, member.last):
            await self._offer_rows({entry.host: entry.links})

    async def _offer_rows(self, rows: Mapping[Host, Sequence[coordinator.Row]]) -> None:
        offers = [coordinator.LinkOffer(host, site_for_limits(host), host_rows) for host, host_rows in rows.items()]
        self.new += (await self._builder.offer_links(offers, self._bounds)).new


def _batches(things: Iterable[T], most: int) -> Iterator[list[T]]:
    rest = iter(things)
    while batch := list(islice(rest, most)):
        yield batch
