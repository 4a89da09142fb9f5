"""All benchmarks in sequence: `make bench`, or `python benchmarks/run.py [--quick] [NAME]...`.

Each is also a separate script with more options; see benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from table import say

HERE = Path(__file__).resolve().parent
QUICK = {
    "throughput": ["--quick"],
    "politeness": ["--quick"],
    "sieve": ["--offers", "4000000"],
    "hosts": ["--hosts", "100000"],
    "poll_planning": ["--pages", "100000"],
    "memory": ["--quick"],
}
"""The benchmarks in order, with the arguments that make each of them short."""

_SPEAKS_JSON = ("throughput", "politeness", "memory")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the benchmarks and print their tables.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(QUICK)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="short runs, for a first look")
    parser.add_argument("--json", action="store_true", help="print one JSON value with all results")
    asked = parser.parse_args(words)
    unknown = [name for name in asked.names if name not in QUICK]
    if unknown:
        parser.error(f"there is no benchmark `{unknown[0]}`; there are {', '.join(QUICK)}")
    results: dict[str, object] = {}
    failed = []
    for name in asked.names or QUICK:
        say(f"== {name}")
        command = [sys.executable, str(HERE / f"{name}.py")]
        command += QUICK[name] if asked.quick else []
        command += ["--json"] if asked.json and name in _SPEAKS_JSON else []
        # One process each, so that no benchmark affects the memory or the caches of the next.
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if ran.returncode:
            failed.append(name)
        if asked.json:
            results[name] = json.loads(ran.stdout) if name in _SPEAKS_JSON and not ran.returncode else ran.stdout
        else:
            print(ran.stdout, flush=True)
    if asked.json:
        print(json.dumps(results))
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
