"""A process tells its own memory, and not that of whoever started it."""

from __future__ import annotations

import os
import subprocess
import sys

from fieldmouse.indexer.process import peak_rss


def test_a_child_does_not_answer_for_its_parent() -> None:
    ballast = bytearray(os.urandom(1 << 20) * 300)
    ask = "from fieldmouse.indexer.process import peak_rss; print(peak_rss())"
    told = int(subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True).stdout)
    assert peak_rss() > len(ballast)
    assert told < len(ballast) // 2
