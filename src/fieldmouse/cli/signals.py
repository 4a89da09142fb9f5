"""Signal handlers of a crawl, and long computations that Ctrl-C can interrupt.

SIGINT (Ctrl-C), SIGTERM (`kill`, `timeout`, a stopped service) and SIGHUP (closed terminal) mean the same.
The first signal prints a message at once and ends the crawl in order. The second ends it where it is, which
is no worse than a kill. Worker processes ignore these signals: the crawler decides.

The handlers are installed before the event loop starts and removed after it has ended, so that a signal never
causes a traceback. Before that, while the crawl is planned, modules are loaded or the coordinator does not
answer yet, there is no state to save: a signal simply ends the process.

A compiled kernel does not react to signals. So it runs in a daemon thread, and the main thread, which can be
interrupted, waits for it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from fieldmouse.errors import StoppedImmediately

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds within which a second signal counts as the same: `timeout` signals the process and its group.
DUPLICATE_SIGNAL_SECONDS = 0.5


def interrupt_on_signals() -> None:
    """Let every stop signal raise `KeyboardInterrupt`, until `StopSignals` takes over."""
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


class StopSignals:
    """Context manager that handles stop signals; `say` prints its messages."""

    def __init__(self, say: Callable[[str], None] = lambda words: None):
        self._say = say
        self._before: dict[int, Any] = {}
        self._heard_at = 0.0
        self._soon: Callable[[Callable[[], None]], object] | None = None
        self._stop: Callable[[], str] = lambda: "as soon as the crawl has started"
        self._hurry: Callable[[], None] | None = None
        self._over = False
        self.stop_requested = False

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                # `nohup` ignores SIGHUP, and that must stay so.
                if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def attach_loop(
        self, soon: Callable[[Callable[[], None]], object], stop: Callable[[], str], hurry: Callable[[], None]
    ) -> None:
        """Handle signals in the running event loop; `soon` calls a function there, from any thread.

        The first signal calls `stop`, which describes the remaining work; the second calls `hurry`.
        """
        self._soon, self._stop, self._hurry = soon, stop, hurry
        if self.stop_requested:
            stop()

    def detach_loop(self) -> None:
        """Note that the event loop has ended, so that no work is left to stop."""
        self._soon = self._hurry = None
        self._over = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        now, before = time.monotonic(), self._heard_at
        if self.stop_requested and now - before < DUPLICATE_SIGNAL_SECONDS:
            return
        self._heard_at = now
        answer = self._on_second_signal if self.stop_requested else self._on_first_signal
        self.stop_requested = True
        if self._soon is not None:
            self._soon(answer)  # not here: the signal may interrupt a print
        else:
            answer()

    def _on_first_signal(self) -> None:
        if not self._over:
            self._say(f"stopping: {self._stop()}; repeat to stop at once")

    def _on_second_signal(self) -> None:
        self._say("stopped at once; nothing is lost: the next run fetches the last pages again")
        # A third signal kills the process without a message.
        for number in self._before:
            signal.signal(number, signal.SIG_DFL)
        if self._hurry is None:
            raise StoppedImmediately
        self._hurry()
