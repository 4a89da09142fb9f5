"""Boards to try: one in memory, and one on a real server of our own, whose clock a test can put forward."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest
import redis

from fieldmouse.balancer.board import Board
from fieldmouse.balancer.memory import MemoryBoard, MemoryServer
from fieldmouse.balancer.redisboard import RedisBoard
from fieldmouse.clock import ManualClock

PROGRAM = shutil.which("redis-server") or shutil.which("valkey-server")
MISSING = "there is no Redis server, so the tests of the network are skipped; `apt install redis-server`"
needs_server = pytest.mark.skipif(PROGRAM is None, reason=MISSING)


class World(Protocol):
    """A server, and a hand on its clock."""

    def board(self, crawl: str = "fieldmouse") -> Board: ...

    def advance(self, seconds: float) -> None:
        """So much later on the server's clock, for every crawl that there is."""

    def restart(self) -> None:
        """The server is killed and started again; it remembers everything."""


class MemoryWorld:
    def __init__(self) -> None:
        self.clock = ManualClock(1_700_000_000.0)
        self.server = MemoryServer(self.clock)

    def board(self, crawl: str = "fieldmouse") -> MemoryBoard:
        return MemoryBoard(self.server, crawl)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def restart(self) -> None:
        self.server.restart()


class ServerProcess:
    """A Redis server on a socket in a directory of its own; every write is on disk before it is answered."""

    def __init__(self, directory: Path, *options: str) -> None:
        assert PROGRAM is not None, MISSING
        self.socket = directory / "s"
        self._command = [
            PROGRAM, "--port", "0", "--unixsocket", str(self.socket), "--dir", str(directory), "--save", "",
            "--appendonly", "yes", "--appendfsync", "always", *options,
        ]  # fmt: skip
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
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
        return redis.Redis(unix_socket_path=str(self.socket))

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

    def board(self, crawl: str = "fieldmouse") -> RedisBoard:
        return RedisBoard(self.server.url, crawl)

    def advance(self, seconds: float) -> None:
        client = self.server.client()
        for key in client.scan_iter("*meta"):
            client.hincrby(key, "skew", round(seconds * 1000))

    def restart(self) -> None:
        self.server.kill()
        self.server.start()


@contextmanager
def a_server(*options: str) -> Iterator[ServerProcess]:
    # Not pytest's directory: the name of a socket may have 108 characters.
    with tempfile.TemporaryDirectory(prefix="fm") as directory:
        server = ServerProcess(Path(directory), *options)
        try:
            yield server
        finally:
            server.kill()
