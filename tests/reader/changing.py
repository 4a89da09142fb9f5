"""Site that changes each day, crawled once and then refreshed.

Each path has a list of responses, one per day; the last one stays. A day is a run in virtual time.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fieldmouse.clock import Clock
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.config.settings_file import load, render
from fieldmouse.testing import virtual_time
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.request import Request
from fieldmouse.url import Host, path_of
from whole.virtual_time import bottled_crawl

HOME = "http://127.0.0.1:8000"
DAY = 86_400.0
GONE, SILENT = 404, 500

Shown = str | bytes | int | tuple[int, str]
"""A page, a status without one, or a redirect with its target."""


class ChangingWeb:
    def __init__(self, pages: dict[str, list[Shown]], clock: Clock, day: int):
        self._pages, self._clock, self._day = pages, clock, day

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
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
            (name.lower(), value) for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:-2])
        )
        now = self._clock.now()
        return Response(status, head.encode(), body, b"GET / HTTP/1.1\r\n\r\n", address, now, now, now, pairs)

    async def close(self) -> None:
        """Nothing is open."""


class ChangingCrawl:
    """A crawl of a changing web, refreshed day by day."""

    def __init__(self, path: Path, pages: dict[str, list[Shown]], **settings: object):
        self.path, self._pages, self.day = path, pages, 0
        polite = {"politeness__delay": "0s", "politeness__patience": "0", "network__allow_private": True}
        refresh = {"refresh__policy": "uniform", "refresh__retry": "1h"}
        self._settings: dict[str, object] = polite | refresh | settings
        self._live(None)

    def next_days(self, days: int = 1) -> None:
        """Poll every known page on each of the days."""
        for _ in range(days):
            self.day += 1
            self._live(RefreshRunMode(once=True, hold_waiting=True, refresh_only=True))

    def _live(self, order: RefreshRunMode | None) -> None:
        epoch = virtual_time.EPOCH + self.day * DAY
        fetcher = partial(ChangingWeb, self._pages, day=self.day)
        bottled_crawl(self.path, fetcher, [HOME + "/"], epoch=epoch, order=order, **self._settings)  # type: ignore[arg-type]

    def set(self, **changes: object) -> None:
        """Change the settings of the crawl in its file, as a user would."""
        settings = load(self.path / "fieldmouse.toml")
        dotted = {name.replace("__", "."): value for name, value in changes.items()}
        (self.path / "fieldmouse.toml").write_text(render(settings.override(dotted)))
