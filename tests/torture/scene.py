"""A small web that stays the same, the truth about it, and crawls of it as their users run them."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meadowland import RunningMeadow, running_meadow

from .forked import forked

COMMAND = str(Path(sys.executable).with_name("fieldmouse"))
PATIENCE = 150.0  # seconds for one command; the crawl itself takes two
MEADOW: dict[str, Any] = {
    "hosts": 10,
    "pages": 100,
    "page_kb": 3,
    "links": 20,
    "seed": 5,
    "redirects": 0.1,
    "not_found": 0.05,
    "broken": 0.02,
    "server_error": 0.0,
    "private": 0.05,
    "duplicates": 0.05,
    "changing": 0.0,
    "busy": 0.0,
    "latency": 0.005,
}
"""Everything that a crawl can meet, and small: a crawl takes two seconds."""

DELAY = 0.03
SETTINGS = {
    "storage.checkpoint": "100ms",
    "politeness.delay": f"{DELAY * 1000:.0f}ms",
    "politeness.backoff": "50ms",
    "politeness.patience": "0.02",
    "frontier.sieve_run": "20",  # keys: runs are written and merged also in a small crawl
    "archive.warc_size": "80KB",
    "index.shards": "2",
}

CALM = ("--set", "storage.checkpoint=400ms")
"""Fewer checkpoints make fewer files: there is still one of each kind."""

Row = tuple[Any, ...]
"""Kind, reason, status, title and digest: what must be the same whatever happened on the way."""


@dataclass(frozen=True)
class Said:
    """What a command said: exit code, its JSON (None if there was none), and its talk."""

    code: int | None  # None: it did not end in time, and was ended
    told: Any
    talk: str

    @property
    def traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.talk or "crashed on" in self.talk


@dataclass
class Scene:
    """A running meadow and the truth: one undisturbed crawl's outcomes by URL."""

    meadow: RunningMeadow
    scratch: Path
    settings: dict[str, str]
    truth: dict[str, Row] = field(default_factory=dict)
    indexed: set[str] = field(default_factory=set)
    _names: Iterator[int] = field(default_factory=itertools.count)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def room(self, kind: str) -> Path:
        """A new directory for one case."""
        with self._counting:
            room = self.scratch / f"{kind}-{next(self._names):04}"
        room.mkdir(parents=True)
        return room

    def crawl_words(self, home: Path, *more: str) -> list[str]:
        settings = self.settings | {"crawl.contact": contact(home)}
        words = ["crawl", str(home), "--seed", self.meadow.seeds[0], "--allow-private"]
        return [*words, *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")), *more]

    def resume_words(self, home: Path, *more: str) -> list[str]:
        return ["resume", str(home), "--set", f"crawl.contact={contact(home)}", *more]

    def words(self, home: Path, *more: str) -> list[str]:
        """What its user types, again and again, until it is done."""
        began = (home / "crawl.json").exists()
        return self.resume_words(home, *more) if began else self.crawl_words(home, *more)

    def outcomes(self, home: Path) -> dict[str, Row]:
        """What is compared with the truth: the newest outcome of each URL."""
        return outcomes(home)

    def learn(self) -> None:
        """Crawl undisturbed, and take what came of it for the truth; the meadow's own must agree."""
        home = self.room("truth") / "c"
        said = run(self.words(home))
        assert said.code == 0, said
        self.truth = self.outcomes(home)
        self.check()
        self.indexed = set(indexed(home))

    def check(self) -> None:
        """An undisturbed crawl has exactly what the meadow allows."""
        assert {url for url, row in self.truth.items() if row[0] == "page"} == self.meadow.pages()

    def gaps(self, delay: float) -> dict[str, int]:
        """Requests that came too soon after another, by the crawl that made them. Stop the meadow first."""
        times: dict[tuple[str, str], list[float]] = defaultdict(list)
        for arrival in self.meadow.arrivals():
            times[arrival.agent, arrival.address].append(arrival.t)
        short: dict[str, int] = defaultdict(int)
        for (agent, _), each in times.items():
            short[agent] += sum(later - sooner < delay for sooner, later in itertools.pairwise(sorted(each)))
        return {agent: count for agent, count in short.items() if count}


def contact(home: Path) -> str:
    """By which the meadow's log tells crawls apart."""
    return f"{home.parent.name}@torture.test"


@contextmanager
def scene(scratch: Path, meadow: Mapping[str, Any] = MEADOW, **settings: str) -> Iterator[Scene]:
    with running_meadow(**meadow) as running:
        made = Scene(running, scratch, SETTINGS | settings)
        made.learn()
        yield made


def launch(
    words: list[str], environment: Mapping[str, str] | None = None, talk: Path | None = None
) -> subprocess.Popen[bytes]:
    """A command left running, in a process group of its own; what it says goes to `talk`(.out)."""
    out = talk.with_suffix(".out").open("wb") if talk else subprocess.DEVNULL
    err = talk.open("ab") if talk else subprocess.DEVNULL
    try:
        return subprocess.Popen(
            [COMMAND, *words, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment,
            start_new_session=True,
        )
    finally:
        for file in (out, err):
            if not isinstance(file, int):
                file.close()


def run(words: list[str], environment: Mapping[str, str] | None = None, patience: float = PATIENCE) -> Said:
    """A command to its end."""
    if words[0] in ("doctor", "export") and environment is None:
        code, out, err = forked([*words, "--json"], patience)
        return Said(code, spoken(out), err.decode(errors="replace"))
    process = subprocess.Popen(
        [COMMAND, *words, "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=patience)
        code = process.returncode
    except subprocess.TimeoutExpired:
        end(process)
        out, err = process.communicate()
        code = None
    return Said(code, spoken(out), err.decode(errors="replace"))


def spoken(out: bytes) -> Any:
    try:
        return json.loads(out)
    except ValueError:
        return None


def end(process: subprocess.Popen[bytes]) -> None:
    """Make sure that nothing of a started command is left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def copy(crawl: Path, home: Path) -> None:
    """All of a crawl's directory, with second names as such."""
    subprocess.run(["cp", "-a", "--sparse=always", crawl, home], check=True)


def outcomes(home: Path) -> dict[str, Row]:
    """The newest outcome of each URL."""
    target = home.parent / "all.jsonl"
    said = run(["export", str(home), "--all", "--to", str(target)])
    assert said.code == 0, said
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    return {
        row["url"]: (row["kind"], row["reason"] or "", row["status"] or 0, row["title"] or "", row["digest"] or "")
        for row in rows
    }


def indexed(home: Path) -> Iterator[str]:
    from search.searchable import searchable_urls

    return searchable_urls(home)
