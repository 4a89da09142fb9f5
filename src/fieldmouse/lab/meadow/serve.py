"""Server process of the synthetic web: sockets, signals, the ready line, and additional processes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
import time

import msgspec
import uvloop

from fieldmouse.errors import FieldmouseError
from fieldmouse.lab.meadow.arrivals import ArrivalLog
from fieldmouse.lab.meadow.changelog import ChangeLog
from fieldmouse.lab.meadow.meadow import Meadow
from fieldmouse.lab.meadow.options import MeadowOptions
from fieldmouse.lab.meadow.places import HostAddresses
from fieldmouse.lab.meadow.server import Conversation, Grounds
from fieldmouse.lab.meadow.truth import write_truth

_BACKLOG = 4096


def serve(options: MeadowOptions) -> int:
    """Serve until SIGTERM or SIGINT; print one JSON line to stdout when ready. Return the exit code."""
    addresses = HostAddresses(options.listen)
    if not addresses.on_loopback:
        for number in range(options.addresses):
            _check_local(addresses[number])
    first = _listen(options.port, addresses)
    port = first.getsockname()[1]
    listeners = [first, *(_listen(port, addresses) for _ in range(options.processes - 1))]
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
            _run(meadow, listener, parent)
            os._exit(0)
        listener.close()
        children.append(child)
    try:
        line = msgspec.json.encode(ready) + b"\n"
        _run(meadow, first, os.getppid() if options.follow_parent else 0, line, changes)
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


def _listen(port: int, addresses: HostAddresses) -> socket.socket:
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
        raise FieldmouseError(
            f"cannot listen on port {port}: {error.strerror}", "choose another `--port`"
        ) from error
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def _run(
    meadow: Meadow, listener: socket.socket, parent: int, ready: bytes = b"", changes: ChangeLog | None = None
) -> None:
    """Serve on one listener until a signal, or until `parent` (if not 0) is no longer our parent."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(meadow, listener, parent, ready, changes))


async def _serve(
    meadow: Meadow, listener: socket.socket, parent: int, ready: bytes, changes: ChangeLog | None
) -> None:
    loop = asyncio.get_running_loop()
    arrivals = meadow.options.arrivals
    log = ArrivalLog(arrivals) if arrivals else None
    grounds = Grounds(meadow.desk, log, loop)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(lambda: Conversation(grounds), sock=listener, backlog=_BACKLOG)
    if ready:
        sys.stdout.buffer.write(ready)
        sys.stdout.buffer.flush()
    while not stop.is_set() and (not parent or os.getppid() == parent):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 1.0)
        grounds.tick()
        if changes:
            changes.advance(time.time())
    server.close()
    if log:
        log.close()
    if changes:
        changes.close()
