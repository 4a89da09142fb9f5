"""What the pages in a crawl's archive lead to, read again as their workers read it.

Links are not kept: they were told to the board, which had them. What a page links to follows from the page,
its settings and the plug-ins they name; a redirect from its row; sitemaps from the robots.txt files,
which are archived, too.
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
        self.unreadable = 0  # answers that count and cannot be had, so far

    def rows(self) -> Iterator[OutcomeRow]:
        """Every URL whose fate is known, oldest first; one that was fetched again comes again."""
        return outcomes.rows(self.home, length=sealed_outcomes(self.last))

    def links(self) -> Iterator[list[Link]]:
        """The links of each page and each redirect."""
        config = indexer_config(self.home, self.settings, self._scope)
        # Rows were extracted once, and nobody needs a plug-in that is gone since.
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
        """The sitemaps that a robots.txt names, as links."""
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
        """Each robots.txt that was read: whose it is, when it came, and what it says."""
        product = self.settings.crawl.product.partition("/")[0]
        wanted: dict[Url, set[Host]] = {}  # where redirects lead, and for whom
        for url, stamp, entry in self._robots_lines():
            found = self._judged(entry, url, product)
            if isinstance(found, Redirect):
                wanted.setdefault(found.target, set()).add(host_of(url))
            elif isinstance(found, Exclusion):
                yield host_of(url), stamp, found
        for hops in range(1, HOPS + 1):
            further: dict[Url, set[Host]] = {}
            for url, hosts in wanted.items():
                for stamp, entry in self._library.lines_of(url):
                    found = self._judged(entry, url, product, hops)
                    if isinstance(found, Redirect):
                        further.setdefault(found.target, set()).update(hosts)
                    elif isinstance(found, Exclusion):
                        yield from ((host, stamp, found) for host in hosts)
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
