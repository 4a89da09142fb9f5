"""Test that a process reports its own peak memory, not its parent's."""

from __future__ import annotations

import os
import subprocess
import sys

from fieldmouse.workers.protocol import peak_rss


def test_peak_memory_excludes_the_parent() -> None:
    ballast = bytearray(os.urandom(1 << 20) * 300)
    ask = "from fieldmouse.workers.protocol import peak_rss; print(peak_rss())"
    told = int(subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True).stdout)
    assert peak_rss() > len(ballast)
    assert told < len(ballast) // 2
