"""What a board says when it does not do what it was asked, in words that name who asked and what helps."""

from __future__ import annotations

from collections.abc import Sequence

from fieldmouse.balancer.board.contract import Charter, Name
from fieldmouse.errors import BoardError, BoardLost, Fenced, Superseded
from fieldmouse.figures import listed

REMEDY = (
    "give the server its data back (its append-only file), or make the board again from the directories"
    " of all agents: `fieldmouse cluster rebuild DIR... --coordinator URL`, with the same `--crawl`"
)
"""What helps whose board was lost."""


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
        REMEDY,
    )


def older(agent: str, label: str = "") -> BoardLost:
    """It has forgotten more than agents can tell it again."""
    return BoardLost(
        f"the board{label and f' at {label}'} has an old copy of its data: it has forgotten what"
        f" agent `{agent}` told it",
        REMEDY,
    )


def outdated(agent: str) -> BoardError:
    """The board knows more of an agent than the agent does."""
    return BoardError(
        f"the directory of agent `{agent}` is an old copy: the board knows of more than it has",
        "bring its newest state back; if that is lost, begin in another directory, and have all that it had"
        f" fetched again: `fieldmouse cluster forget {agent} --again --coordinator URL`",
    )


def check_same(charter: Charter | None, key_seed: int) -> None:
    """Raise if the board was lost, and somebody began another crawl on it."""
    if charter is not None and charter.key_seed != key_seed:
        raise BoardLost(
            "the board has another crawl of that name now, and knows nothing of the one this agent is of",
            "begin new crawls under a name of their own (--crawl NAME)",
        )


def hidden(crawl: str) -> BoardError:
    """It is being made again, and not all of it is there."""
    return BoardError(
        f"the crawl `{crawl}` is being made again on this board",
        "wait for `fieldmouse cluster rebuild` to end; if it was stopped, run it again",
    )


def occupied(crawl: str) -> BoardError:
    """A crawl is there, and nobody asked to lose it."""
    return BoardError(
        f"the board has a crawl `{crawl}`, and it is not empty",
        "only a crawl that the board has lost, or has an old copy of, can be made again; `fieldmouse cluster"
        " status` shows this one",
    )


def awake_there(crawl: str, agents: Sequence[str]) -> BoardError:
    """An old copy, by the directories at hand, and yet others crawl with it."""
    return BoardError(
        f"the board's crawl `{crawl}` lacks what these directories told it, but {listed(agents)} crawl"
        f"{'s' * (len(agents) == 1)} with it",
        "if the board is to be made again, stop all agents first, and name the directories of all of them",
    )


def missing(crawl: str, servers: Sequence[str]) -> BoardLost:
    """A crawl lies on several servers, and some of them have lost it, or are none of its own."""
    return BoardLost(
        f"{' and '.join(servers)} knows nothing of the crawl `{crawl}`, of which other servers have a part",
        "give it its data back (its append-only file), or name the servers that the crawl was begun on",
    )
