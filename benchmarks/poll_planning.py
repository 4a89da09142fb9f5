"""Re-planning at scale: seconds and memory of one plan, from ten thousand pages to ten million.

Beliefs are as after twenty polls of pages with log-normal rates. A plan starts from the beliefs alone:
learning the population, the value of a poll of every page, the prices. Each row runs in a separate
process, so that its peak memory is not shared.

    .venv/bin/python benchmarks/poll_planning.py [--pages 10000000] [--hosts]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from table import aligned

from fieldmouse.policy import change_rate
from fieldmouse.policy.change_rate import Beliefs
from fieldmouse.policy.polling import registry

BLOCK = 1 << 18
LOOKS = 20


def beliefs(pages: int) -> Beliefs:
    """Beliefs after some polls an hour apart, made in blocks."""
    rng = np.random.default_rng(7)
    belief = change_rate.empty_beliefs(pages)
    for start in range(0, pages, BLOCK):
        part = belief[start : start + BLOCK]
        rates = np.exp(rng.normal(0.0, 2.0, len(part))) / 3600
        for _ in range(LOOKS):
            gap = rng.uniform(1800, 5400, len(part))
            part[:] = change_rate.update_beliefs(part, gap, rng.random(len(part)) < -np.expm1(-rates * gap))
    return belief


def resident_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(pages: int, policy: str, with_hosts: bool) -> dict[str, float]:
    belief = beliefs(pages)
    rule = registry.create_policy(policy)
    state = rule.initial_state(pages)
    budget = pages / 3600
    host = np.arange(pages) % max(1, pages // 100) if with_hosts else None
    limit = 1.5 * budget / max(1, pages // 100) if with_hosts else None
    before = resident_mb()
    begun, used = time.perf_counter(), time.process_time()
    plan = rule.plan(state, belief, budget, host=host, host_limit=limit)
    took, used = time.perf_counter() - begun, time.process_time() - used
    assert abs(plan.sum() / budget - 1) < 1e-6
    return {"pages": pages, "seconds": took, "cpu": used, "peak": resident_mb(), "before": before}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--pages", type=int, default=10_000_000)
    options.add_argument("--policy", default="learned")
    options.add_argument("--hosts", action="store_true", help="hosts of 100 pages, with limits")
    options.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.policy, given.hosts)))
        return
    rows = []
    for pages in [10**power for power in range(4, 10) if 10**power < given.pages] + [given.pages]:
        words = [sys.executable, __file__, "--one", str(pages), "--policy", given.policy]
        words += ["--hosts"] if given.hosts else []
        ran = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(ran.stdout)
        rows.append(
            [
                f"{pages:,}",
                f"{found['seconds']:.2f}",
                f"{found['cpu'] / pages * 1e6:.2f}",
                f"{found['peak']:.0f}",
                f"{found['before']:.0f}",
            ]
        )
    print(aligned(["pages", "seconds", "us of CPU a page", "peak MB", "of it beliefs"], rows))


if __name__ == "__main__":
    main()
