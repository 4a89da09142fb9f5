"""Server process of the synthetic web: sockets, signals, the ready line, and the log of page changes.

`python -m fieldmouse.testing.meadow.serve '{"hosts": 10, "pages": 100}'` serves a meadow with these options.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import heapq
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import msgspec
import uvloop

from fieldmouse.errors import FieldmouseError
from fieldmouse.testing.meadow.addresses import HostAddresses
from fieldmouse.testing.meadow.changes import Location, PageVersion
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.paths import SpecialPath, path_of, special_path
from fieldmouse.testing.meadow.plan import Site
from fieldmouse.testing.meadow.server import ArrivalLog, HttpConnection, ServerState
from fieldmouse.testing.meadow.truth import write_truth
from fieldmouse.url import Url


class MeadowReady(msgspec.Struct):
    """First line of output of the process, once it serves."""

    seeds: list[str]
    port: int


@contextmanager
def meadow_process(options: MeadowOptions) -> Iterator[MeadowReady]:
    """Serve a meadow during the context. All its files are complete when the context ends."""
    text = msgspec.json.encode(options, enc_hook=str).decode()
    command = [sys.executable, "-m", "fieldmouse.testing.meadow.serve", text]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise FieldmouseError("the meadow did not start", "its own words are above")
            yield msgspec.json.decode(line, type=MeadowReady)
        finally:
            process.terminate()


_NEVER = PageVersion(0, math.inf)


class MeadowChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: from `t` on, `url` shows another `revision`, or is `new`, `gone`, `moved` or `back`."""

    t: float  # epoch seconds
    url: Url
    revision: int
    kind: str = "changed"


def page_changes_after(meadow: Meadow, start: float) -> Iterator[MeadowChange]:
    """Return all changes to the pages of a meadow after `start`, in order of time, without end.

    Changes of a page that is away are not yielded; a moved page changes at its new URL.
    """
    courses = (_changes_of_page(meadow, site, page, start) for site in meadow.plan.sites for page in range(site.size))
    return heapq.merge(*courses, key=lambda change: change.t)


def _changes_of_page(meadow: Meadow, site: Site, page: int, start: float) -> Iterator[MeadowChange]:
    """Yield the changes of one page."""
    changes, fates = meadow.responder.changes, meadow.responder.lifetimes
    here = Url(site.origin + path_of(site, page))
    home = Url(site.origin + special_path(SpecialPath.HOME, page))
    turns = [turn for turn in fates.location_changes(site, page) if turn.at > start]
    story = fates.new_page_since(site, page)
    revision, where = changes.page_version(site, page, start).number, fates.location(site, page, start)
    # A page that never changes may still vanish or move, so a version at infinite time comes last.
    for version in chain(changes.versions_after(site, page, start), [_NEVER]):
        while turns and turns[0].at < version.since:
            turn = turns.pop(0)
            where = turn.location
            if where is Location.HERE:
                yield MeadowChange(turn.at, here, changes.page_version(site, page, turn.at).number, "back")
            else:
                kind = "moved" if where is Location.MOVED else "gone"
                yield MeadowChange(turn.at, here, revision, kind)
        if version is _NEVER or where is Location.GONE:
            return
        revision = version.number
        if where is Location.HERE or where is Location.MOVED:
            yield MeadowChange(version.since, here if where is Location.HERE else home, revision)
        if story == version.since:
            yield MeadowChange(version.since, Url(site.origin + special_path(SpecialPath.STORY, page)), 0, "new")


class ChangeLog:
    """Writer of all changes from `start` on; they are written when their time comes."""

    def __init__(self, meadow: Meadow, path: Path, start: float):
        self._file = path.open("wb")
        self._coming = page_changes_after(meadow, start)
        self._next = next(self._coming, None)

    def write_changes_until(self, now: float) -> None:
        """Write all changes up to `now`."""
        while self._next is not None and self._next.t <= now:
            self._file.write(msgspec.json.encode(self._next) + b"\n")
            self._next = next(self._coming, None)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


