"""Memory of a host that waits offline, which must be bounded."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {benchmarks!r})
from hosts import meet, opened, resident

frontier = opened(Path(sys.argv[1]), None)

def grow(first, last):
    for start in range(first, last, 5000):
        meet(frontier, start, start + 5000)
        frontier.seal()
        frontier.on_checkpoint_committed()

grow(0, 20_000)  # caches are full from here on
before = resident()
grow(20_000, 60_000)
assert frontier.total_hosts == frontier.waiting_count == 60_000
print((resident() - before) / 40_000)
"""


def test_a_host_with_one_url_waiting_takes_at_most_300_bytes_of_memory() -> None:
    """It took 2,800 when each had its own objects; docs/frontier.md has the present figure."""
    with tempfile.TemporaryDirectory() as directory:
        ran = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(benchmarks=str(BENCHMARKS)), directory], capture_output=True, text=True
        )
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) <= 300
