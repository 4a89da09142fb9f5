"""Channel that runs a program of the user with the changes as JSON on its standard input.

Never through a shell: a title or a URL from the web is never part of a command line. The program
runs in the crawl directory, in a separate session, so that it and all its children are killed when it
takes too long. Exit code 0 means that the changes have arrived.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from fieldmouse.aio import DaemonExecutor
from fieldmouse.config.notify_section import NotifySection
from fieldmouse.notify.channel_interface import BatchingRules, ChangeBatch, Channel, FailedDelivery, one_line

#: Bytes of a program's output that are kept; the rest is read and dropped.
MAX_OUTPUT = 4 << 10

_POLL_SECONDS = 0.1


class CommandChannel(Channel):
    name = "command"

    def __init__(self, settings: NotifySection, *, home: Path, environment: Mapping[str, str]):
        self._words, self._timeout = settings.command, settings.timeout
        self._home, self._environment = home, environment
        self.mode = BatchingRules(max_changes=settings.batch)
        self._stopped = threading.Event()

    async def send(self, notice: ChangeBatch) -> FailedDelivery | None:
        environment = {**self._environment, "FIELDMOUSE_NOTIFY_KEY": notice.key}
        body = notice.as_json(listed=self.mode.max_changes > 1)
        return await asyncio.get_running_loop().run_in_executor(DaemonExecutor(), self._run, body, environment)

    def cancel_delivery(self) -> None:
        self._stopped.set()

    def _run(self, body: bytes, environment: Mapping[str, str]) -> FailedDelivery | None:
        program = self._words[0]
        with tempfile.TemporaryFile() as stdin:
            stdin.write(body)
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    self._words,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    cwd=self._home,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as refused:
                return FailedDelivery(f"`{program}` cannot be run: {(refused.strerror or str(refused)).lower()}")
        output = _Output(process)
        code = self._wait(process)
        if code == 0:
            return None
        if code is None:
            # The process is not reaped yet, so its id is still the id of its group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        why = f"took longer than {self._timeout:g} s" if code is None else _ending(code)
        said = one_line(output.beginning())
        return FailedDelivery(f"`{program}` {why}" + (f"; it said: {said}" if said else ""))

    def _wait(self, process: subprocess.Popen[bytes]) -> int | None:
        """The exit code, or None if the program has to be killed."""
        deadline = time.monotonic() + self._timeout
        while not self._stopped.is_set() and (left := deadline - time.monotonic()) > 0:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(min(_POLL_SECONDS, left))
        return None


class _Output:
    """Reader that drains a program's output, so that the program never blocks, and keeps the beginning."""

    def __init__(self, process: subprocess.Popen[bytes]):
        assert process.stdout is not None
        self._kept = b""
        # A daemon thread: a child left behind by the program may hold the pipe open without limit.
        self._thread = threading.Thread(target=self._drain, args=(process.stdout,), daemon=True)
        self._thread.start()

    def _drain(self, pipe: IO[bytes]) -> None:
        with pipe:
            while chunk := os.read(pipe.fileno(), 64 << 10):
                self._kept += chunk[: MAX_OUTPUT - len(self._kept)]

    def beginning(self) -> str:
        self._thread.join(1.0)
        return self._kept.decode(errors="replace")


def _ending(code: int) -> str:
    return f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
