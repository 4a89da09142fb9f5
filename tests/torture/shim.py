"""The shim, compiled when it is first needed, and the environment that tells it what to do."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")


class NoShim(Exception):
    """There is no way to stand between a crawl and its disk on this machine."""


@cache
def library() -> Path:
    """The compiled shim. Made once a process, in a directory of its own that goes with the machine's /tmp."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise NoShim("there is no C compiler: install gcc (as root, `sh scripts/torture` does)")
    if platform.machine() != "x86_64":
        raise NoShim(f"the shim knows the system calls of x86-64, and this is {platform.machine()}")
    target = Path(tempfile.mkdtemp(prefix="torture-shim-")) / "shim.so"
    subprocess.run([compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", target, SOURCE, "-ldl"], check=True)
    return target


@dataclass(frozen=True)
class Shim:
    """One use of it: what happens to the crawl in `home`. `scratch` is a directory for its own files."""

    home: Path
    scratch: Path
    record: bool = False
    kill: int = 0  # at which moment; 0 for never
    at: str = ""  # pattern: only such moments count
    torn: bool = False  # moments are also in the middle of writes
    only_self: bool = False  # the kill is for the process that came there, not for its group
    fail: int = 0  # error number
    ops: str = ""
    path: str = ""
    after: int = 0
    times: int = 0
    switch: bool = False  # fail only while `flag` exists
    short: bool = False
    connect: int = 0  # error number of every connection while `flag` exists
    clock: int = 0

    @property
    def traces(self) -> Path:
        return self.scratch / "traces"

    @property
    def label(self) -> Path:
        return self.scratch / "label"

    @property
    def flag(self) -> Path:
        return self.scratch / "flag"

    @property
    def counters(self) -> Path:
        return self.scratch / "page"

    def environment(self) -> dict[str, str]:
        """The environment for a crawl under the shim; counters begin at 0."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.traces.mkdir(exist_ok=True)
        self.label.unlink(missing_ok=True)
        self.counters.write_bytes(bytes(4096))
        told = {
            "LD_PRELOAD": library(),
            "TORTURE_DIR": self.home.resolve(),
            "TORTURE_PAGE": self.counters,
            "TORTURE_RECORD": self.traces if self.record else "",
            "TORTURE_KILL": self.kill,
            "TORTURE_AT": self.at,
            "TORTURE_TORN": int(self.torn),
            "TORTURE_WHOM": "self" if self.only_self else "group",
            "TORTURE_LABEL": self.label,
            "TORTURE_FAIL": self.fail,
            "TORTURE_OPS": self.ops,
            "TORTURE_PATH": self.path,
            "TORTURE_AFTER": self.after,
            "TORTURE_TIMES": self.times,
            "TORTURE_WHILE": self.flag if self.switch or self.connect else "",
            "TORTURE_CONNECT": self.connect,
            "TORTURE_SHORT": int(self.short),
            "TORTURE_CLOCK": self.clock,
        }
        return os.environ | {name: str(value) for name, value in told.items()}

    def moments(self) -> int:
        """How many moments have passed; only counted when a kill is asked for."""
        return int.from_bytes(self.counters.read_bytes()[8:16], "little")

    def killed_at(self) -> str:
        """What the kill fell on; empty if it did not come to that."""
        return self.label.read_text().strip() if self.label.exists() else ""
