"""Contestants: how each crawler is started, and whether it is installed."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
RIVALS = HERE.parent / ".venv-bench"
_PYTHON = RIVALS / "bin" / "python"


@dataclass(frozen=True)
class Start:
    """Parameters of a contestant: seeds, duration, delay, and its directory."""

    seed: str
    seconds: float
    folder: Path
    delay: float = 0.0


@dataclass(frozen=True)
class Contestant:
    """One row of a table. `command` is called only if `version` found the program."""

    name: str
    work: str  # its work on a page
    command: Callable[[Start], list[str]]
    version: Callable[[], str]  # "" when it is not installed
    is_ours: bool = False


def _fieldmouse(start: Start) -> list[str]:
    limits = f"--seed {start.seed} --delay {start.delay}s --time {start.seconds}s --allow-private"
    return [str(Path(sys.executable).parent / "fieldmouse"), "crawl", "crawl", *limits.split(), "--json"]


def _script(name: str, *flags: str) -> Callable[[Start], list[str]]:
    def command(start: Start) -> list[str]:
        words = [str(_PYTHON), str(HERE / "rivals" / name), start.seed, str(start.seconds), str(start.delay)]
        return [*words, *flags]

    return command


def _wget(start: Start) -> list[str]:
    # It keeps no pages: files are written and deleted, because it reads the links from the file.
    return [*"wget -q -r -l inf -H -e robots=off --delete-after --tries=1 -nv -P".split(), "files", start.seed]


def _wget2(start: Start) -> list[str]:
    words = "wget2 -q -r -l inf -H --no-robots --delete-after --tries=1 --max-threads=30 -P".split()
    return [*words, "files", start.seed]


def _package(name: str) -> Callable[[], str]:
    def version() -> str:
        found = [str(path) for path in RIVALS.glob("lib/python3*/site-packages")]
        for each in importlib.metadata.distributions(name=name, path=found):
            return each.version
        return ""

    return version


def _program(name: str, pattern: str = r"(\d+\.[\d.]+\d)") -> Callable[[], str]:
    def version() -> str:
        if not shutil.which(name):
            return ""
        told = subprocess.run([name, "--version"], capture_output=True, text=True, check=False)
        found = re.search(pattern, told.stdout + told.stderr)
        return found[1] if found else "?"

    return version


FIELDMOUSE = Contestant(
    "fieldmouse",
    "links, sieve on disk, WARC, CDXJ, full text, robots.txt, resume",
    _fieldmouse,
    lambda: importlib.metadata.version("fieldmouse"),
    is_ours=True,
)
SCRAPY_TUNED = Contestant("Scrapy, tuned", "links (lxml, own set)", _script("scrapy_tuned.py"), _package("scrapy"))
SCRAPY_DOCUMENTED = Contestant("Scrapy, as documented", "links", _script("scrapy_documented.py"), _package("scrapy"))
SCRAPY_DOWNLOADER = Contestant(
    "Scrapy, own frontier", "links (lxml, own queue)", _script("scrapy_tuned.py", "--own-frontier"), _package("scrapy")
)
CRAWLEE = Contestant("Crawlee", "links (parsel)", _script("crawlee_parsel.py"), _package("crawlee"))
AIOHTTP = Contestant("aiohttp + lxml", "links", _script("aiohttp_lxml.py"), _package("aiohttp"))
WGET = Contestant("wget (C)", "links, files on disk", _wget, _program("wget"))
WGET2 = Contestant("wget2 (C)", "links, files on disk", _wget2, _program("wget2"))

ALL = (FIELDMOUSE, SCRAPY_TUNED, SCRAPY_DOCUMENTED, SCRAPY_DOWNLOADER, CRAWLEE, AIOHTTP, WGET, WGET2)

ABSENT = {"spider-rs": "not installable here: published as source, to be built with Rust"}
"""Contestants that cannot take part."""
