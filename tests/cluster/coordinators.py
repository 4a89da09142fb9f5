"""Coordinators under test: in memory, on a real server, and two of either kind as one; with control over
their clocks."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest
import redis

from auto_advance_clock import AutoAdvanceClock
from cluster.audits import Audit, audit_of_ledger, audit_of_server, merged
from cluster.memory_rebuilder import MemoryRebuilder
from fieldmouse.cluster.coordinator import AgentId, Coordinator, CrawlRebuilder
from fieldmouse.cluster.redis.coordinator import RedisCoordinator
from fieldmouse.cluster.redis.rebuild import RedisRebuilder
from fieldmouse.cluster.sharded.coordinator import ShardedCoordinator
from fieldmouse.cluster.sharded.rebuild import ShardedRebuilder
from fieldmouse.cluster.sharded.sharding import shard_of_address, shard_of_host
from fieldmouse.testing.memory_coordinator import MemoryCoordinator, MemoryServer
from fieldmouse.url import Host

PROGRAM = os.environ.get("FIELDMOUSE_REDIS") or shutil.which("redis-server") or shutil.which("valkey-server")
"""Server program for the tests; the variable names another one, such as a Valkey."""
PREFIX = "fm:{fieldmouse}:"
META = PREFIX + "meta"
MISSING = "there is no Redis server, so the tests of the network are skipped; `apt install redis-server`"
needs_server = pytest.mark.skipif(PROGRAM is None, reason=MISSING)


class World(Protocol):
    """A server whose clock can be moved."""

    def board(self, crawl: str = "fieldmouse") -> Coordinator: ...

    def builder(self) -> CrawlRebuilder: ...

    def advance(self, seconds: float) -> None:
        """Move the server's clock forward, for every crawl on it."""

    def restart(self) -> None:
        """Kill and restart the server; it loses nothing."""

    def now(self) -> float:
        """Time on the server's clock."""

    def remember(self) -> None:
        """Write everything to disk."""

    def restart_forgetful(self) -> Callable[[Host], bool]:
        """Kill and restart a server; everything written after the last `remember` is lost.

        Returns whether that includes the data of this host.
        """

    def audit(self) -> Audit: ...

    def addresses(self, host: Host, count: int) -> list[str]:
        """Addresses that lie on the server of the host."""

    # -- faults, written past the protocol

    def misplace(self, host: Host, agent: str) -> None:
        """Put a waiting host into the queue of that agent, present or not."""

    def fence_unswept(self, name: AgentId) -> None:
        """Remove an agent without ever releasing its leases."""

    def take_out_of_queue(self, host: Host) -> bool:
        """Remove a waiting host from its queue; False where there are no queues."""


def some_addresses(count: int) -> list[str]:
    return [f"10.0.0.{n}" for n in range(1, count + 1)]


class MemoryWorld:
    def __init__(self) -> None:
        self.clock = AutoAdvanceClock(1_700_000_000.0)
        self.server = MemoryServer(self.clock)
        self._disk = self.server.snapshot()

    def board(self, crawl: str = "fieldmouse") -> MemoryCoordinator:
        return MemoryCoordinator(self.server, crawl)

    def builder(self) -> MemoryRebuilder:
        return MemoryRebuilder(self.server)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def restart(self) -> None:
        self.server.restart()

    def now(self) -> float:
        return self.clock.now()

    def remember(self) -> None:
        self._disk = self.server.snapshot()

    def restart_forgetful(self) -> Callable[[Host], bool]:
        self.server.restart(self._disk)
        return lambda host: True

    def audit(self) -> Audit:
        return audit_of_ledger(self.board().crawl_state())

    def addresses(self, host: Host, count: int) -> list[str]:
        return some_addresses(count)

    def misplace(self, host: Host, agent: str) -> None:
        self.board().crawl_state().hosts[host].place = agent

    def fence_unswept(self, name: AgentId) -> None:
        ledger = self.board().crawl_state()
        ledger.agents[name.agent].deactivate()
        ledger.fenced_until[name] = self.now()
        ledger.members.discard(name.agent)

    def take_out_of_queue(self, host: Host) -> bool:
        return False


class ServerProcess:
    """A Redis server on a socket in a separate directory.

    It writes before it answers, so a kill loses nothing: data handed to the system outlives a process.
    That holds because it leaves syncing to the system: a server that syncs every second may write nothing
    for up to two seconds while it waits for the disk.
    """

    def __init__(self, directory: Path, *options: str, password: str | None = None, before: Sequence[str] = ()) -> None:
        """`before` is a command prefix, to run it somewhere else."""
        assert PROGRAM is not None, MISSING
        self._password = password
        self.socket = directory / "s"
        files = ("--unixsocket", str(self.socket), "--dir", str(directory), "--save", "")
        appending = ("--appendonly", "yes", "--appendfsync", "no")
        self._command = [*before, PROGRAM, "--port", "0", *files, *appending, *options]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        self._client = redis.Redis(unix_socket_path=str(self.socket), password=self._password)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.client().ping()
                return
            except redis.RedisError:
                assert self.process.poll() is None, "the server ended at once"
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.01)

    def client(self) -> redis.Redis:
        """Direct client of the server; the same one while the server runs."""
        return self._client

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"


