"""Errors of the coordinator, each naming the agent or crawl and the command that helps."""

from __future__ import annotations

from collections.abc import Sequence

from fieldmouse.cluster.coordinator import AgentId
from fieldmouse.errors import AgentFenced, AgentSuperseded, CoordinatorDataLost, CoordinatorError
from fieldmouse.formatting import join_names

#: Hint for a coordinator that lost its data.
RESTORE_HINT = (
    "restore the server's data (its append-only file), or rebuild the coordinator from the directories"
    " of all agents: `fieldmouse cluster rebuild DIR... --coordinator URL`, with the same `--crawl`"
)


def fenced_error(name: AgentId) -> AgentFenced:
    """Error for an agent whose lease ran out, or that left: other agents have its hosts."""
    return AgentFenced(
        f"the coordinator has given the hosts of agent `{name.agent}` to others",
        "it sent no heartbeat for longer than its lease; it must join again",
    )


def superseded_error(name: AgentId) -> AgentSuperseded:
    """Error for an agent of which a newer start has joined."""
    return AgentSuperseded(
        f"a newer start of agent `{name.agent}` has joined the crawl",
        "run one agent per directory, and give a copy of a directory its own name",
    )


def crawl_lost_error(crawl: str) -> CoordinatorDataLost:
    """Error for a crawl that existed and is gone."""
    return CoordinatorDataLost(
        f"the coordinator has lost the crawl `{crawl}`: its server has no data of it", RESTORE_HINT
    )


def stale_data_error(agent: str, label: str = "") -> CoordinatorDataLost:
    """Error for a coordinator that lost more than agents can send again."""
    return CoordinatorDataLost(
        f"the coordinator{label and f' at {label}'} has an old copy of its data: it lacks what agent `{agent}` sent it",
        RESTORE_HINT,
    )


def stale_directory_error(agent: str) -> CoordinatorError:
    """Error for a directory that lacks results that the coordinator has from its agent."""
    return CoordinatorError(
        f"the directory of agent `{agent}` is an old copy: the coordinator has later results of it",
        "restore its newest state; if that is lost, start in another directory, and let all its pages be"
        f" fetched again: `fieldmouse cluster forget {agent} --again --coordinator URL`",
    )


def other_crawl_error() -> CoordinatorDataLost:
    """Error for a coordinator that was lost, and on which another crawl was created."""
    return CoordinatorDataLost(
        "the coordinator has another crawl of that name now, and no data of the crawl of this agent",
        "start new crawls under another name (--crawl NAME)",
    )


def rebuild_running_error(crawl: str) -> CoordinatorError:
    """Error for a crawl that is being rebuilt and not complete."""
    return CoordinatorError(
        f"the crawl `{crawl}` is being rebuilt on this coordinator",
        "wait for `fieldmouse cluster rebuild` to end; if it was stopped, run it again",
    )


def crawl_not_empty_error(crawl: str) -> CoordinatorError:
    """Error for a rebuild over a crawl that is not empty."""
    return CoordinatorError(
        f"the coordinator has a crawl `{crawl}`, and it is not empty",
        "only a crawl that the coordinator has lost, or has an old copy of, can be rebuilt;"
        " `fieldmouse cluster status` shows this one",
    )


def agents_active_error(crawl: str, agents: Sequence[str]) -> CoordinatorError:
    """Error for an old copy, by the given directories, that other agents still crawl with."""
    return CoordinatorError(
        f"the coordinator's crawl `{crawl}` lacks results of these directories, but "
        f"{join_names(agents)} crawl"
        f"{'s' * (len(agents) == 1)} with it",
        "to rebuild the coordinator, stop all agents first, and name the directories of all of them",
    )


def shard_missing_error(crawl: str, servers: Sequence[str]) -> CoordinatorDataLost:
    """Error for a sharded crawl of which some servers have no data."""
    return CoordinatorDataLost(
        f"{' and '.join(servers)} has no data of the crawl `{crawl}`, of which other servers have a part",
        "restore its data (its append-only file), or name the servers that the crawl was started on",
    )
