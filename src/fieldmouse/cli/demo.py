"""`fieldmouse demo`: a whole session against a meadow, checked against the truth.

Nothing here is staged: every command is run as a person would run it, in a process
of its own, and at the end the stored pages are compared with what the meadow says
there was to find.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from fieldmouse.cli import options, voice
from fieldmouse.errors import FieldmouseError, UsageError, typed

OURS = {"atlas", "pages.jsonl", "truth.jsonl"}
"""All that a demo leaves behind; a directory with anything else in it is not ours to empty."""

MEADOW = {"hosts": 200, "pages": 2500, "gamma": 0.6, "port": 0, "latency": 0.005}
MANNERS = ("--allow-private", "--delay", "50ms")


@click.command(
    epilog="""\b
Examples:
  fieldmouse demo
  fieldmouse demo play

The meadow is on loopback: nothing leaves this machine."""
)
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@options.as_json
def command(directory: Path | None, as_json: bool) -> int:
    """Crawl a synthetic web of 200 hosts on this machine, then search, explain and export it.

    The crawl is left in DIRECTORY/atlas, made anew each time; without DIRECTORY it
    is thrown away at the end. Takes less than a minute.
    """
    if directory is not None:
        _clear(directory)
        return _session(directory, as_json, keep=True)
    with tempfile.TemporaryDirectory(prefix="fieldmouse-demo-") as passing:
        return _session(Path(passing), as_json, keep=False)


def _clear(directory: Path) -> None:
    if directory.exists():
        if not directory.is_dir() or {path.name for path in directory.iterdir()} - OURS:
            raise UsageError(f"`{directory}` is not left over from a demo", "name another directory")
        shutil.rmtree(directory)
    directory.mkdir(parents=True)


def _session(directory: Path, as_json: bool, *, keep: bool) -> int:
    atlas, pages = directory / "atlas", directory / "pages.jsonl"
    show = _Show(as_json)
    with _meadow(directory / "truth.jsonl") as seed:
        show.act(f"a meadow of 200 hosts grows on {seed}; we crawl all of it, politely")
        crawled = show.run("crawl", str(atlas), "--seed", seed, *MANNERS, "--progress", "2s")
        show.act("what is known of each page")
        show.run("export", str(atlas), "--to", str(pages))
        rows = [json.loads(line) for line in pages.read_text().splitlines()]
        show.head(pages, rows)
        show.act("full-text search")
        found = show.run("search", str(atlas), *_words(rows), "--limit", "3")
        show.act("why is this one not among them?")
        show.run("explain", str(atlas), _unstored(directory / "truth.jsonl"))
        show.act("is everything in order?")
        show.run("doctor", str(atlas))
    missing, outside = _compare(rows, directory / "truth.jsonl")
    show.act(
        f"{voice.number(len(rows))} pages are stored; of those the meadow allows, {missing} are missing"
        f" and {outside} are stored that should not be"
    )
    if as_json:
        voice.json({"crawl": crawled, "search": found, "missing": missing, "outside": outside})
    elif keep:
        show.act(f"look around in {atlas}, or try: fieldmouse search {typed(atlas)} WORDS")
    return 0 if rows and found is not None and not missing and not outside else 1


class _Show:
    """Runs commands where people can see them, or silently for a program."""

    def __init__(self, as_json: bool):
        self._as_json = as_json

    def act(self, sentence: str) -> None:
        self._tell("")
        self._tell(f"# {sentence}")

    def _tell(self, line: str) -> None:
        """A session is the demo's data, and must stay in order when it is not a terminal that reads it."""
        if not self._as_json:
            voice.data(line)
            voice.finish()

    def run(self, *words: str) -> Any:
        """Run one command; returns what it printed as JSON, or True when people read it instead."""
        self._tell(f"$ fieldmouse {' '.join(words)}")
        command = [sys.executable, "-m", "fieldmouse", *words]
        if self._as_json:
            done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, check=False)
        else:
            done = subprocess.run(command, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise FieldmouseError(
                f"`fieldmouse {words[0]}` ended with exit code {done.returncode}", "its own words are above"
            )
        return json.loads(done.stdout) if self._as_json else True

    def head(self, path: Path, rows: list[dict[str, Any]]) -> None:
        self._tell(f"$ head -2 {path}")
        for row in rows[:2]:
            line = json.dumps(row)
            self._tell(line if len(line) <= 240 else line[:237] + "...")


@contextmanager
def _meadow(truth: Path) -> Iterator[str]:
    """A meadow for as long as the block lasts; gives the URL to begin with."""
    asked = json.dumps(MEADOW | {"truth": str(truth), "follow_parent": True})  # it ends even if we are killed
    server = subprocess.Popen([sys.executable, "-m", "fieldmouse.lab.meadow", asked], stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        ready = server.stdout.readline()
        if not ready:
            raise FieldmouseError("the meadow did not start", "its own words are above")
        yield json.loads(ready)["seeds"][0]
    finally:
        server.terminate()
        server.wait(20)
        server.stdout.close()


def _words(rows: list[dict[str, Any]]) -> list[str]:
    """Two words that some titles share and most do not."""
    counts = Counter(word.lower() for row in rows for word in row["title"].split() if word.isalpha())
    titles = [row["title"].lower().split() for row in rows[len(rows) // 2 :]]
    titled = next((words for words in titles if len(words) > 1), ["meadow"])
    return sorted((word for word in titled if word.isalpha()), key=counts.__getitem__)[:2]


def _unstored(truth: Path) -> str:
    """A URL that robots.txt keeps us from, or failing that one that answers 404."""
    facts = [json.loads(line) for line in truth.read_text().splitlines()]
    unstored = [fact for fact in facts if not fact["allowed"]] or [f for f in facts if f["status"] != 200]
    return str((unstored or facts)[0]["url"])


def _compare(rows: list[dict[str, Any]], truth: Path) -> tuple[int, int]:
    facts = [json.loads(line) for line in truth.read_text().splitlines()]
    wanted = {fact["url"] for fact in facts if fact["allowed"] and fact["status"] == 200}
    stored = {row["url"] for row in rows}
    return len(wanted - stored), len(stored - wanted)
