"""A meadow in its own process, for tests: `with running_meadow(hosts=10, pages=100) as meadow: ...`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmouse.testing.meadow.server import Arrival, read_arrivals


@dataclass(frozen=True)
class RunningMeadow:
    """What one may know of a meadow that runs. `arrivals` is complete once the `with` block is left."""

    seeds: list[str]
    port: int
    resolve: list[str]
    folder: Path
    process: subprocess.Popen[bytes]

    def truth(self) -> dict[str, tuple[int, bool]]:
        """URL -> (status, allowed)."""
        lines = (self.folder / "truth.jsonl").read_text().splitlines()
        facts = [json.loads(line) for line in lines]
        told = {fact["url"]: (fact["status"], fact["allowed"]) for fact in facts}
        assert len(told) == len(facts), "the truth is told once"
        return told

    def allowed(self) -> set[str]:
        """Every URL an obedient crawler asks for, whatever the status."""
        return {url for url, (_, allowed) in self.truth().items() if allowed}

    def pages(self) -> set[str]:
        """Every URL an obedient crawler stores: allowed and answered with 200, sitemaps included."""
        return {url for url, (status, allowed) in self.truth().items() if allowed and status == 200}

    def arrivals(self) -> list[Arrival]:
        return read_arrivals(self.folder / "arrivals.jsonl")

    def stop(self) -> None:
        """End it and wait: afterwards the arrivals are complete. May be called twice."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0


@contextmanager
def running_meadow(before: Sequence[str] = (), **options: Any) -> Iterator[RunningMeadow]:
    """A meadow with these `MeadowOptions` on a port of the system's choice; `before` runs it elsewhere."""
    with tempfile.TemporaryDirectory(prefix="meadow-") as name:
        folder = Path(name)
        asked = {"port": 0, "follow_parent": True, **options}
        asked |= {"truth": str(folder / "truth.jsonl"), "arrivals": str(folder / "arrivals.jsonl")}
        command = [*before, sys.executable, "-m", "fieldmouse.testing.meadow.serve", json.dumps(asked)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout
        with process.stdout:
            ready = json.loads(process.stdout.readline() or "null")
            assert ready, f"the meadow did not start: {command}"
            try:
                yield RunningMeadow(ready["seeds"], ready["port"], ready["resolve"], folder, process)
            finally:
                process.terminate()
                process.wait(30)
