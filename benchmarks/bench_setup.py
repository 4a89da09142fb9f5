"""Test bed of the contestants: a separate synthetic web for each, with its log as the judge.

Every run gets a new meadow from the same seed, so no contestant meets caches or once-only errors that
another has used up. The fetched pages are read from the server's log, not from the crawler's report: a
page counts once, if it is a page of the plan and was requested.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.paths import parse_path, path_of
from fieldmouse.testing.meadow.plan import MeadowPlan
from fieldmouse.testing.meadow.server import Arrival, read_arrivals

_TICKS = os.sysconf("SC_CLK_TCK")

# Most rivals run without reading robots.txt, which is to their advantage; the traps that it excludes
# (infinite calendars, session ids) are left out instead.
NO_TRAPS: dict[str, Any] = {"traps": 0.0}


@dataclass(frozen=True)
class Ground:
    """One running meadow."""

    seeds: list[str]
    plan: MeadowPlan
    arrivals_file: Path
    process: subprocess.Popen[bytes]

    @property
    def seed(self) -> str:
        return self.seeds[0]

    def server_seconds(self) -> float:
        """CPU seconds of the meadow so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def stop(self) -> None:
        """Stop the meadow, which completes its log. May be called twice."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(30)

    def verdict(self, until: float = float("inf")) -> Verdict:
        """Requests that the server saw up to `until` (epoch seconds); stops the meadow first."""
        self.stop()
        return judge(self.plan, [a for a in read_arrivals(self.arrivals_file) if a.t <= until])

    def page_paths(self, hosts: int, each: int) -> dict[str, list[str]]:
        """Paths of some pages of the largest hosts, by address, for a load generator."""
        return {
            site.address: [path_of(site, page) for page in range(min(each, site.original))]
            for site in self.plan.sites[:hosts]
        }


class Verdict(msgspec.Struct, frozen=True):
    """A crawl as the server saw it."""

    requests: int
    pages: int  # distinct pages of the plan
    hosts: int
    first_at: float
    last_at: float
    per_host: dict[int, int]  # host number -> distinct pages


def judge(plan: MeadowPlan, arrivals: list[Arrival]) -> Verdict:
    fetched: dict[int, set[int]] = {}
    for arrival in arrivals:
        site = plan.by_address.get(arrival.address)
        place = parse_path(site, arrival.path) if site else None
        if site and place and place.special is None:
            fetched.setdefault(site.number, set()).add(place.number)
    per_host = {number: len(pages) for number, pages in fetched.items()}
    return Verdict(
        requests=len(arrivals),
        pages=sum(per_host.values()),
        hosts=len(per_host),
        first_at=arrivals[0].t if arrivals else 0.0,
        last_at=arrivals[-1].t if arrivals else 0.0,
        per_host=per_host,
    )


@contextmanager
def fresh_meadow(**options: Any) -> Iterator[Ground]:
    """Start a meadow with these `MeadowOptions`, on a free port, for one contestant."""
    with tempfile.TemporaryDirectory(prefix="bench-meadow-") as name:
        log = Path(name) / "arrivals.jsonl"
        asked = {"port": 0, "follow_parent": True, **options}
        command = [sys.executable, "-m", "fieldmouse.testing.meadow.serve", json.dumps(asked | {"arrivals": str(log)})]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout
        with process.stdout:
            ready = json.loads(process.stdout.readline() or "null")
            assert ready, f"the meadow did not start: {command}"
            ground = Ground(ready["seeds"], MeadowPlan(MeadowOptions(**asked), ready["port"]), log, process)
            try:
                yield ground
            finally:
                ground.stop()
