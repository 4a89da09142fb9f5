"""Commands that only read a crawl, run by forks of a process that has imported everything.

A case asks doctor twice and exports once, and most of what that costs is importing. Each thread has a
server of its own, whose forks are as fresh as a process can be: nothing but imports was done in it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO

_own = threading.local()


def forked(words: list[str], patience: float) -> tuple[int | None, bytes, bytes]:
    """Exit code (None: it was not done in time), what it said, and what it complained of."""
    server: subprocess.Popen[bytes] | None = getattr(_own, "server", None)
    if server is None or server.poll() is not None:
        code = "from torture.forked import serve; serve()"
        path = os.pathsep.join(sys.path)
        server = _own.server = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
        )
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory(prefix="forked-") as name:
        out, err = Path(name) / "out", Path(name) / "err"
        server.stdin.write(json.dumps([words, str(out), str(err), patience]).encode() + b"\n")
        server.stdin.flush()
        code = json.loads(server.stdout.readline())
        return code, out.read_bytes(), err.read_bytes()


def serve() -> None:
    """Until nobody asks any more."""
    from fieldmouse.cli import main
    from fieldmouse.cli.read import export  # noqa: F401 (all that they import is imported once)

    answers: IO[str] = os.fdopen(os.dup(1), "w")
    while line := sys.stdin.readline():
        words, out, err, patience = json.loads(line)
        child = os.fork()
        if not child:
            os.setsid()
            for number, path in ((0, os.devnull), (1, out), (2, err)):
                flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT
                os.dup2(os.open(path, flags, 0o600), number)
            try:
                main.main(words)
            except SystemExit as leaving:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(leaving.code if isinstance(leaving.code, int) else 1)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                sys.stderr.flush()
            os._exit(1)
        print(json.dumps(_ended(child, patience)), file=answers, flush=True)


def _ended(child: int, patience: float) -> int | None:
    watch = os.pidfd_open(child)
    try:
        in_time = bool(select.select([watch], [], [], patience)[0])
    finally:
        os.close(watch)
    if not in_time:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if in_time else None
