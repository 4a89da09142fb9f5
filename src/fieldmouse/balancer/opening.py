"""The board that one or several URLs lead to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fieldmouse.balancer.board import Board
from fieldmouse.errors import UsageError


def open_board(urls: Sequence[str], crawl: str) -> Board:
    """Connects to nobody yet. With several URLs, sites are spread over their servers."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", crawl):
        raise UsageError(
            f"`--crawl {crawl}` is no name of a crawl", "use letters, digits, dots, dashes and underscores"
        )
    if not urls:
        raise UsageError("no board is named", "name its server: `--board redis://HOST:6379/0`")
    if len(set(urls)) != len(urls):
        raise UsageError("one board is named twice", "name each server once")
    try:
        from fieldmouse.balancer.redisboard import RedisBoard
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"a board needs `{missing.name}`, which is not installed",
            "install it with `pip install fieldmouse[network]`",
        ) from missing
    if len(urls) > 1:
        raise UsageError("one board carries a crawl; several are named", "name one server with --board")
    return RedisBoard(urls[0], crawl)
