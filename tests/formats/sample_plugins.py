"""Plug-ins as users wrote them when the stored crawls were made, with the imports of the guides of that time.

The crawl in `crawl-finished.tar.xz` names `formats.sample_plugins:rows`. Keep the imports as they are:
existing plug-ins have them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TypeVar

from fieldmouse.plugins.page import FoundLink, OutgoingRequest, PageText, ParsedPage, RawPage
from fieldmouse.policy.distribution.host_counts import HostCounts

H = TypeVar("H", bound=Hashable)


def rows(page: ParsedPage) -> Iterator[dict[str, object]]:
    yield {"title": page.title, "words": len(page.text.split())}


def admit(link: FoundLink) -> bool:
    return "never" not in link.url


def read(answer: RawPage) -> PageText:
    return PageText(text=answer.body.decode())


def sign(request: OutgoingRequest) -> dict[str, str]:
    return {"X-Signed": "yes"}


class Plain(HostCounts[H]):
    """A policy of the user's own."""

    def next_queue_to_read(self) -> H | None:
        return None

    def goes_online(self, host: H) -> bool:
        return True
