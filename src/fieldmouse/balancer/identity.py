"""Who an agent is: a name that lives in its directory, and a number for each of its starts.

A directory that was copied is another agent. It notices that it lies elsewhere on the disk than
when it got its name, and takes a new one: two agents of one name would fence each other for ever.
"""

from __future__ import annotations

import re
import secrets
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fieldmouse.crawldir import AGENT_FILE, write_whole
from fieldmouse.errors import typed

if TYPE_CHECKING:
    from fieldmouse.balancer.board.contract import Name  # of a board, which a crawl of its own does not load


class AgentIdentity(msgspec.Struct, frozen=True):
    """What `agent.json` holds."""

    agent: str
    incarnation: int
    lies_at: str  # device and number of the directory
    crawl: str = ""
    own_from: int = 0  # bytes of outcomes.log: what stands before them, another agent has booked


DEFAULT_CRAWL = "fieldmouse"
_NOBODY = AgentIdentity("", 0, "")
_NAME = re.compile(r"[A-Za-z0-9-]{0,64}")
_MOST = 1 << 52  # microseconds: a number that the board's scripts can count on from
NAMELESS = msgspec.json.encode(_NOBODY)
"""An agent's that has not joined yet: whoever is killed between its making and its joining is one, too."""


def is_agent(directory: Path) -> bool:
    """Whether the crawl in this directory is one of many."""
    return (directory / AGENT_FILE).is_file()


def read_identity(directory: Path) -> AgentIdentity | None:
    """Who the agent in this directory is; None if there is none, or if it is a copy of one."""
    known = read_origin(directory)
    return known if known is not None and known.lies_at == _place_of(directory) else None


def read_origin(directory: Path) -> AgentIdentity | None:
    """Who the agent was that this directory is of, or a copy of; None if it is of none.

    Of a file that is damaged nothing is lost but a name, and whoever joins without one gets another.
    """
    file = directory / AGENT_FILE
    try:
        known = msgspec.json.decode(file.read_bytes(), type=AgentIdentity)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        return _NOBODY
    return known if _NAME.fullmatch(known.agent) and 0 <= known.incarnation < _MOST else _NOBODY


def command_of(directory: Path) -> str:
    """What lets the agent in this directory go on, for people."""
    known = read_origin(directory) or _NOBODY
    crawl = f" --crawl {typed(known.crawl)}" if known.crawl not in ("", DEFAULT_CRAWL) else ""
    return f"fieldmouse agent {typed(directory)} --coordinator URL{crawl}"


def last_start(directory: Path) -> Name:
    """Who we were last; nobody, if we never were, or if this is a copy."""
    from fieldmouse.balancer.board.contract import Name

    known = read_identity(directory) or _NOBODY
    return Name(known.agent, known.incarnation)


def next_start(directory: Path, crawl: str) -> Name:
    """Who we are from now on, written down before anybody is told."""
    from fieldmouse.balancer.board.contract import Name

    known = read_identity(directory)
    machine = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:32] or "agent"
    agent = known.agent if known is not None else f"{machine}-{secrets.token_hex(3)}"
    # No two starts have one number, not even those of copies.
    started = max(time.time_ns() // 1000, known.incarnation + 1 if known is not None else 1)
    name = Name(agent, started)
    fresh = AgentIdentity(
        name.agent, name.incarnation, _place_of(directory), crawl, own_from=own_from(directory)
    )
    write_whole(directory / AGENT_FILE, msgspec.json.format(msgspec.json.encode(fresh)))
    return name


def own_from(directory: Path) -> int:
    """Where the outcomes of this agent begin in its log: those before are of the one it is a copy of."""
    known = read_identity(directory)
    return known.own_from if known is not None else _length_of(directory / "outcomes.log")


def _length_of(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _place_of(directory: Path) -> str:
    status = directory.stat()
    return f"{status.st_dev:x}:{status.st_ino:x}"
