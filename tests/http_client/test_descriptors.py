"""Tests of errno values of failed connections, and of descriptors reserved for files."""

from __future__ import annotations

import errno
import json
import socket
import subprocess
import sys

from fieldmouse.clock import WallClock
from fieldmouse.crawler.builder import RESERVED_DESCRIPTORS
from fieldmouse.http.client import HttpFetcher
from fieldmouse.policy.local_outage import FailureCause, cause_of
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url
from http_client.rawserver import run


def test_refused_connection_carries_its_errno() -> None:
    with socket.socket() as door:  # bound but not listening, so that no other process gets the port
        door.bind(("127.0.0.1", 0))
        host = Host(f"http://127.0.0.1:{door.getsockname()[1]}")

        async def play() -> Response | Failed:
            fetcher = HttpFetcher(user_agent="x", clock=WallClock())
            try:
                return await fetcher.fetch(Request(Url(host + "/")), host, "127.0.0.1")
            finally:
                await fetcher.close()

        answer = run(play())
    assert isinstance(answer, Failed)
    assert answer.errno == errno.ECONNREFUSED
    assert cause_of(answer) is FailureCause.HOST


STARVED = """
import asyncio, json, os, resource, uvloop
from fieldmouse.clock import WallClock
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url
from fieldmouse.crawler.builder import max_connections
from fieldmouse.http.client import HttpFetcher

async def silence(reader, writer):
    await reader.read()

async def main():
    server = await asyncio.start_server(silence, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    limit = len(os.listdir("/proc/self/fd")) + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    room = max_connections()
    fetcher = HttpFetcher(user_agent="x", clock=WallClock(), most_connections=room)
    hosts = [Host(f"http://h{n}.test:{port}") for n in range(120)]
    asking = {asyncio.ensure_future(fetcher.fetch(Request(Url(h + "/")), h, "127.0.0.1")) for h in hosts}
    failed = []
    while len(failed) < len(hosts) - room:
        done, asking = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        failed += [task.result() for task in done]
    files = [open("/dev/null") for _ in range(20)]
    print(json.dumps({"room": room, "numbers": sorted({one.errno for one in failed})}))
    await fetcher.close()

uvloop.run(main())
"""


def test_sockets_leave_descriptors_for_files() -> None:
    """100 descriptors are free, and 120 hosts respond slowly."""
    done = subprocess.run([sys.executable, "-c", STARVED], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told == {"room": 100 - RESERVED_DESCRIPTORS, "numbers": [errno.EMFILE]}
