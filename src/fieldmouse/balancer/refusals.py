"""What a board says when it does not do what it was asked, in words that name who asked and what helps."""

from __future__ import annotations

from collections.abc import Sequence

from fieldmouse.balancer.board import Name
from fieldmouse.errors import BoardLost, Fenced, Superseded


def fenced(name: Name) -> Fenced:
    """Its lease ran out, or it left: others have what it held."""
    return Fenced(
        f"the board has given what agent `{name.agent}` held to others",
        "it was not heard of for longer than its lease; it must join again",
    )


def superseded(name: Name) -> Superseded:
    """Somebody newer goes by that name."""
    return Superseded(
        f"a newer start of agent `{name.agent}` has joined the crawl",
        "run one agent a directory, and give a copy of a directory a name of its own",
    )


def vanished(crawl: str) -> BoardLost:
    """There was a crawl, and there is none."""
    return BoardLost(
        f"the board has lost the crawl `{crawl}`: its server knows nothing of it",
        "give the server its data back (its append-only file), or begin another crawl",
    )


def missing(crawl: str, servers: Sequence[str]) -> BoardLost:
    """A crawl lies on several servers, and some of them have lost it, or are none of its own."""
    return BoardLost(
        f"{' and '.join(servers)} knows nothing of the crawl `{crawl}`, of which other servers have a part",
        "give it its data back (its append-only file), or name the servers that the crawl was begun on",
    )
