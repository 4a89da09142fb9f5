"""Number of source files that take part in a crawl of one page, and of one host on a cluster.

    python benchmarks/executed_files.py [--list]

A file counts if one of its functions runs outside of an import, in any thread or process of the crawl.
The cluster part needs a `redis-server` on the path.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"

HOOK = """
import os, sys, threading

source, log = os.environ["EXECUTED_SOURCE"], os.environ["EXECUTED_LOG"]
seen = set()


def note(frame, event, argument):
    code = frame.f_code
    if event != "call" or not code.co_flags & 1 or code.co_filename in seen:
        return
    if not code.co_filename.startswith(source):
        return
    caller = frame.f_back
    while caller is not None:
        if caller.f_code.co_name == "<module>" and caller.f_code.co_filename.startswith(source):
            if caller.f_globals.get("__name__") != "__main__":
                return
        caller = caller.f_back
    seen.add(code.co_filename)
    with open(log, "a") as file:
        file.write(code.co_filename + "\\n")


threading.setprofile(note)
sys.setprofile(note)
"""


def executed_files(*commands: list[str], cwd: Path) -> set[str]:
    """Files of the source in which a function ran while these commands ran, one after the other."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "sitecustomize.py").write_text(HOOK)
        log = Path(directory) / "files"
        log.touch()
        variables = {"PYTHONPATH": directory, "EXECUTED_SOURCE": str(SOURCE), "EXECUTED_LOG": str(log)}
        for words in commands:
            command = [sys.executable, "-m", "fieldmouse", *words]
            subprocess.run(command, cwd=cwd, env=os.environ | variables, check=True, capture_output=True)
        names = log.read_text().split()
    return {Path(name).relative_to(SOURCE).as_posix() for name in names}


@contextmanager
def one_page() -> Iterator[str]:
    """URL of a synthetic web with one host and one page."""
    options = {"hosts": 1, "pages": 1, "port": 0, "follow_parent": True}
    command = [sys.executable, "-m", "fieldmouse.testing.meadow.serve", json.dumps(options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())["seeds"][0]
        server.terminate()


@contextmanager
def redis_server(directory: Path) -> Iterator[str]:
    """URL of a Redis server on a socket in this directory."""
    socket = directory / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", ""]
    command += ["--maxmemory-policy", "noeviction", "--appendonly", "no"]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        for line in server.stdout:
            if "ready to accept connections" in line.lower():
                break
        yield f"unix://{socket}"
        server.terminate()
        server.stdout.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the files")
    listed = parser.parse_args().list
    with tempfile.TemporaryDirectory() as directory, one_page() as seed:
        home = Path(directory)
        words = ["--seed", seed, "--allow-private", "--set", "politeness.delay=0s"]
        crawl = executed_files(["crawl", "c", *words], cwd=home)
        with redis_server(home) as coordinator:
            agent = executed_files(["agent", "a", "--coordinator", coordinator, *words], cwd=home)
    for name, files in (("one page", crawl), ("one host on a cluster", agent)):
        print(f"{name}: {len(files)} files")
        if listed:
            print(*(f"  {file}" for file in sorted(files)), sep="\n")


if __name__ == "__main__":
    main()
