"""Ctrl-C ends a command that is deep in a compiled kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = str(Path(__file__).resolve().parents[2] / "examples" / "thresholds.json")


@pytest.mark.parametrize(
    "words",
    [
        ["model", "solve", EXAMPLE, "--method", "simulate", "--events", "1000000000"],
        ["lab", "urn", "--gamma", "0.9", "--steps", "2000000000", "--strategy", "alg12"],
    ],
    ids=["solve", "urn"],
)
def test_ctrl_c_ends_a_kernel_that_would_run_for_minutes(words: list[str]) -> None:
    # The child interrupts itself, once, when a thread that computes has begun its work.
    script = (
        "import os, signal, sys, threading\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "usual = threading.Thread.start\n"
        "def start(self):\n"
        "    usual(self)\n"
        "    if self.daemon and not isinstance(self, threading.Timer):\n"
        "        threading.Thread.start = usual\n"
        "        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "threading.Thread.start = start\n"
        "from fieldmouse.cli.main import run_command\n"
        f"code = run_command({words!r})\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
