"""Pages under `--control auto` and under a fixed number of fetch workers, with real processes.

The indexer is not the limit: the servers are slow, or few hosts are polite. `auto` has nothing to gain
there, and should fetch as much as the default. Both crawl the same synthetic web in turns, the first of a
pair alternating.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import timed_run
from bench_setup import NO_TRAPS, fresh_meadow
from compare_commits import interval
from table import aligned, say

COMMAND = str(Path(sys.executable).with_name("fieldmouse"))
#: Options of the synthetic web and of the crawl. Many hosts, so that neither scene ends before its time.
SCENES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "slow servers": ({"hosts": 500, "pages": 100_000, "latency": 0.5}, ("--delay", "0s", "--concurrency", "64")),
    "few polite hosts": ({"hosts": 50, "pages": 50_000, "latency": 0.02}, ("--delay", "500ms")),
}


def crawl(scene: str, control: str, seconds: float) -> int:
    """Pages after this time."""
    web, options = SCENES[scene]
    with tempfile.TemporaryDirectory(prefix="bench-control-") as name, fresh_meadow(**web, **NO_TRAPS) as ground:
        words = [COMMAND, "crawl", "c", "--seed", ground.seed, "--allow-private", "--json", *options]
        words += ["--control", control, "--time", f"{seconds:g}s", "--set", "control.explore=5s"]
        ran = timed_run.run(words, seconds=seconds + 60, cwd=Path(name))
        return int(json.loads(ran.stdout.strip().rpartition(b"\n")[2])["pages"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=3, help="crawls of each kind and scene (default: 3)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each crawl (default: 60)")
    asked = parser.parse_args()
    rows = []
    for scene in SCENES:
        pages: dict[str, list[int]] = {"fixed": [], "auto": []}
        for pair in range(asked.pairs):
            for control in sorted(pages, reverse=bool(pair % 2)):
                pages[control].append(crawl(scene, control, asked.seconds))
            say(f"{scene}, pair {pair + 1}: {pages['auto'][-1]:,} pages under auto, {pages['fixed'][-1]:,} fixed")
        ratios = [auto / fixed for auto, fixed in zip(pages["auto"], pages["fixed"], strict=True)]
        low, high = interval(ratios)
        medians = [f"{statistics.median(pages[control]):,.0f}" for control in ("fixed", "auto")]
        rows.append([scene, *medians, f"{statistics.median(ratios):.3f}", f"{low:.3f} to {high:.3f}"])
    print(aligned(["scene", "fixed", "auto", "ratio", "range"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
