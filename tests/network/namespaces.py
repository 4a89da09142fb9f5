"""Private networks: a namespace for servers and one for each agent, with links that can be cut."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

HOSTS = "10.77.16.0/20"
"""Addresses of the servers' namespace, for a meadow."""


def _may() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"fm{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return made


needs_namespaces = pytest.mark.skipif(not _may(), reason="network namespaces need root and iproute2")


@dataclass(frozen=True)
class Room:
    """A namespace, and how to reach the servers from there."""

    name: str
    server: str  # address

    def words(self, words: Sequence[str]) -> list[str]:
        """The command that runs these in here."""
        return ["ip", "netns", "exec", self.name, *words]


@dataclass(frozen=True)
class Rooms:
    servers: Room
    agents: tuple[Room, ...]

    def pull(self, number: int) -> None:
        """Let no packet pass between this agent and all others."""
        _ip("-n", self.servers.name, "link", "set", f"a{number}", "down")

    def plug(self, number: int) -> None:
        _ip("-n", self.servers.name, "link", "set", f"a{number}", "up")


@contextmanager
def rooms(agents: int) -> Iterator[Rooms]:
    base = f"fm{os.getpid()}"
    names = [f"{base}s", *(f"{base}a{number}" for number in range(agents))]
    try:
        for name in names:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", names[0], "route", "add", "local", HOSTS, "dev", "lo")
        joined = tuple(_join(names[0], name, number) for number, name in enumerate(names[1:]))
        yield Rooms(Room(names[0], "127.0.0.1"), joined)
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def _join(servers: str, agent: str, number: int) -> Room:
    cable, network = f"a{number}", f"10.77.{number}"
    _ip("-n", servers, "link", "add", cable, "type", "veth", "peer", "name", "up0", "netns", agent)
    for name, end, last in ((servers, cable, 1), (agent, "up0", 2)):
        _ip("-n", name, "addr", "add", f"{network}.{last}/24", "dev", end)
        _ip("-n", name, "link", "set", end, "up")
    _ip("-n", agent, "route", "add", "default", "via", f"{network}.1")
    return Room(agent, f"{network}.1")


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
