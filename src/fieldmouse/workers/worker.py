"""Worker process of one shard: pages in, links and outcome rows out.

Started as `python -m fieldmouse.workers.worker SOCKET MEMORY PARENT`: the descriptor of a socket to the
crawler, that of a shared memory in which it notes its current page, so that a page that kills its worker
can be named, and the crawler's process id. The worker ends when the crawler does. Everything is
synchronous and on one thread: messages are processed in order.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import resource
import signal
import socket
import struct
import sys
from pathlib import Path

from fieldmouse.errors import FieldmouseError
from fieldmouse.plugins.runner import SIGNAL_INTERVAL, SIGNALS_BEFORE_STUCK, CallObserver
from fieldmouse.types.outcome import WorkerResult
from fieldmouse.workers import protocol
from fieldmouse.workers.shard_writer import LockedShard, ShardWriter

PAGE_CPU_SECONDS = 20.0  # seconds of CPU for one page; then the kernel kills the worker, and the page is blamed
MAX_MEMORY = 2 << 30  # bytes of private memory; mapped files do not count
PAGES_PER_FRAME = 16  # responses collected while more pages wait
_PIECE = 1 << 18
_IN_HAND = struct.Struct("<q")


class Worker(CallObserver):
    def __init__(self, agent: socket.socket, in_hand: mmap.mmap):
        self._agent, self._in_hand = agent, in_hand
        self._frames = protocol.FrameReader()
        self._answers: list[WorkerResult] = []
        self._opened: LockedShard | None = None
        self._shard: ShardWriter | None = None
        self._number = protocol.NO_PAGE  # number of the current page
        # seconds of CPU: for a plug-in, and left for ourselves afterwards
        self._plugin_seconds = self._seconds_left = PAGE_CPU_SECONDS

    def run(self) -> None:
        """Serve until the crawler closes the connection."""
        while piece := self._agent.recv(_PIECE):
            for payload in self._frames.split_frames(piece):
                self._handle_message(payload)
            self._send_answers()

    def _handle_message(self, payload: memoryview) -> None:
        message, shard = protocol.decode_to_worker(payload), self._shard
        if shard is None:
            self._handle_opening(message)
            return
        match message:
            case protocol.PageJob(number, outcome, bare):
                self._number = number
                _IN_HAND.pack_into(self._in_hand, 0, number)
                signal.setitimer(signal.ITIMER_PROF, PAGE_CPU_SECONDS)
                self._answers.append(shard.process_outcome(number, outcome, bare=bare))
                _IN_HAND.pack_into(self._in_hand, 0, protocol.NO_PAGE)
                if len(self._answers) >= PAGES_PER_FRAME:
                    self._send_answers()
            case protocol.AddToScope(joined, is_open):
                shard.add_to_scope(joined, is_open)
            case protocol.PrepareCommit():
                signal.setitimer(signal.ITIMER_PROF, 0)
                self._send_answers()
                self._send(protocol.PrepareCommitReply(shard.prepare_commit(), protocol.peak_rss()))
            case protocol.ConfirmCommit(batch):
                signal.setitimer(signal.ITIMER_PROF, 0)
                shard.mark_committed(batch)
            case protocol.FinishMerges():
                signal.setitimer(signal.ITIMER_PROF, 0)
                self._send_answers()
                shard.finish_merges()
                self._send(protocol.MergesFinished(protocol.peak_rss()))

    def _handle_opening(self, message: protocol.ToWorker) -> None:
        if isinstance(message, protocol.OpenShard):
            config = message.config
            self._plugin_seconds = config.plugins.patience + SIGNAL_INTERVAL * (SIGNALS_BEFORE_STUCK + 1)
            directory = Path(message.directory)
            self._opened = LockedShard(directory, message.shard, config, message.state, self, message.batch)
            self._send(protocol.ShardOpened())
        else:
            assert self._opened is not None, "`Begin` comes after `Start`"
            self._shard = ShardWriter(self._opened)
            gc.freeze()
            self._send(protocol.WorkerReady())

    # -- watchdog around plug-in code

    def call_started(self) -> None:
        _IN_HAND.pack_into(self._in_hand, 0, protocol.toggle_plugin_mark(self._number))
        self._seconds_left = signal.setitimer(signal.ITIMER_PROF, self._plugin_seconds)[0]

    def call_ended(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self._seconds_left)
        _IN_HAND.pack_into(self._in_hand, 0, self._number)

    def call_stuck(self) -> None:
        """Kill this process: a stuck plug-in cannot be stopped alone. The crawler sees that it was the
        plug-in."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGALRM)

    def _send_answers(self) -> None:
        if self._answers:
            self._send(protocol.ParsedPages(tuple(self._answers)))
            self._answers.clear()

    def _send(self, message: protocol.FromWorker) -> None:
        self._agent.sendall(protocol.encode_frame(message))


def die_with_parent() -> None:
    """Let the kernel kill us when the crawler ends, however it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main() -> int:
    parent = int(sys.argv[3])
    die_with_parent()
    if os.getppid() != parent:  # it ended before the request
        return 1
    # Ctrl-C, `timeout` and a closed terminal signal the whole group; the crawler decides.
    for number in protocol.IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, protocol.IGNORED_SIGNALS)
    os.dup2(2, 1)  # output of plug-ins goes to stderr: stdout is for the user's data
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
    gc.set_threshold(50_000, 20, 100)
    agent = socket.socket(fileno=int(sys.argv[1]))
    in_hand = mmap.mmap(int(sys.argv[2]), 8)
    try:
        Worker(agent, in_hand).run()
    except FieldmouseError as error:
        agent.sendall(protocol.encode_frame(protocol.WorkerFailed(str(error), error.hint)))
        return 1
    except (BrokenPipeError, ConnectionResetError):
        return 1  # the crawler is gone
    return 0


if __name__ == "__main__":
    sys.exit(main())
