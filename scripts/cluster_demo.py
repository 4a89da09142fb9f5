"""A crawl by three agents on one board, one of which is killed half-way: is anything missing?

Everything is on this machine: a Redis server on a socket in a temporary directory, a meadow on loopback, and
three `fieldmouse agent` processes. At the end what they fetched is read as one and held against the truth.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

COMMAND = str(Path(sys.executable).with_name("fieldmouse"))
SERVER = shutil.which("redis-server") or shutil.which("valkey-server")
EACH = 20  # pages that every agent has fetched before one is killed


def main() -> int:
    if SERVER is None:
        print("error: there is no Redis server\nhint: `apt install redis-server`", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="fieldmouse-") as name:
        return demo(Path(name))


def demo(home: Path) -> int:
    socket, truth = home / "board.sock", home / "truth.jsonl"
    started = [
        subprocess.Popen(
            [SERVER, "--port", "0", "--unixsocket", str(socket), "--dir", str(home), "--save", "",
             "--appendonly", "yes"], stdout=subprocess.DEVNULL,
        )
    ]  # fmt: skip
    try:
        meadow = subprocess.Popen(
            [COMMAND, "meadow", "serve", "--port", "0", "--hosts", "40", "--pages", "1200",
             "--truth", str(truth), "--json"], stdout=subprocess.PIPE,
        )  # fmt: skip
        started.append(meadow)
        assert meadow.stdout is not None
        seeds = json.loads(meadow.stdout.readline())["seeds"]
        board = ["--coordinator", f"unix://{socket}"]
        wait_for(socket.exists)
        print(f"a Redis server and a meadow of 40 hosts are up; three agents begin in {home}")
        words = [word for seed in seeds for word in ("--seed", seed)]
        words += ["--scope", "web", "--delay", "250ms"]
        short = ["--set", "cluster.lease=4s", "--set", "cluster.heartbeat=1s"]
        agents = {}
        for number, agent in enumerate(("east", "west", "north")):
            more = [*words, *short] if number == 0 else []
            agents[agent] = subprocess.Popen(
                [COMMAND, "agent", str(home / agent), *board, *more, "--allow-private", "--json"],
                stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            started.append(agents[agent])
        wait_for(lambda: len(fetched(board)) == 3 and min(fetched(board)) >= EACH)
        os.killpg(agents["west"].pid, signal.SIGKILL)
        print(f"killed `west` when there were {sum(fetched(board))} pages; the others go on: a minute or so")
        codes = {agent: agents[agent].wait(300) for agent in ("east", "north")}
        subprocess.run([COMMAND, "cluster", "status", *board], check=True)
        return compare(home, truth, codes)
    finally:
        for process in started:
            if process.poll() is None:
                process.terminate()
                process.wait(30)


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit("error: nothing happened for two minutes")
        time.sleep(0.2)


def fetched(board: list[str]) -> list[int]:
    """The pages that each agent has, as they say themselves."""
    told = subprocess.run([COMMAND, "cluster", "status", *board, "--json"], capture_output=True, text=True)
    return [agent["pages"] for agent in json.loads(told.stdout)["agents"]] if told.returncode == 0 else []


def compare(home: Path, truth: Path, codes: dict[str, int]) -> int:
    rows = home / "all.jsonl"
    subprocess.run(
        [COMMAND, "export", str(home / "east"), "--with", str(home / "west"), "--with", str(home / "north"),
         "--to", str(rows)], check=True,
    )  # fmt: skip
    stored = [json.loads(line)["url"] for line in rows.read_text().splitlines()]
    facts = [json.loads(line) for line in truth.read_text().splitlines()]
    wanted = {fact["url"] for fact in facts if fact["allowed"] and fact["status"] == 200}
    missing, twice = wanted - set(stored), len(stored) - len(set(stored))
    print(f"{len(stored)} pages in three directories, read as one: {len(missing)} missing, {twice} listed twice")
    return 1 if missing or twice or any(codes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
