"""User script in a separate process that crawls the meadow (the synthetic web) and records every page it
gets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from meadowland import RunningMeadow

# No `if __name__ == "__main__"`: workers are new processes, not forks of this one.
COLLECT = """
import sys
import fieldmouse

directory, seed, heard = sys.argv[1:4]
crawl = fieldmouse.Crawl(
    directory, seeds=[seed], delay=0.0, allow_private=True, settings={"storage.checkpoint": "100ms"}
)
with open(heard, "a") as file:
    for page in crawl:
        print(page.url, file=file, flush=True)
        #BODY
print(crawl.summary.pages, crawl.summary.lost, crawl.summary.waiting)
"""


def start(meadow: RunningMeadow, home: Path, body: str = "", script: str = COLLECT) -> subprocess.Popen[str]:
    file = home.parent / "collect.py"
    file.write_text(script.replace("#BODY", body))
    command = [sys.executable, str(file), str(home), meadow.seeds[0], str(heard_in(home))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def heard_in(home: Path) -> Path:
    return home.parent / f"{home.name}.heard"


def heard(home: Path) -> Counter[str]:
    """Every page the script got, with counts."""
    file = heard_in(home)
    # The last line may be half a line, if the script was killed while it wrote it.
    return Counter(line.rstrip("\n") for line in file.open() if line.endswith("\n")) if file.exists() else Counter()


def run(meadow: RunningMeadow, home: Path, body: str = "", script: str = COLLECT) -> tuple[int, str, str]:
    """Run the script to its end: its exit code and what it printed."""
    process = start(meadow, home, body, script)
    out, err = process.communicate(timeout=200)
    return process.returncode, out, err


def stop(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    os.kill(process.pid, number)
    try:
        _, err = process.communicate(timeout=100)
    finally:
        process.kill()
    return process.returncode, err


def until(process: subprocess.Popen[str], true: Callable[[], object]) -> None:
    """Wait until a condition holds, as long as the script runs."""
    while not true():
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"the script ended: {process.communicate()}")
