"""The guide to crawling on several machines, executed as written, on one machine and a meadow (synthetic
web)."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.coordinators import PROGRAM, needs_server
from meadowland import RunningMeadow, running_meadow
from test_docs import typed_lines
from whole.crawling import COMMAND

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "network.md"
SEED = "https://example.org/"


class Reader:
    """Executes the commands of the guide. Commands that a person would leave running are left running."""

    def __init__(self, folder: Path, meadow: RunningMeadow, port: int):
        self._folder, self._meadow, self._port = folder, meadow, port
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.ended: list[int] = []

    def words(self, line: str) -> list[str]:
        """The same on this machine: its own addresses, and the seed of a meadow."""
        line = line.replace("redis.example:6379", f"127.0.0.1:{self._port}")
        line = line.replace("--port 6379", f"--port {self._port}").replace("0.0.0.0", "127.0.0.1")
        words = shlex.split(line.replace(SEED, self._meadow.seeds[0]))
        if "--seed" in words:
            words += ["--scope", "web", "--delay", "100ms"]
        if words[:2] == ["fieldmouse", "agent"]:  # each machine allows it for itself
            words.append("--allow-private")
        return [{"fieldmouse": COMMAND, "redis-server": str(PROGRAM)}.get(words[0], words[0]), *words[1:]]

    def type(self, line: str) -> None:
        words = self.words(line)
        if line.startswith(("redis-server", "fieldmouse agent")):
            if before := self._running.get(line):  # the same command again: it was stopped in between
                before.send_signal(signal.SIGINT)
                assert before.wait(60) in (130, 0), "on a slow day all is fetched by then"
            self._running[line] = subprocess.Popen(
                words, cwd=self._folder, stdout=subprocess.DEVNULL, start_new_session=True
            )
            self._wait_for(line)
        else:
            done = subprocess.run(words, cwd=self._folder, capture_output=True, text=True, timeout=280)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"

    def _wait_for(self, line: str) -> None:
        if line.startswith("redis-server"):
            until(lambda: socket.socket().connect_ex(("127.0.0.1", self._port)) == 0)
        else:
            home = self._folder / shlex.split(line)[2]
            until(lambda: (home / "agent.json").exists())

    def agents_end(self) -> Iterator[int]:
        for line, process in self._running.items():
            if line.startswith("fieldmouse"):
                yield process.wait(280)

    def leave(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.05)


@contextmanager
def a_reader(folder: Path, meadow: RunningMeadow) -> Iterator[Reader]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    reader = Reader(folder, meadow, port)
    try:
        yield reader
    finally:
        reader.leave()


@needs_server
def test_the_commands_of_the_guide_work_in_order(tmp_path: Path) -> None:
    lines = [line for line in typed_lines(GUIDE.read_text()) if "rediss://" not in line]
    agents = [line for line in lines if line.startswith("fieldmouse agent")]
    assert len(agents) == 5, "two agents, of which one is stopped and comes back; both take failures back"
    assert agents[1] == agents[2]
    assert agents[3] == f"{agents[1]} --retry-failed"
    # `top` is typed while the crawl runs, and would end only with it: it runs last.
    later = [line for line in lines if "cluster top" in line]
    first, rest = lines[: lines.index(agents[2]) + 1], lines[lines.index(agents[2]) + 1 :]
    with (
        running_meadow(hosts=6, pages=240, seed=21, page_kb=1.0, links=10) as meadow,
        a_reader(tmp_path, meadow) as reader,
    ):
        for line in first:
            if line not in later:
                reader.type(line)
        for line in later:
            reader.type(line)
        assert list(reader.agents_end()) == [0, 0]
        for line in rest:
            if line not in agents:
                assert not any(reader.agents_end())
            reader.type(line)
        assert list(reader.agents_end()) == [0, 0, 0, 0]
        stored = [json.loads(row)["url"] for row in (tmp_path / "pages.jsonl").read_text().splitlines()]
        assert sorted(stored) == sorted(meadow.pages())
