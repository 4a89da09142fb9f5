"""A worker process as its agent sees it: started, listened to, ended.

A plain child with a socket, not a fork of the agent: it shares none of its memory
and none of its mistakes. A scrap of shared memory tells which page it has in hand,
also after it died.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import struct
import subprocess
import sys

NOTHING = -1  # in hand
AGONY = 0.5  # seconds between hanging up and being gone
PATIENCE = 10.0  # seconds that a worker may take to end by itself
LEFT_TO_THE_AGENT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NUMBER = struct.Struct("<q")
_ENVIRONMENT = {
    # We multiply no matrices; the threads that numpy starts for it spin at every start, one for each core.
    "OPENBLAS_NUM_THREADS": "1",
    # A tree per page is built and thrown away: keep glibc from giving its memory back and asking again.
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(1 << 20),
    "MALLOC_ARENA_MAX": "2",
}


def with_plugin(number: int) -> int:
    """How a page in a plug-in's hands is told from one in our own, and the way back.

    >>> with_plugin(0), with_plugin(5), with_plugin(with_plugin(5))
    (-2, -7, 5)
    """
    return -2 - number


class WorkerProcess:
    """One running worker; make it with `start`."""

    def __init__(self, child: subprocess.Popen[bytes], scrap: mmap.mmap):
        self._child, self._scrap = child, scrap
        self.pid = child.pid

    @classmethod
    def start(cls) -> tuple[WorkerProcess, socket.socket]:
        """A new worker, and our end of the socket to it."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        memory = os.memfd_create("in-hand")
        os.ftruncate(memory, _NUMBER.size)
        scrap = mmap.mmap(memory, _NUMBER.size)
        _NUMBER.pack_into(scrap, 0, NOTHING)
        handles = (theirs.fileno(), memory)
        # A child begins with our mask: so no signal gets at it before it can say that it ignores them.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, LEFT_TO_THE_AGENT)
        try:
            # -P: a file in the current directory must not take the place of a module that is installed.
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "fieldmouse.indexer.worker", *map(str, (*handles, os.getpid()))],
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
    def in_hand(self) -> int:
        """The ticket of the page it works on, or `NOTHING`."""
        number: int = _NUMBER.unpack_from(self._scrap)[0]
        return with_plugin(number) if number < NOTHING else number

    @property
    def in_plugin(self) -> bool:
        """Whether somebody else's code has the page."""
        return bool(_NUMBER.unpack_from(self._scrap)[0] < NOTHING)

    def end(self) -> int:
        """End it, though it may finish dying by itself; its exit code, negative for a signal."""
        try:
            return self._child.wait(AGONY)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()

    def kill(self) -> None:
        self._child.kill()

    def wait(self) -> None:
        """Wait until it ended by itself, but not for ever."""
        try:
            self._child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def peak_rss() -> int:
    """Bytes of memory that this process used at most.

    The kernel's own account (`getrusage`) would not do: there a child begins with the
    peak of whoever started it.
    """
    with open("/proc/self/status", "rb") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(b"VmHWM:"))
