"""Recording of results in the in-flight table and the frontier.

Fetch workers, the buffer and the indexer report here. A ticket leaves the frontier when its outcome is
durable (`settle`), or is queued again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fieldmouse.agent.crawlscope import CrawlScope
from fieldmouse.agent.desk import Desk
from fieldmouse.agent.fuse import Fuse
from fieldmouse.clock import Clock
from fieldmouse.crawldir import DurableLog
from fieldmouse.frontier.face import CrawlFrontier
from fieldmouse.records import Failed, Kind, Link, Parsed, Refused, Ticket
from fieldmouse.url import Host, Url, resolve


@dataclass(eq=False, slots=True)
class Booking:
    """`follow_sitemaps`: whether sitemaps named by a robots.txt are queued."""

    desk: Desk
    frontier: CrawlFrontier
    outcomes: DurableLog
    fuse: Fuse
    clock: Clock
    scope: CrawlScope
    follow_sitemaps: bool

    def judged(self, ticket: Ticket, outcome: Refused | Failed) -> None:
        """Record an outcome without a response to store."""
        self.desk.note_verdict(ticket.number, outcome)

    def fetch_again(self, number: int) -> None:
        """Queue a page again that found no room or waited too long: the fetch was wasted, but the URL is not
        lost."""
        link = self.desk.taken_back(number)
        with self.fuse:
            self.frontier.again(number, link)

    def retry(self, ticket: Ticket, link: Link) -> None:
        """Queue `link` instead of a ticket whose request failed."""
        self.desk.landed(ticket.number)
        with self.fuse:
            self.frontier.again(ticket.number, link)

    def sitemaps(self, host: Host, found: Sequence[str]) -> None:
        """Queue the sitemaps that a robots.txt names."""
        if not self.follow_sitemaps:
            return
        base, now = Url(host + "/robots.txt"), self.clock.now()
        urls = (resolve(text.strip(), base) for text in found)
        links = [Link(url, via=base, kind=Kind.SITEMAP, seen_at=now) for url in urls if url is not None]
        with self.fuse:
            self.frontier.discover(self.scope.admit(links, depth=1))

    def parsed(self, parsed: Sequence[Parsed]) -> None:
        """Record parsed pages and queue their links."""
        released: list[Link] = []
        for answer in parsed:
            link = self.desk.links.get(answer.number)
            if link is not None:
                released += self.scope.note_answer(link, answer)
            if answer.held:
                released += self.scope.admit(answer.held)
        if links := self.desk.note_parsed(parsed) + released:
            self.frontier.discover(links)

    def take_in(self) -> None:
        """Queue links that are in scope since other agents widened it."""
        if links := self.scope.take_in():
            self.frontier.discover(links)

    def undone(self, numbers: Sequence[int]) -> int:
        """Queue the tickets of a dead worker process again; returns their number."""
        again = self.desk.note_undone(numbers)
        for number, link in again:
            self.frontier.again(number, link)
        return len(again)

    def settle(self, batches: Sequence[int], seconds: float) -> None:
        """Finish everything that is durable: shard i up to batch `batches[i]`, and all verdicts."""
        settled, rows = self.desk.settle(batches)
        for row in rows:
            self.outcomes.append(row)
        self.scope.note_settled(rows)
        self.frontier.done(settled)
        self.desk.tally.note_seconds(seconds)
