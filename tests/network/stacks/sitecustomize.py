"""Dump of the awaited calls of all tasks on SIGUSR1, for an agent that has this on its path."""

from __future__ import annotations

import contextlib
import signal
import sys
from types import FrameType


def _tell(number: int, frame: FrameType | None) -> None:
    import asyncio
    import traceback

    traceback.print_stack(frame, file=sys.stderr)
    with contextlib.suppress(RuntimeError):  # no loop runs yet
        for task in asyncio.all_tasks():
            print(task, file=sys.stderr)
            task.print_stack(file=sys.stderr)
    sys.stderr.flush()


with contextlib.suppress(ValueError):  # not in the main thread
    signal.signal(signal.SIGUSR1, _tell)
