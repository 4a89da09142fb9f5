"""Run of one contestant, stopped in time, with its CPU and memory.

CPU is the time charged by the kernel to the process and its awaited children. Memory is the sum over the
process tree, sampled from /proc: resident (shared pages count in each process that has them) and, less
often, proportional (they count once).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
_SAMPLE_EVERY = 0.2
_PSS_EVERY = 1.0
_GRACE = 20.0


@dataclass(frozen=True)
class Race:
    """Result of a run. Times are epoch seconds."""

    started_at: float
    ended_at: float
    cpu_seconds: float
    peak_rss_mb: float
    peak_pss_mb: float
    exit: int
    stopped: bool  # by us, because its time was up
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)


def run(command: Sequence[str], *, seconds: float, cwd: Path, env: Mapping[str, str] | None = None) -> Race:
    """Run `command` for at most `seconds`; then terminate it, and after a grace period kill it."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started_at = time.time()
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        watch = _Watch(process.pid)
        watch.start()
        stopped = False
        asked_at = kill_at = time.monotonic() + seconds
        kill_at += _GRACE
        try:
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                now = time.monotonic()
                if now >= kill_at:
                    _signal(process.pid, signal.SIGKILL)
                elif now >= asked_at and not stopped:
                    stopped = True
                    os.kill(process.pid, signal.SIGTERM)
                time.sleep(0.02)
        except BaseException:
            _signal(process.pid, signal.SIGKILL)
            raise
        finally:
            watch.end()
        ended_at = time.time()
        process.returncode = os.waitstatus_to_exitcode(status)
        _signal(process.pid, signal.SIGKILL)  # whatever it left behind in its group
        out.seek(0)
        err.seek(0)
        return Race(
            started_at=started_at,
            ended_at=ended_at,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_rss_mb=watch.peak_rss_mb,
            peak_pss_mb=watch.peak_pss_mb,
            exit=process.returncode,
            stopped=stopped,
            stdout=out.read(),
            stderr=err.read(),
        )


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


class _Watch(threading.Thread):
    """Sampler of the memory of a process tree."""

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self._pid = pid
        self._over = threading.Event()
        self.peak_rss_mb = 0.0
        self.peak_pss_mb = 0.0

    def run(self) -> None:
        next_pss = 0.0
        while not self._over.wait(_SAMPLE_EVERY):
            pids = tree(self._pid)
            self.peak_rss_mb = max(self.peak_rss_mb, sum(map(_rss_mb, pids)))
            if time.monotonic() >= next_pss:
                next_pss = time.monotonic() + _PSS_EVERY
                self.peak_pss_mb = max(self.peak_pss_mb, sum(map(_pss_mb, pids)))

    def end(self) -> None:
        self._over.set()
        self.join()


def tree(root: int) -> list[int]:
    """The process and its living descendants."""
    pids = [root]
    for pid in pids:
        for task in _read(f"/proc/{pid}/task", listing=True).split():
            pids += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    return pids


def _rss_mb(pid: int) -> float:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE_MB if fields else 0.0


def _pss_mb(pid: int) -> float:
    found = re.search(r"^Pss:\s+(\d+) kB", _read(f"/proc/{pid}/smaps_rollup"), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def _read(path: str, listing: bool = False) -> str:
    """A file of /proc, or the names in a directory; "" if the process has ended."""
    try:
        return " ".join(os.listdir(path)) if listing else Path(path).read_text()
    except (OSError, UnicodeDecodeError):
        return ""
