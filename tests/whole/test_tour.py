"""Statements of the tour: a new host takes three visits, and every place it names exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fieldmouse.clock import Clock
from fieldmouse.fetch.worker import FetchWorker, VisitReport
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.request import HostVisit, Request
from fieldmouse.url import Host

from .virtual_time import bottled_crawl

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src" / "fieldmouse"
TOUR = (ROOT / "docs" / "tour.md").read_text()


def test_a_new_host_takes_three_visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, ...]] = []

    class Watched(MeadowFetcher):
        async def fetch(
            self, link: Request, host: Host, address: str, *, body_limit: int | None = None
        ) -> Response | Failed:
            told.append(("asked for", link.url))
            return await super().fetch(link, host, address, body_limit=body_limit)

    run = FetchWorker.visit_host

    async def watched(robot: FetchWorker, visit: HostVisit) -> VisitReport:
        told.append(("errand to", visit.address))
        report = await run(robot, visit)
        told.append(("unused", str(len(report[1]))))
        return report

    monkeypatch.setattr(FetchWorker, "visit_host", watched)
    meadow = Meadow(MeadowOptions(hosts=1, pages=2, seed=1, page_kb=1, links=1))
    (seed, *_), address = meadow.seeds, meadow.plan.sites[0].address

    def web(clock: Clock) -> Watched:
        return Watched(meadow, clock)

    bottled_crawl(tmp_path / "c", web, [seed], crawl__max_depth=0, network__allow_private=True)
    assert told[:8] == [
        ("errand to", ""),
        ("unused", "1"),
        ("errand to", address),
        ("asked for", f"{seed}robots.txt"),
        ("unused", "1"),
        ("errand to", address),
        ("asked for", seed),
        ("unused", "0"),
    ]


def named() -> Iterator[str]:
    for name in re.findall(r"`([\w/.]+)`", TOUR):
        if "/" in name or name.endswith(".py"):
            yield name


@pytest.mark.parametrize("name", sorted(set(named())))
def test_every_place_named_in_the_tour_exists(name: str) -> None:
    if name.startswith("/"):
        return  # a path of the web
    shelves = [ROOT, SOURCE, *(path for path in SOURCE.iterdir() if path.is_dir())]
    assert any((shelf / name).exists() for shelf in shelves), name


def test_every_package_has_its_line_in_the_tour() -> None:
    rooms = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.suffix in (".py", "")}
    lines = [line for line in TOUR.splitlines() if line.startswith("| ")]
    missing = {
        room
        for room in rooms - {"__pycache__", "__init__", "__main__", "py.typed"}
        if not any(f"`{room}`" in line for line in lines)
    }
    assert not missing
