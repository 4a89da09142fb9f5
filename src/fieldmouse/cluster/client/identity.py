"""Identity of an agent: a name stored in its directory, and a number for each start.

A copied directory is another agent. It notices that it lies elsewhere on the disk than when it got its
name, and takes a new one: two agents of one name would fence each other again and again.
"""

from __future__ import annotations

import re
import secrets
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fieldmouse.errors import shell_quoted
from fieldmouse.storage.directory import AGENT_FILE
from fieldmouse.storage.log import write_atomically

if TYPE_CHECKING:
    from fieldmouse.cluster.coordinator import AgentId


class AgentIdentity(msgspec.Struct, frozen=True):
    """Content of `agent.json`."""

    agent: str
    incarnation: int
    lies_at: str  # device and inode of the directory
    crawl: str = ""
    own_from: int = 0  # offset in outcomes.log: another agent acknowledged the outcomes before it


DEFAULT_CRAWL = "fieldmouse"
_NO_IDENTITY = AgentIdentity("", 0, "")
_NAME = re.compile(r"[A-Za-z0-9-]{0,64}")
_MOST_INCARNATION = 1 << 52  # microseconds; the coordinator's scripts can still add to it
#: Identity of an agent that has not joined yet, or was killed between its creation and its joining.
UNJOINED_IDENTITY = msgspec.json.encode(_NO_IDENTITY)


def is_agent_directory(directory: Path) -> bool:
    """Whether the crawl in this directory is part of a cluster."""
    return (directory / AGENT_FILE).is_file()


def read_identity(directory: Path) -> AgentIdentity | None:
    """Identity of the agent in this directory; None if there is none, or if the directory is a copy."""
    identity = read_original_identity(directory)
    return identity if identity is not None and identity.lies_at == _location_of(directory) else None


def read_original_identity(directory: Path) -> AgentIdentity | None:
    """Identity of the agent that this directory belongs to or was copied from; None if there is none.

    A damaged file costs only the name: an agent that joins without one gets a new name.
    """
    file = directory / AGENT_FILE
    try:
        identity = msgspec.json.decode(file.read_bytes(), type=AgentIdentity)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        return _NO_IDENTITY
    valid = _NAME.fullmatch(identity.agent) and 0 <= identity.incarnation < _MOST_INCARNATION
    return identity if valid else _NO_IDENTITY


def resume_command(directory: Path) -> str:
    """Command that continues the agent in this directory, for people."""
    identity = read_original_identity(directory) or _NO_IDENTITY
    crawl = f" --crawl {shell_quoted(identity.crawl)}" if identity.crawl not in ("", DEFAULT_CRAWL) else ""
    return f"fieldmouse agent {shell_quoted(directory)} --coordinator URL{crawl}"


def last_start(directory: Path) -> AgentId:
    """Last start of this agent; empty if it never started, or if the directory is a copy."""
    from fieldmouse.cluster.coordinator import AgentId

    identity = read_identity(directory) or _NO_IDENTITY
    return AgentId(identity.agent, identity.incarnation)


def begin_start(directory: Path, crawl: str) -> AgentId:
    """Begin a new start of this agent, written to disk before the coordinator sees it."""
    from fieldmouse.cluster.coordinator import AgentId

    identity = read_identity(directory)
    machine = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:32] or "agent"
    agent = identity.agent if identity is not None else f"{machine}-{secrets.token_hex(3)}"
    # Starts never share a number, not even those of copies.
    started = max(time.time_ns() // 1000, identity.incarnation + 1 if identity is not None else 1)
    name = AgentId(agent, started)
    fresh = AgentIdentity(
        name.agent, name.incarnation, _location_of(directory), crawl, own_from=first_own_outcome(directory)
    )
    write_atomically(directory / AGENT_FILE, msgspec.json.format(msgspec.json.encode(fresh)))
    return name


def first_own_outcome(directory: Path) -> int:
    """Offset of this agent's first outcome in its log: earlier ones are of the agent it was copied from."""
    identity = read_identity(directory)
    outcomes = directory / "outcomes.log"
    if identity is not None:
        return identity.own_from
    return outcomes.stat().st_size if outcomes.exists() else 0


def _location_of(directory: Path) -> str:
    status = directory.stat()
    return f"{status.st_dev:x}:{status.st_ino:x}"
