"""Worker process as seen by the crawler: start, state, end.

A plain child with a socket, not a fork of the crawler: it shares none of its memory. A few bytes of shared
memory hold the page it is working on, readable even after it died.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import struct
import subprocess
import sys

NO_PAGE = -1  # no page in hand
EXIT_GRACE = 0.5  # seconds between closing the connection and being gone
EXIT_TIMEOUT = 10.0  # seconds that a worker may take to exit by itself
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NUMBER = struct.Struct("<q")
_ENVIRONMENT = {
    # We multiply no matrices; numpy's threads for that would spin at every start, one for each core.
    "OPENBLAS_NUM_THREADS": "1",
    # A tree is built and freed for each page: keep glibc from returning its memory to the system each time.
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(1 << 20),
    "MALLOC_ARENA_MAX": "2",
}


def toggle_plugin_mark(number: int) -> int:
    """Encode that a plug-in is processing page `number`; applied again, it decodes.

    >>> toggle_plugin_mark(0), toggle_plugin_mark(5), toggle_plugin_mark(toggle_plugin_mark(5))
    (-2, -7, 5)
    """
    return -2 - number


class WorkerProcess:
    """A running worker; create it with `start`."""

    def __init__(self, child: subprocess.Popen[bytes], memory: mmap.mmap):
        self._child, self._memory = child, memory
        self.pid = child.pid

    @classmethod
    def start(cls) -> tuple[WorkerProcess, socket.socket]:
        """Start a worker; return it and our end of its socket."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        memory = os.memfd_create("in-hand")
        os.ftruncate(memory, _NUMBER.size)
        scrap = mmap.mmap(memory, _NUMBER.size)
        _NUMBER.pack_into(scrap, 0, NO_PAGE)
        handles = (theirs.fileno(), memory)
        # A child inherits our signal mask: no signal reaches it before it can ignore them.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED_SIGNALS)
        try:
            # -P: a file in the current directory must not shadow an installed module.
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "fieldmouse.workers.worker", *map(str, (*handles, os.getpid()))],
                pass_fds=handles,
                stdin=subprocess.DEVNULL,
                env=os.environ | _ENVIRONMENT,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        os.close(memory)
        ours.setblocking(False)
        return cls(child, scrap), ours

    @property
    def current_page(self) -> int:
        """Number of the page that it is processing, or `NO_PAGE`."""
        number: int = _NUMBER.unpack_from(self._memory)[0]
        return toggle_plugin_mark(number) if number < NO_PAGE else number

    @property
    def in_plugin(self) -> bool:
        """Whether plug-in code is processing the page."""
        return bool(_NUMBER.unpack_from(self._memory)[0] < NO_PAGE)

    def stop(self) -> int:
        """End it after a short wait for its own exit; return the exit code, negative for a signal."""
        try:
            return self._child.wait(EXIT_GRACE)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()

    def kill(self) -> None:
        self._child.kill()

    def wait(self) -> None:
        """Wait until it exits by itself, at most `EXIT_TIMEOUT` seconds; then kill it."""
        try:
            self._child.wait(EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def peak_rss() -> int:
    """Peak memory of this process in bytes.

    `getrusage` would be wrong: there a child starts with the peak of its parent.
    """
    with open("/proc/self/status", "rb") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(b"VmHWM:"))
