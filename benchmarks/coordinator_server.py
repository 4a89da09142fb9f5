"""Redis server for a benchmark, in a temporary directory."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis


class BoardProcess:
    """Redis server process with an append-only file."""

    def __init__(self, directory: Path) -> None:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None:
            sys.exit("there is no Redis server: `sh scripts/redis` installs one")
        self.directory, socket = directory, directory / "s"
        command = [program, "--port", "0", "--unixsocket", str(socket), "--dir", str(directory)]
        self._command = [*command, "--save", "", "--appendonly", "yes"]
        self.client = redis.Redis(unix_socket_path=str(socket))
        self.start()

    def start(self) -> None:
        """Start the server; return when it has read its file."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        while True:
            try:
                self.client.ping()
                return
            except redis.RedisError:
                time.sleep(0.02)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def write_file_anew(self) -> int:
        """Rewrite the append-only file, as the server does now and then. Return its size in bytes."""
        self.client.bgrewriteaof()
        while True:
            time.sleep(0.1)
            now = self.client.info("persistence")
            if not now["aof_rewrite_in_progress"] and not now["aof_rewrite_scheduled"]:
                return sum(f.stat().st_size for f in self.directory.rglob("*") if f.is_file())


@contextmanager
def a_process() -> Iterator[BoardProcess]:
    with tempfile.TemporaryDirectory(prefix="fm") as directory:
        process = BoardProcess(Path(directory))
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def a_server() -> Iterator[redis.Redis]:
    with a_process() as process:
        yield process.client
