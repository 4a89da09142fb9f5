"""Pages that were added to the scope of a crawl, shared by its agents through the coordinator.

Redirects of seeds add them (`crawler/scope.py`).

An agent publishes a page before it acknowledges the page's outcome. So an agent that learns that no URL
waits has already received all added pages.
"""

from __future__ import annotations

from collections.abc import Iterable

from fieldmouse.url import Url


class SharedScope:
    """URLs to publish, and URLs received from other agents."""

    def __init__(self) -> None:
        self.unpublished: list[Url] = []
        self._known: dict[Url, None] = {}  # published or received, in order
        self._received: list[Url] = []

    def __len__(self) -> int:
        """Number of pages that the coordinator has, as far as this agent can tell."""
        return len(self._known) - len(self.unpublished)

    def publish(self, urls: Iterable[Url]) -> None:
        """Send these to the other agents, each once."""
        fresh = [url for url in dict.fromkeys(urls) if url not in self._known]
        self.unpublished += fresh
        self._known.update(dict.fromkeys(fresh))

    def mark_published(self, urls: Iterable[Url]) -> None:
        """Mark these as published."""
        gone = set(urls)
        self.unpublished = [url for url in self.unpublished if url not in gone]

    def publish_again(self) -> None:
        """Publish all again: a restarted server may have lost the last ones."""
        self.unpublished = list(self._known)

    def receive(self, urls: Iterable[Url]) -> None:
        for url in urls:
            if url not in self._known:
                self._known[url] = None
                self._received.append(url)

    def take_received(self) -> list[Url]:
        """URLs received since the last call."""
        heard, self._received = self._received, []
        return heard
