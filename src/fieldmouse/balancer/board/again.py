"""URLs that were booked by an agent that is lost for good, as they are offered to the others again."""

from __future__ import annotations

from collections.abc import Sequence

from fieldmouse.balancer.board.contract import Row
from fieldmouse.balancer.board.rows import to_row, unpack_urls
from fieldmouse.records import Link
from fieldmouse.url import Host, Url, host_of, key_of


def rows_again(packed: bytes, counted: Sequence[bool], key_seed: int) -> dict[Host, list[Row]]:
    """Rows by host for the URLs that counted; an empty `counted` stands for all of them.

    How a URL was found went with the agent: only the URL itself is known.
    """
    urls = [Url(url) for url in unpack_urls(packed)]
    again: dict[Host, list[Row]] = {}
    for url, its in zip(urls, counted or [True] * len(urls), strict=True):
        if its:
            host = host_of(url)
            again.setdefault(host, []).append((key_of(url, key_seed), to_row(Link(url), host, 0.0)))
    return again
