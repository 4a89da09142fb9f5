"""Trial of a refresh on real processes: a synthetic web, a crawl and a refresh, started by command.

Time is real, so pages change quickly: a round is a minute instead of a day. The truth is read from the
meadow's logs of changes and of arriving requests.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec

from fieldmouse.errors import FieldmouseError
from fieldmouse.lab.meadow.arrivals import read_arrivals
from fieldmouse.lab.meadow.changelog import MeadowChange
from fieldmouse.lab.meadow.meadow import Meadow
from fieldmouse.lab.meadow.process import serving
from fieldmouse.lab.refresh.upkeep import Kept, Upkeep, judged
from fieldmouse.reading.freshness import FreshnessReport


def keep_on_the_wire(upkeep: Upkeep, policy: str, directory: Path, seed: int) -> Kept:
    """Crawl the meadow of a seed and keep it fresh, in separate processes."""
    atlas, arrivals, changes = (directory / name for name in ("atlas", "arrivals.jsonl", "changes.jsonl"))
    directory.mkdir()
    options = msgspec.structs.replace(
        upkeep.options(seed), port=0, arrivals=arrivals, changes=changes, follow_parent=True
    )
    settings = [
        word for name, value in upkeep.settings(policy).items() for word in ("--set", f"{name}={value}")
    ]
    with serving(options) as ready:
        _run("crawl", str(atlas), *(word for url in ready.seeds for word in ("--seed", url)), *settings)
        began = time.time()
        _run("refresh", str(atlas), "--for", f"{upkeep.rounds * upkeep.round}s")
        window = f"{upkeep.counted * upkeep.round}s"
        report = msgspec.json.decode(_run("freshness", str(atlas), "--window", window), type=FreshnessReport)
    told = [msgspec.json.decode(line, type=MeadowChange) for line in changes.read_bytes().splitlines()]
    return judged(upkeep, report, atlas, Meadow(options, ready.port), read_arrivals(arrivals), told, began)


def _run(*words: str) -> bytes:
    command = [sys.executable, "-m", "fieldmouse", *words, "--json"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise FieldmouseError(f"`fieldmouse {words[0]}` ended with exit code {done.returncode}: {said}")
    return done.stdout
