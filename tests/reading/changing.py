"""A web that is another each day, crawled once and then polled by the frontier's own door.

Each path has a list of what it answers, one for each day; the last one stays. A day is a run in virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from fieldmouse.agent.build import build
from fieldmouse.clock import Clock
from fieldmouse.crawldir import CrawlDir, Sealed, outcomes, read_checkpoint, sealed_outcomes
from fieldmouse.crawldir.news import REFRESH, Baseline
from fieldmouse.indexer.inline import InlineLane
from fieldmouse.lab import bottle
from fieldmouse.records import Door, Failed, Kind, Link, OutcomeRow, Response
from fieldmouse.settings import Settings, load, render
from fieldmouse.summary import Summary
from fieldmouse.url import Host, path_of
from whole.bottled import CALM

HOME = "http://127.0.0.1:8000"
DAY = 86_400.0
GONE, SILENT = 404, 500

Shown = str | bytes | int | tuple[int, str]
"""A page, a status without one, or a redirect and where to."""


class ChangingWeb:
    def __init__(self, pages: dict[str, list[Shown]], clock: Clock, day: int):
        self._pages, self._clock, self._day = pages, clock, day

    async def fetch(
        self, link: Link, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        days = self._pages.get(path_of(link.url), [GONE])
        shown = days[min(self._day, len(days) - 1)]
        status, fields, body = 200, "Content-Type: text/html\r\n", b""
        if isinstance(shown, int):
            status = shown
        elif isinstance(shown, tuple):
            status, fields = shown[0], f"Location: {shown[1]}\r\n"
        elif isinstance(shown, bytes):
            fields, body = "Content-Type: image/png\r\n", shown
        else:
            body = shown.encode()
        head = f"HTTP/1.1 {status} Fine\r\n{fields}Content-Length: {len(body)}\r\n\r\n"
        pairs = tuple(
            (name.lower(), value)
            for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:-2])
        )
        now = self._clock.now()
        return Response(status, head.encode(), body, b"GET / HTTP/1.1\r\n\r\n", address, now, now, now, pairs)

    async def close(self) -> None:
        """Nothing is open."""


class BaselinePart:
    """What a refresh keeps for those who tell: when the first crawl was over."""

    name = REFRESH

    def __init__(self, at: float):
        self._at = at

    def begin(self) -> None: ...

    def seal(self) -> Sealed[Baseline]:
        return Sealed(Baseline(self._at))

    def committed(self) -> None: ...

    def close(self) -> None: ...


class ChangingCrawl:
    """A crawl of a changing web, day by day."""

    def __init__(self, path: Path, pages: dict[str, list[Shown]], **settings: object):
        self.path, self._pages, self.day = path, pages, 0
        dotted = {name.replace("__", "."): value for name, value in settings.items()}
        asked = Settings().override(
            {
                "crawl.seeds": [HOME + "/"],
                "politeness.delay": "0s",
                "network.allow_private": True,
                **CALM,
                **dotted,
            }
        )
        CrawlDir.create(path, shards=1, settings=render(asked).encode())
        self._live([])

    def next_days(self, days: int = 1) -> None:
        """Every known page is polled on each of the days."""
        for _ in range(days):
            self.day += 1
            self._live(list(self._known()))

    def _known(self) -> Iterable[Link]:
        home = CrawlDir.open(self.path)
        newest: dict[str, OutcomeRow] = {}
        memory: dict[str, bytes] = {}
        for row in outcomes.rows(home, length=sealed_outcomes(read_checkpoint(home))):
            if row.stands:
                newest[row.url] = row
            if row.news:
                memory[row.url] = row.memory
        for url, row in newest.items():
            yield Link(
                row.url, row.depth, row.via, Kind(row.found_as), row.seen_at, door=Door.POLLED, was=row.kind,
                digest=row.digest, simhash=row.simhash, warc=row.warc, offset=row.offset,
                memory=memory.get(url, b""),
            )  # fmt: skip

    def _live(self, polls: list[Link]) -> Summary:
        home = CrawlDir.open(self.path)
        settings = load(self.path / "fieldmouse.toml")
        part: Callable[..., BaselinePart] = lambda *_: BaselinePart(bottle.EPOCH + DAY / 2)  # noqa: E731

        async def life(clock: Clock) -> Summary:
            crew = build(
                home, settings, clock=clock, fetcher=ChangingWeb(self._pages, clock, self.day),
                lane=InlineLane, parts=[part],
            )  # fmt: skip
            try:
                if polls:
                    crew.agent._frontier.poll(polls)
                return await asyncio.wait_for(crew.agent.crawl([] if polls else [HOME + "/"]), 1e6)
            finally:
                await crew.close()

        return bottle.run(life, epoch=bottle.EPOCH + self.day * DAY)

    def set(self, **changes: object) -> None:
        """Change the settings of the crawl, as its user would in the file."""
        settings = load(self.path / "fieldmouse.toml")
        dotted = {name.replace("__", "."): value for name, value in changes.items()}
        (self.path / "fieldmouse.toml").write_text(render(settings.override(dotted)))
