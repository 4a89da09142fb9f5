"""Comparison of balancing rules: whole agents in four places, in virtual time.

The scenes are those of `fieldmouse lab run live-network` and `live-network-busy`, which run on real
processes. Here a crawl takes seconds, so several seeds can be played. A seed determines the web, but not
the course of a crawl, because agents draw at random. Each figure is therefore a mean, with minimum and
maximum.

    .venv/bin/python benchmarks/balance_policies.py --scene busy --seeds 751,752,753
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from table import aligned, say

from fieldmouse_lab.network.live_trial import RegionSetup
from fieldmouse_lab.network.virtual_trial import run_virtual_trial

SCENES = {
    "calm": RegionSetup(),
    "busy": RegionSetup(hosts=48, pages=2_400, near=0.05, far=0.3, delay=0.05, robots=1),
    "close": RegionSetup(hosts=12, pages=1_200, near=0.05, far=0.1, delay=0.0, robots=1),
    "alike": RegionSetup(hosts=24, pages=1_200, near=0.1, far=0.1, delay=0.0, robots=1),
}
"""Scenes: no agent is busy; one fetch worker each; the same with small distances; and without distances."""
RULES = "priced,ipmicra,kalman,shortest-delay,two-choices,hash"


def main() -> None:
    parser = argparse.ArgumentParser(description="The rules of a network in virtual time.")
    parser.add_argument("--scene", choices=SCENES, default="busy")
    parser.add_argument("--seeds", default="751,752,753", help="webs, each crawled once under every rule")
    parser.add_argument("--rules", default=RULES)
    asked = parser.parse_args()
    rows, first = [], 0.0
    for policy in asked.rules.split(","):
        played = []
        for seed in map(int, asked.seeds.split(",")):
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                played.append(run_virtual_trial(Path(folder), SCENES[asked.scene], policy, seed)[0])
            say(f"{policy}, seed {seed}: {played[-1].pace:.1f} requests/s")
        paces = [its.pace for its in played]
        mean = statistics.mean(paces)
        first = first or mean
        rows.append(
            [
                policy,
                f"{mean:.1f}",
                f"{min(paces):.1f} to {max(paces):.1f}",
                f"{first / mean:.2f}",
                f"{statistics.mean(its.near_share() for its in played):.0%}",
                f"{statistics.mean(its.moves_a_request for its in played):.3f}",
            ]
        )
    heads = ["rule", "requests/s", "from seed to seed", "first over it", "from near by", "moves a request"]
    print(aligned(heads, rows))


if __name__ == "__main__":
    main()
