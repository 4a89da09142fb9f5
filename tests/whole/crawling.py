"""Crawls as the user runs them: the command in its own process, and the files it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from warcio.checker import Checker  # type: ignore[import-untyped]

from fieldmouse.frontier.durable_parts import FrontierState, read_open_tickets
from fieldmouse.frontier.queues.queue_index import queue_lengths
from fieldmouse.frontier.queues.sieved_urls import read_ready_items

COMMAND = str(Path(sys.executable).with_name("fieldmouse"))


def command(*words: object) -> list[str]:
    return [COMMAND, *map(str, words)]


def run(*words: object, expect: int = 0) -> Any:
    """Run a fieldmouse command with --json and return its output."""
    done = subprocess.run([*command(*words), "--json"], capture_output=True, text=True, timeout=280)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def start(*words: object) -> subprocess.Popen[bytes]:
    """Start a command in a new process group and leave it running."""
    return subprocess.Popen(
        [*command(*words), "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Make sure nothing of a started command is left."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def exported(home: Path, *words: object) -> list[dict[str, Any]]:
    target = home.parent / f"{home.name}.jsonl"
    run("export", home, "--to", target, *words)
    return [json.loads(line) for line in target.read_text().splitlines()]


def warcs(home: Path) -> list[Path]:
    return sorted((home / "archive").glob("*.warc.gz"))


def check_warcs(home: Path) -> None:
    """`warcio check` on every file: all members complete, all digests right."""
    files = warcs(home)
    assert files
    checker = Checker(_Words([str(path) for path in files]))
    checker.process_all()
    assert checker.exit_value == 0


class _Words:
    """The command line `warcio check` would have parsed."""

    def __init__(self, inputs: list[str]):
        self.inputs, self.verbose, self.offset, self.length = inputs, False, 0, -1


def count_waiting(home: Path, state: FrontierState) -> int:
    """Number of URLs accepted and not done when `state` was sealed: counted in their queues."""
    directory = home / "frontier"
    queued = sum(length for _, length in queue_lengths(directory, state.queues.index))
    ready = sum(1 for _ in read_ready_items(directory, state.ready))
    return len(read_open_tickets(directory, state.front)) + queued + ready - state.polls
