"""Cost of a page compared with an older commit: CPU time of all processes, in interleaved pairs.

On a busy machine single figures are worthless, but ratios of neighbouring runs are usable. Both versions
crawl the same synthetic web in turns, the first of a pair alternating, and a pair gives one ratio. The
table shows the median of the ratios and a distribution-free 95 % confidence interval (by order statistics;
nine pairs are needed for a useful one). With `--delay` it also shows the share of the politeness ideal
that each reached.
"""

from __future__ import annotations

import argparse
import compileall
import io
import json
import math
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import msgspec
import timed_run
from bench_setup import NO_TRAPS, fresh_meadow, judge
from delays import ideal_pages, manners
from table import aligned, say

from fieldmouse.testing.meadow.server import read_arrivals

ROOT = Path(__file__).resolve().parent.parent


class Run(msgspec.Struct):
    pages: int
    cpu_seconds: float
    seconds: float
    ideal_share: float  # 0 without a delay
    short_gaps: int

    @property
    def cost(self) -> float:
        """CPU milliseconds per page."""
        return 1000 * self.cpu_seconds / self.pages


class Pair(msgspec.Struct):
    old: Run
    new: Run


def crawl(source: Path, python: str, *, pages: int, delay: float, seconds: float) -> Run:
    """Crawl once with the fieldmouse in `source`: a number of pages, or with a delay a number of seconds."""
    options = {"hosts": 500, "pages": 40_000, "gamma": 1.3} if delay else {"hosts": 1000, "pages": 100_000}
    limit = ["--time", f"{seconds + 6}s"] if delay else ["--pages", str(pages)]
    with tempfile.TemporaryDirectory(prefix="bench-") as name, fresh_meadow(**options, **NO_TRAPS) as ground:
        command = [python, "-m", "fieldmouse", "crawl", "crawl", "--seed", ground.seed, "--allow-private", "--json"]
        ran = timed_run.run(
            [*command, "--delay", f"{delay}s", *limit], seconds=600, cwd=Path(name), env={"PYTHONPATH": str(source)}
        )
        ground.stop()
        arrivals = read_arrivals(ground.arrivals_file)
        try:
            told = json.loads(ran.stdout.strip().rpartition(b"\n")[2])
        except ValueError:
            sys.exit(f"the crawl by `{source}` failed:\n{ran.stderr.decode(errors='replace')[-2000:]}")
        share = 0.0
        if delay:
            until = arrivals[0].t + seconds
            seen = judge(ground.plan, [arrival for arrival in arrivals if arrival.t <= until])
            share = seen.pages / ideal_pages([site.size for site in ground.plan.sites], seconds, delay)
        return Run(
            pages=told["pages"],
            cpu_seconds=ran.cpu_seconds,
            seconds=ran.ended_at - ran.started_at,
            ideal_share=share,
            short_gaps=manners(arrivals, delay).short if delay else 0,
        )


def interval(values: list[float], confidence: float = 0.95) -> tuple[float, float]:
    """Two of the values between which the median lies with that confidence, by the binomial law.

    With fewer than six values no pair reaches 95 %; then the interval spans all of them.
    """
    ordered, n = sorted(values), len(values)
    reach = 0
    while 2 * sum(math.comb(n, k) for k in range(reach + 1)) / 2**n <= 1 - confidence:
        reach += 1
    low = max(0, reach - 1)
    return ordered[low], ordered[n - 1 - low]


def show(pairs: list[Pair], commit: str, delay: float) -> str:
    ratios = [pair.new.cost / pair.old.cost for pair in pairs]
    low, high = interval(ratios)
    rows = [
        [
            name,
            f"{statistics.median(run.cost for run in runs):.3f}",
            f"{statistics.median(run.pages / run.seconds for run in runs):,.0f}",
            f"{100 * statistics.median(run.ideal_share for run in runs):.1f} %" if delay else "-",
            f"{sum(run.short_gaps for run in runs)}" if delay else "-",
        ]
        for name, runs in ((commit, [pair.old for pair in pairs]), ("now", [pair.new for pair in pairs]))
    ]
    table = aligned(["", "CPU ms/page", "pages/s", "of ideal", "gaps too short"], rows)
    return (
        f"beside {commit}: {len(pairs)} interleaved pairs\n\n{table}\n\n"
        f"CPU a page, now over then: median {statistics.median(ratios):.3f}, "
        f"95 % within {low:.3f} to {high:.3f}"
    )


def unpack(commit: str, target: Path) -> Path:
    """Unpack the source of an older commit below `target`."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, "src"], check=True, stdout=subprocess.PIPE
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(target, filter="data")
    return compiled(target / "src")


def compiled(source: Path) -> Path:
    """Compile to bytecode, as in an installed package, so that no run pays for compiling."""
    compileall.compile_dir(source, quiet=2)
    return source


def copied(target: Path) -> Path:
    """Copy the current source, so that the working tree stays unchanged."""
    shutil.copytree(ROOT / "src", target / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return compiled(target / "src")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="CPU time a page beside an older commit.")
    parser.add_argument("commit", help="what to compare with, as git names it")
    parser.add_argument("--pairs", type=int, default=9, help="how many (default: 9)")
    parser.add_argument("--pages", type=int, default=4000, help="pages of each crawl (default: 4000)")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds a host; judges the ideal's share")
    parser.add_argument("--seconds", type=float, default=30.0, help="with --delay: how long (default: 30)")
    parser.add_argument("--old-python", default=sys.executable, help="if the old one needs other packages")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    asked = parser.parse_args(words)
    pairs: list[Pair] = []
    with tempfile.TemporaryDirectory(prefix="bench-sides-") as name:
        sides = {
            "old": (unpack(asked.commit, Path(name) / "old"), asked.old_python),
            "new": (copied(Path(name) / "new"), sys.executable),
        }
        for number in range(asked.pairs):
            order = ("old", "new") if number % 2 == 0 else ("new", "old")
            runs = {
                side: crawl(*sides[side], pages=asked.pages, delay=asked.delay, seconds=asked.seconds) for side in order
            }
            pairs.append(Pair(**runs))
            say(f"pair {number + 1}: {runs['new'].cost:.3f} against {runs['old'].cost:.3f} ms a page")
    if asked.json:
        print(json.dumps({"commit": asked.commit, "pairs": msgspec.to_builtins(pairs)}))
    else:
        print(show(pairs, asked.commit, asked.delay))
    return 0


if __name__ == "__main__":
    sys.exit(main())
