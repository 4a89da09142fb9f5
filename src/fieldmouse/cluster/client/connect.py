"""Factory of coordinators: the one behind a URL, or a sharded one for several URLs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fieldmouse.cluster.coordinator import Board, Charter
from fieldmouse.cluster.rebuild import BoardBuilder
from fieldmouse.cluster.sharded.coordinator import SpreadBoard
from fieldmouse.cluster.sharded.rebuild import SpreadBuilder
from fieldmouse.cluster.sharded.servers import check_whole
from fieldmouse.errors import UsageError


def open_board(urls: Sequence[str], crawl: str) -> Board:
    """Coordinator of a crawl; connects later. With several URLs, sites are sharded over their servers."""
    labels = _labels(urls, crawl)
    from fieldmouse.cluster.redis.coordinator import RedisBoard

    boards = {label: RedisBoard(url, crawl) for label, url in zip(labels, urls, strict=True)}
    return SpreadBoard(boards, crawl) if len(urls) > 1 else boards[labels[0]]


def open_builder(urls: Sequence[str], crawl: str) -> BoardBuilder:
    """Builder of a crawl that is rebuilt; otherwise as above."""
    labels = _labels(urls, crawl)
    from fieldmouse.cluster.redis.coordinator import RedisBoard
    from fieldmouse.cluster.redis.rebuild import RedisBuilder

    boards = {label: RedisBoard(url, crawl) for label, url in zip(labels, urls, strict=True)}
    builders = {label: RedisBuilder(url, crawl) for label, url in zip(labels, urls, strict=True)}
    return SpreadBuilder(builders, boards, crawl) if len(urls) > 1 else builders[labels[0]]


def _labels(urls: Sequence[str], crawl: str) -> list[str]:
    """Names of the servers for people. Raises `UsageError` if a URL or the crawl's name is invalid."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", crawl):
        raise UsageError(
            f"`--crawl {crawl}` is no name of a crawl", "use letters, digits, dots, dashes and underscores"
        )
    if not urls:
        raise UsageError("no coordinator is named", "name its server: `--coordinator redis://HOST:6379/0`")
    try:
        from fieldmouse.cluster.redis.connection import label_of
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"a coordinator needs `{missing.name}`, which is not installed",
            "install it with `pip install fieldmouse[network]`",
        ) from missing
    labels = [label_of(url) for url in urls]
    if len(set(labels)) != len(labels):
        raise UsageError("one coordinator is named twice", "name each server once")
    return labels


async def crawls_of(urls: Sequence[str]) -> list[str]:
    """Names of all crawls on these servers."""
    _labels(urls, "any")
    from fieldmouse.cluster.redis.coordinator import crawls_on

    return sorted(set[str]().union(*[await crawls_on(url) for url in urls]))


async def charter_of(board: Board, crawl: str) -> Charter | None:
    """Specification of the crawl, None if there is none.

    Raises `UsageError` if the crawl lies on other servers than were named.
    """
    charter = await board.charter()
    if charter is not None:
        check_whole(charter, crawl)
    return charter
