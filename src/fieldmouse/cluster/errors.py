"""Errors of the coordinator, each naming the agent or crawl and the command that helps."""

from __future__ import annotations

from collections.abc import Sequence

from fieldmouse.cluster.coordinator import Charter, Name
from fieldmouse.errors import BoardError, BoardLost, Fenced, Superseded
from fieldmouse.formatting import listed

REMEDY = (
    "restore the server's data (its append-only file), or rebuild the coordinator from the directories"
    " of all agents: `fieldmouse cluster rebuild DIR... --coordinator URL`, with the same `--crawl`"
)
"""Hint for a coordinator that lost its data."""


def fenced(name: Name) -> Fenced:
    """Error for an agent whose lease ran out, or that left: other agents have its hosts."""
    return Fenced(
        f"the coordinator has given the hosts of agent `{name.agent}` to others",
        "it sent no heartbeat for longer than its lease; it must join again",
    )


def superseded(name: Name) -> Superseded:
    """Error for an agent of which a newer start has joined."""
    return Superseded(
        f"a newer start of agent `{name.agent}` has joined the crawl",
        "run one agent per directory, and give a copy of a directory its own name",
    )


def vanished(crawl: str) -> BoardLost:
    """Error for a crawl that existed and is gone."""
    return BoardLost(
        f"the coordinator has lost the crawl `{crawl}`: its server has no data of it",
        REMEDY,
    )


def older(agent: str, label: str = "") -> BoardLost:
    """Error for a coordinator that lost more than agents can send again."""
    return BoardLost(
        f"the coordinator{label and f' at {label}'} has an old copy of its data: it lacks what"
        f" agent `{agent}` sent it",
        REMEDY,
    )


def outdated(agent: str) -> BoardError:
    """Error for a directory that lacks results that the coordinator has from its agent."""
    return BoardError(
        f"the directory of agent `{agent}` is an old copy: the coordinator has later results of it",
        "restore its newest state; if that is lost, start in another directory, and let all its pages be"
        f" fetched again: `fieldmouse cluster forget {agent} --again --coordinator URL`",
    )


def check_same(charter: Charter | None, key_seed: int) -> None:
    """Raise if the coordinator was lost and another crawl was created on it."""
    if charter is not None and charter.key_seed != key_seed:
        raise BoardLost(
            "the coordinator has another crawl of that name now, and no data of the crawl of this agent",
            "start new crawls under another name (--crawl NAME)",
        )


def hidden(crawl: str) -> BoardError:
    """Error for a crawl that is being rebuilt and not complete."""
    return BoardError(
        f"the crawl `{crawl}` is being rebuilt on this coordinator",
        "wait for `fieldmouse cluster rebuild` to end; if it was stopped, run it again",
    )


def occupied(crawl: str) -> BoardError:
    """Error for a rebuild over a crawl that is not empty."""
    return BoardError(
        f"the coordinator has a crawl `{crawl}`, and it is not empty",
        "only a crawl that the coordinator has lost, or has an old copy of, can be rebuilt;"
        " `fieldmouse cluster status` shows this one",
    )


def awake_there(crawl: str, agents: Sequence[str]) -> BoardError:
    """Error for an old copy, by the given directories, that other agents still crawl with."""
    return BoardError(
        f"the coordinator's crawl `{crawl}` lacks results of these directories, but {listed(agents)} crawl"
        f"{'s' * (len(agents) == 1)} with it",
        "to rebuild the coordinator, stop all agents first, and name the directories of all of them",
    )


def missing(crawl: str, servers: Sequence[str]) -> BoardLost:
    """Error for a sharded crawl of which some servers have no data."""
    return BoardLost(
        f"{' and '.join(servers)} has no data of the crawl `{crawl}`, of which other servers have a part",
        "restore its data (its append-only file), or name the servers that the crawl was started on",
    )