_BACKLOG = 4096


def serve(options: MeadowOptions) -> int:
    """Serve until SIGTERM or SIGINT; print one JSON line to stdout when ready. Return the exit code."""
    addresses = HostAddresses(options.listen)
    if not addresses.on_loopback:
        for number in range(options.addresses):
            _check_local(addresses[number])
    first = _open_listener(options.port, addresses)
    port = first.getsockname()[1]
    listeners = [first, *(_open_listener(port, addresses) for _ in range(options.processes - 1))]
    options = msgspec.structs.replace(options, began=options.began or time.time())
    meadow = Meadow(options, port)
    if options.truth:
        write_truth(meadow.plan, options.truth)
    if options.arrivals:
        options.arrivals.write_bytes(b"")
    ready = {
        "seeds": meadow.seeds,
        "port": port,
        "hosts": options.hosts,
        "pages": options.pages,
        "seed": options.seed,
        "resolve": meadow.plan.resolve_map(),
    }
    changes = ChangeLog(meadow, options.changes, options.began) if options.changes else None
    # The plan lives until exit: freezing it spares the collector the scan and keeps its pages shared with
    # children.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # responses leave no cycles
    parent = os.getpid()
    children = []
    for listener in listeners[1:]:
        child = os.fork()
        if child == 0:
            first.close()
            _serve_until_signal(meadow, listener, parent)
            os._exit(0)
        listener.close()
        children.append(child)
    try:
        line = msgspec.json.encode(ready) + b"\n"
        _serve_until_signal(meadow, first, os.getppid() if options.follow_parent else 0, line, changes)
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
    return 0


def _check_local(address: str) -> None:
    """Check that an address outside of loopback belongs to this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        try:
            trial.bind((address, 0))
        except OSError as error:
            raise FieldmouseError(
                f"cannot listen on {address}: {error.strerror}",
                f"give it to an interface first, such as by `ip route add local {address}/32 dev lo`",
            ) from error


def _open_listener(port: int, addresses: HostAddresses) -> socket.socket:
    """Open one socket for all addresses. If these are loopback addresses and the system permits it, the
    socket is bound to
    loopback; the protocol closes connections to any other address."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if addresses.on_loopback:
        with contextlib.suppress(PermissionError):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    try:
        listener.bind(("0.0.0.0", port))
    except OSError as error:
        raise FieldmouseError(f"cannot listen on port {port}: {error.strerror}", "choose another `--port`") from error
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def _serve_until_signal(
    meadow: Meadow, listener: socket.socket, parent: int, ready: bytes = b"", changes: ChangeLog | None = None
) -> None:
    """Serve on one listener until a signal, or until `parent` (if not 0) is no longer our parent."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(meadow, listener, parent, ready, changes))


async def _serve(meadow: Meadow, listener: socket.socket, parent: int, ready: bytes, changes: ChangeLog | None) -> None:
    loop = asyncio.get_running_loop()
    arrivals = meadow.options.arrivals
    log = ArrivalLog(arrivals) if arrivals else None
    grounds = ServerState(meadow.responder, log, loop)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(lambda: HttpConnection(grounds), sock=listener, backlog=_BACKLOG)
    if ready:
        sys.stdout.buffer.write(ready)
        sys.stdout.buffer.flush()
    while not stop.is_set() and (not parent or os.getppid() == parent):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 1.0)
        grounds.do_periodic_work()
        if changes:
            changes.write_changes_until(time.time())
    server.close()
    if log:
        log.close()
    if changes:
        changes.close()


if __name__ == "__main__":
    text = sys.argv[1] if len(sys.argv) > 1 else "{}"
    sys.exit(serve(msgspec.json.decode(text, type=MeadowOptions, dec_hook=lambda kind, value: kind(value))))
