"""URLs acknowledged by a lost agent, as they are offered to the other agents again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fieldmouse.balancer.board.contract import Row
from fieldmouse.balancer.board.decoding import urls_of
from fieldmouse.balancer.board.rows import to_row
from fieldmouse.records import Link
from fieldmouse.url import Host, host_of, key_of, parse


class BookedAgain:
    """The URLs of a batch that are sent out again: rows by host, and the kinds of their outcomes.

    Left out are URLs that did not count (an empty `counted` means that all counted), and URLs that their
    agent retried since: each key as often as `retried` has it, which is lowered by that. How a URL was
    found is lost with the agent; only the URL is known. Raises `ValueError` if `urls` are no URLs with
    kinds.
    """

    def __init__(
        self, urls: bytes, counted: Sequence[bool], kinds: Sequence[str], retried: Counter[int], key_seed: int
    ):
        self.hosts: dict[Host, tuple[list[Row], list[str]]] = {}
        self.left: list[int] = []  # keys that were retried
        texts = urls_of(urls)
        for text, counts, kind in zip(texts, counted or [True] * len(texts), kinds, strict=True):
            if (url := parse(text)) is None:
                continue  # not fetchable
            key = key_of(url, key_seed)
            if counts and retried[key] > 0:
                retried[key] -= 1
                self.left.append(key)
            elif counts:
                host = host_of(url)
                rows, host_kinds = self.hosts.setdefault(host, ([], []))
                rows.append((key, to_row(Link(url), host, 0.0)))
                host_kinds.append(kind)