class RedisWorld:
    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.server.client().flushall()
        self._disk: dict[bytes, bytes] = {}

    def board(self, crawl: str = "fieldmouse") -> RedisCoordinator:
        return RedisCoordinator(self.server.url, crawl)

    def builder(self) -> RedisRebuilder:
        return RedisRebuilder(self.server.url)

    def advance(self, seconds: float) -> None:
        client = self.server.client()
        for key in client.scan_iter("*meta"):
            client.hincrby(key, "skew", round(seconds * 1000))

    def restart(self) -> None:
        self.server.kill()
        self.server.start()

    def now(self) -> float:
        client = self.server.client()
        seconds, rest = client.time()
        skew, drag = client.hmget(META, "skew", "drag")
        return seconds + rest / 1e6 + (int(skew or 0) + float(drag or 0)) / 1000

    def remember(self) -> None:
        client = self.server.client()
        self._disk = {key: client.dump(key) for key in client.scan_iter("*")}

    def restart_forgetful(self) -> Callable[[Host], bool]:
        client = self.server.client()
        skew = client.hget(META, "skew") or 0
        client.flushall()
        for key, value in self._disk.items():
            client.restore(key, 0, value)
        if self._disk:  # a server loses data, but its clock does not stand still
            client.hset(META, "skew", skew)
        self.restart()
        return lambda host: True

    def audit(self) -> Audit:
        return audit_of_server(self.server.client())

    def addresses(self, host: Host, count: int) -> list[str]:
        return some_addresses(count)

    def misplace(self, host: Host, agent: str) -> None:
        client = self.server.client()
        place = client.hget(f"{PREFIX}h:{host}", "p") or b""
        client.zrem(f"{PREFIX}r:{place.decode()}", host)
        client.zadd(f"{PREFIX}r:{agent}", {host: 0})
        client.hset(f"{PREFIX}h:{host}", "p", agent)

    def fence_unswept(self, name: AgentId) -> None:
        client = self.server.client()
        client.hset(f"{PREFIX}agent:{name.agent}", "counts", 0)
        client.zrem(f"{PREFIX}live", name.agent)
        client.zrem(f"{PREFIX}names", name.agent)
        client.sadd(f"{PREFIX}left", name.agent)
        client.zadd(f"{PREFIX}fallen", {f"{name.incarnation}:{name.agent}": 0})

    def take_out_of_queue(self, host: Host) -> bool:
        place = self.server.client().hget(f"{PREFIX}h:{host}", "p") or b""
        return bool(self.server.client().zrem(f"{PREFIX}r:{place.decode()}", host))


class SpreadWorld:
    """Several servers as one. All of them restart together, but they lose data one by one."""

    def __init__(self, *worlds: World) -> None:
        self.worlds: Sequence[World] = worlds
        self._turn = 0

    def board(self, crawl: str = "fieldmouse") -> ShardedCoordinator:
        return ShardedCoordinator({f"server {n}": world.board(crawl) for n, world in enumerate(self.worlds)}, crawl)

    def builder(self) -> ShardedRebuilder:
        builders = {f"server {n}": world.builder() for n, world in enumerate(self.worlds)}
        return ShardedRebuilder(builders, {f"server {n}": world.board() for n, world in enumerate(self.worlds)})

    def advance(self, seconds: float) -> None:
        for world in self.worlds:
            world.advance(seconds)

    def restart(self) -> None:
        for world in self.worlds:
            world.restart()

    def now(self) -> float:
        return self.worlds[0].now()

    def remember(self) -> None:
        for world in self.worlds:
            world.remember()

    def restart_forgetful(self) -> Callable[[Host], bool]:
        self._turn += 1
        place = self._turn % len(self.worlds)
        self.worlds[place].restart_forgetful()
        return lambda host: shard_of_host(host, len(self.worlds)) == place

    def audit(self) -> Audit:
        return merged([world.audit() for world in self.worlds])

    def addresses(self, host: Host, count: int) -> list[str]:
        servers = len(self.worlds)
        home = shard_of_host(host, servers)
        return [a for a in some_addresses(100) if shard_of_address(a, servers) == home][:count]

    def misplace(self, host: Host, agent: str) -> None:
        self._home(host).misplace(host, agent)

    def fence_unswept(self, name: AgentId) -> None:
        for world in self.worlds:
            world.fence_unswept(name)

    def take_out_of_queue(self, host: Host) -> bool:
        return self._home(host).take_out_of_queue(host)

    def _home(self, host: Host) -> World:
        return self.worlds[shard_of_host(host, len(self.worlds))]


@contextmanager
def a_server(*options: str, password: str | None = None, before: Sequence[str] = ()) -> Iterator[ServerProcess]:
    # Not pytest's directory: the path of a socket may have 108 characters.
    with tempfile.TemporaryDirectory(prefix="fm") as directory:
        server = ServerProcess(Path(directory), *options, password=password, before=before)
        try:
            yield server
        finally:
            server.kill()
