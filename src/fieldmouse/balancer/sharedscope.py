"""Pages that joined the scope of a crawl, shared by its agents through the coordinator.

They join by redirects of seeds (`agent/crawlscope.py`).

An agent publishes a page before it acknowledges the page's outcome. So when nothing waits any more, every
agent that hears so has heard of all pages that joined.
"""

from __future__ import annotations

from collections.abc import Iterable

from fieldmouse.url import Url


class SharedScope:
    """URLs to publish, and URLs that were heard of."""

    def __init__(self) -> None:
        self.unsent: list[Url] = []
        self._known: dict[Url, None] = {}  # published or heard of, in order
        self._heard: list[Url] = []

    def __len__(self) -> int:
        """How many the coordinator has, as far as we know."""
        return len(self._known) - len(self.unsent)

    def publish(self, urls: Iterable[Url]) -> None:
        """Tell the others of these, each once."""
        fresh = [url for url in dict.fromkeys(urls) if url not in self._known]
        self.unsent += fresh
        self._known.update(dict.fromkeys(fresh))

    def sent(self, urls: Iterable[Url]) -> None:
        """These were published."""
        gone = set(urls)
        self.unsent = [url for url in self.unsent if url not in gone]

    def publish_again(self) -> None:
        """The server was started again, and may have forgotten what it was told last."""
        self.unsent = list(self._known)

    def hear(self, urls: Iterable[Url]) -> None:
        for url in urls:
            if url not in self._known:
                self._known[url] = None
                self._heard.append(url)

    def take_heard(self) -> list[Url]:
        """Those heard of since the last call."""
        heard, self._heard = self._heard, []
        return heard
