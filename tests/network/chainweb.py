"""A web on loopback on which every host keeps running dry.

Pages form chains. Each page links to the next one of its chain, which is on another host. So a host has at
most a few URLs at a time and usually none, and new links to it appear as long as the web grows. The web
runs in a separate thread and logs every request, to check politeness.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fieldmouse.testing.meadow.server import Arrival

_PAGE = """<!doctype html><html lang=en><head><title>{title}</title></head><body><h1>{title}</h1>
<p>Page {step} of chain {chain}. {words}</p>{links}</body></html>"""


class ChainWeb:
    """Some hosts and chains; it grows until `finish`, which any thread may call."""

    resolve: tuple[str, ...] = ()  # hosts are addresses: nothing to look up

    def __init__(self, seed: int, hosts: int = 40, chains: int = 12) -> None:
        self._seed, self._chains, self._count = seed, chains, hosts
        self._origins: list[str] = []
        self._longest = [0] * chains  # the largest step of each chain that was linked to
        self._finished = False
        self.arrivals_so_far: list[Arrival] = []

    @property
    def seeds(self) -> list[str]:
        return [f"{self._origins[0]}/"]

    def finish(self) -> None:
        """Stop the growth of all chains."""
        self._finished = True

    def pages(self) -> set[str]:
        """Every page that was linked to."""
        steps = ((chain, step) for chain in range(self._chains) for step in range(self._longest[chain] + 1))
        return {*self.seeds, *(self._url(chain, step) for chain, step in steps)}

    def _url(self, chain: int, step: int) -> str:
        host = random.Random(f"{self._seed} {chain} {step}").randrange(self._count)
        return f"{self._origins[host]}/{chain}/{step}"

    def _answer(self, path: str) -> tuple[int, str]:
        if path == "/":
            links = "".join(f'<a href="{self._url(chain, 0)}">chain</a>' for chain in range(self._chains))
            return 200, _PAGE.format(title="Chains", step=0, chain="all", words="", links=links)
        chain, _, step = path[1:].partition("/")
        if not (chain.isdecimal() and step.isdecimal() and int(chain) < self._chains):
            return 404, "not found"
        place, number = int(chain), int(step)
        if number == self._longest[place] and not self._finished:
            self._longest[place] += 1
        links = ""
        if number < self._longest[place]:
            links = f'<a href="{self._url(place, number + 1)}">next</a>'
        words = " ".join(random.Random(path).choices([*path.split("/"), "mouse", "field"], k=40))
        title = f"Chain {chain}, page {step}"
        return 200, _PAGE.format(title=title, step=step, chain=chain, words=words, links=links)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address, port = writer.get_extra_info("sockname")
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                busy = self._open.get(address, 0)
                self._open[address] = busy + 1
                self.arrivals_so_far.append(Arrival(time.time(), f"{address}:{port}", address, path, busy, ""))
                status, text = self._answer(path)
                body = text.encode()
                writer.write(
                    b"HTTP/1.1 %d ok\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s"
                    % (status, len(body), body)
                )
                self._open[address] -= 1
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _run(self, ready: threading.Event) -> None:
        self._open: dict[str, int] = {}
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        servers = [
            await asyncio.start_server(self._serve, f"127.77.{number // 250}.{number % 250 + 1}", 0)
            for number in range(self._count)
        ]
        for server in servers:
            address, port = server.sockets[0].getsockname()
            self._origins.append(f"http://{address}:{port}")
        ready.set()
        await self._over.wait()
        for server in servers:
            server.close()

    @contextmanager
    def running(self) -> Iterator[ChainWeb]:
        ready = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(self._run(ready)), daemon=True)
        thread.start()
        assert ready.wait(60)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
            thread.join(60)
