"""Factory of coordinators: the one behind a URL, or a sharded one for several URLs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fieldmouse.cluster.coordinator import Coordinator, CrawlSpec
from fieldmouse.cluster.rebuild import CrawlRebuilder
from fieldmouse.cluster.sharded.coordinator import ShardedCoordinator
from fieldmouse.cluster.sharded.rebuild import ShardedRebuilder
from fieldmouse.cluster.sharded.servers import check_not_sharded
from fieldmouse.errors import UsageError


def open_coordinator(urls: Sequence[str], crawl: str) -> Coordinator:
    """Coordinator of a crawl; connects later. With several URLs, sites are sharded over their servers."""
    labels = _labels(urls, crawl)
    from fieldmouse.cluster.redis.coordinator import RedisCoordinator

    boards = {label: RedisCoordinator(url, crawl) for label, url in zip(labels, urls, strict=True)}
    return ShardedCoordinator(boards, crawl) if len(urls) > 1 else boards[labels[0]]


def open_rebuilder(urls: Sequence[str], crawl: str) -> CrawlRebuilder:
    """Builder of a crawl that is rebuilt; otherwise as above."""
    labels = _labels(urls, crawl)
    from fieldmouse.cluster.redis.coordinator import RedisCoordinator
    from fieldmouse.cluster.redis.rebuild import RedisRebuilder

    boards = {label: RedisCoordinator(url, crawl) for label, url in zip(labels, urls, strict=True)}
    builders = {label: RedisRebuilder(url, crawl) for label, url in zip(labels, urls, strict=True)}
    return ShardedRebuilder(builders, boards, crawl) if len(urls) > 1 else builders[labels[0]]


def _labels(urls: Sequence[str], crawl: str) -> list[str]:
    """Names of the servers for people. Raises `UsageError` if a URL or the crawl's name is invalid."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", crawl):
        raise UsageError(
            f"`--crawl {crawl}` is no name of a crawl", "use letters, digits, dots, dashes and underscores"
        )
    if not urls:
        raise UsageError("no coordinator is named", "name its server: `--coordinator redis://HOST:6379/0`")
    try:
        from fieldmouse.cluster.redis.connection import url_label
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"a coordinator needs `{missing.name}`, which is not installed",
            "install it with `pip install fieldmouse[network]`",
        ) from missing
    labels = [url_label(url) for url in urls]
    if len(set(labels)) != len(labels):
        raise UsageError("one coordinator is named twice", "name each server once")
    return labels


async def list_crawls_on(urls: Sequence[str]) -> list[str]:
    """Names of all crawls on these servers."""
    _labels(urls, "any")
    from fieldmouse.cluster.redis.coordinator import list_crawls

    return sorted(set[str]().union(*[await list_crawls(url) for url in urls]))


async def read_crawl_spec(board: Coordinator, crawl: str) -> CrawlSpec | None:
    """Specification of the crawl, None if there is none.

    Raises `UsageError` if the crawl lies on other servers than were named.
    """
    charter = await board.crawl_spec()
    if charter is not None:
        check_not_sharded(charter, crawl)
    return charter
