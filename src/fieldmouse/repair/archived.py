"""Links of the pages in an archive, extracted again as the workers extracted them.

Links are not stored: they were sent to the coordinator. The links of a page follow from the page, its
settings and their plug-ins; a redirect from its row; sitemaps from the archived robots.txt files.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fieldmouse import settings as settings_file
from fieldmouse.agent.asked import indexer_config
from fieldmouse.crawldir import Checkpoint, CrawlDir, outcomes, sealed_outcomes, sealed_scope
from fieldmouse.indexer import cdxj
from fieldmouse.indexer.archive import log_path
from fieldmouse.indexer.audit import log_lines
from fieldmouse.indexer.contents import read_contents
from fieldmouse.indexer.guests import Guests
from fieldmouse.indexer.library import Library
from fieldmouse.indexer.links import Links
from fieldmouse.indexer.warcs import Torn
from fieldmouse.indexer.wire import sealed_shards
from fieldmouse.outcome import OutcomeKind
from fieldmouse.records import Kind, Link, OutcomeRow
from fieldmouse.settings.rules import scope_of, seeds_of
from fieldmouse.url import Host, Url, host_of, resolve
from fieldmouse.web.exclusion import HOPS, Exclusion, Redirect, judge

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
        return outcomes.rows(self.home, length=sealed_outcomes(self.last))

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
