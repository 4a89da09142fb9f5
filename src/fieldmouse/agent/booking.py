"""What is said of a ticket, booked: at the desk, and in the frontier that waits for it.

Robots, the buffer and the indexer say what became of a page; here is where that changes the
books. A ticket leaves the frontier when its outcome is durable (`settle`), or goes out again.
"""

from __future__ import annotations

from collections.abc import Sequence

from fieldmouse.agent.crawlscope import CrawlScope
from fieldmouse.agent.desk import Desk
from fieldmouse.agent.fuse import Fuse
from fieldmouse.clock import Clock
from fieldmouse.crawldir import DurableLog
from fieldmouse.frontier.face import CrawlFrontier
from fieldmouse.records import Failed, Kind, Link, Parsed, Refused, Ticket
from fieldmouse.url import Host, Url, resolve


class Booking:
    def __init__(
        self, *, desk: Desk, frontier: CrawlFrontier, outcomes: DurableLog, fuse: Fuse, clock: Clock,
        scope: CrawlScope, sitemaps: bool,
    ):  # fmt: skip
        self.desk, self._frontier, self._outcomes, self._fuse = desk, frontier, outcomes, fuse
        self._clock, self._scope, self._sitemaps = clock, scope, sitemaps

    def judged(self, ticket: Ticket, outcome: Refused | Failed) -> None:
        """There is no answer to store, and there will be none."""
        self.desk.note_verdict(ticket.number, outcome)

    def fetch_again(self, number: int) -> None:
        """The page found no room, or waited too long: the fetch was wasted, the URL is not lost."""
        link = self.desk.taken_back(number)
        with self._fuse:
            self._frontier.again(number, link)

    def retry(self, ticket: Ticket, link: Link) -> None:
        """The request led nowhere: visit `link` instead."""
        self.desk.landed(ticket.number)
        with self._fuse:
            self._frontier.again(ticket.number, link)

    def sitemaps(self, host: Host, found: Sequence[str]) -> None:
        """A robots.txt names these."""
        if not self._sitemaps:
            return
        base, now = Url(host + "/robots.txt"), self._clock.now()
        urls = (resolve(text.strip(), base) for text in found)
        links = [Link(url, via=base, kind=Kind.SITEMAP, seen_at=now) for url in urls if url is not None]
        with self._fuse:
            self._frontier.discover(self._scope.admit(links, depth=1))

    def parsed(self, parsed: Sequence[Parsed]) -> None:
        """The indexer has read these pages, and found links in them."""
        more: list[Link] = []
        for answer in parsed:
            link = self.desk.links.get(answer.number)
            if link is not None:
                more += self._scope.note_answer(link, answer)
            if answer.held:
                more += self._scope.admit(answer.held)
        found = self.desk.note_parsed(parsed) + more
        if found:
            self._frontier.discover(found)

    def take_in(self) -> None:
        """Follow links to what other agents took into the scope."""
        if links := self._scope.take_in():
            self._frontier.discover(links)

    def undone(self, numbers: Sequence[int]) -> int:
        """A worker died with these; returns how many are fetched again."""
        again = self.desk.note_undone(numbers)
        for number, link in again:
            self._frontier.again(number, link)
        return len(again)

    def settle(self, batches: Sequence[int], seconds: float) -> None:
        """Take all that is durable: shard i up to its batch `batches[i]`, and all verdicts."""
        settled, rows = self.desk.settle(batches)
        for row in rows:
            self._outcomes.append(row)
        self._scope.note_settled(rows)
        self._frontier.done(settled)
        self.desk.tally.note_seconds(seconds)
