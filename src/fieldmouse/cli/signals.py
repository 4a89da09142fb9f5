"""What whoever runs the crawl asks of it while it runs: to stop, or to stop at once.

SIGINT (Ctrl-C), SIGTERM (`kill`, `timeout`, a service that is stopped) and SIGHUP (the
terminal was closed) all mean the same. The first is answered at once in words, and the
crawl comes to an orderly end. The second ends it where it stands, which is no worse
than a kill. Worker processes ignore all of them: the agent decides what they mean.

The handlers stand before the event loop runs and after it has ended, so that no moment
of a crawl answers a signal with a traceback. Before that, while a crawl is planned, modules are
loaded or a board is waited for, there is nothing to bring to an end: a signal just ends it (`heed_signals`).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from fieldmouse.errors import StoppedAtOnce

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ECHO = 0.5
"""Seconds in which a signal is the one before: `timeout` sends each to us and to our group."""


def heed_signals() -> None:
    """From now on every signal to stop is what Ctrl-C is to Python, until `Signals` knows better."""
    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


class Signals:
    """A context: within it, signals to stop are answered. `say` gets the words."""

    def __init__(self, say: Callable[[str], None] = lambda words: None):
        self._say = say
        self._before: dict[int, Any] = {}
        self._heard_at = 0.0
        self._soon: Callable[[Callable[[], None]], object] | None = None
        self._stop: Callable[[], str] = lambda: "as soon as the crawl is open"
        self._hurry: Callable[[], None] | None = None
        self._over = False
        self.asked = False

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                # Whoever started us with `nohup` does not want to hear of a closed terminal.
                if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._received)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, mistake: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def obey(
        self, soon: Callable[[Callable[[], None]], object], stop: Callable[[], str], hurry: Callable[[], None]
    ) -> None:
        """A loop runs now, in which `soon` calls what it is given.

        There a first signal calls `stop`, which says what is left to do, and a second one `hurry`.
        """
        self._soon, self._stop, self._hurry = soon, stop, hurry
        if self.asked:
            stop()

    def ended(self) -> None:
        """The loop is no more, and there is nothing left to stop."""
        self._soon = self._hurry = None
        self._over = True

    def _received(self, number: int, frame: FrameType | None) -> None:
        now, before = time.monotonic(), self._heard_at
        if self.asked and now - before < ECHO:
            return
        self._heard_at = now
        answer = self._second if self.asked else self._first
        self.asked = True
        if self._soon is not None:
            self._soon(answer)  # not here: we may be in the middle of a line that is printed
        else:
            answer()

    def _first(self) -> None:
        if not self._over:
            self._say(f"stopping: {self._stop()}; once more to stop at once")

    def _second(self) -> None:
        self._say("stopped at once; nothing is lost: the next run fetches the last pages again")
        # Whoever asks a third time does not want to hear from us.
        for number in self._before:
            signal.signal(number, signal.SIG_DFL)
        if self._hurry is None:
            raise StoppedAtOnce
        self._hurry()
