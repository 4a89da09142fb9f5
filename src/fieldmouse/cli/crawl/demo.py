"""`fieldmouse demo`: a whole session on a synthetic web (meadow), checked against its truth file.

Every command runs as a user would run it, in a separate process. At the end the stored pages are compared
with the pages that the meadow lists as reachable.
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

from fieldmouse.cli import console, options
from fieldmouse.errors import FieldmouseError, UsageError, shell_quoted

#: Files that a demo leaves behind; a directory with other files in it is not emptied.
DEMO_FILES = {"atlas", "pages.jsonl", "truth.jsonl"}

MEADOW = {"hosts": 200, "pages": 2500, "gamma": 0.6, "port": 0, "latency": 0.005}
CRAWL_OPTIONS = ("--allow-private", "--delay", "50ms")


@click.command(
    epilog="""\b
Examples:
  fieldmouse demo
  fieldmouse demo play

The synthetic web is on loopback: nothing leaves this machine."""
)
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@options.json_option
def command(directory: Path | None, as_json: bool) -> int:
    """Crawl a synthetic web of 200 hosts on this machine, then search, explain and export it.

    The crawl is stored in DIRECTORY/atlas and replaces that of an earlier demo. Without
    DIRECTORY it is deleted at the end. The demo takes less than a minute.
    """
    if directory is not None:
        _empty_directory(directory)
        return _run_session(directory, as_json, keep=True)
    with tempfile.TemporaryDirectory(prefix="fieldmouse-demo-") as passing:
        return _run_session(Path(passing), as_json, keep=False)


def _empty_directory(directory: Path) -> None:
    if directory.exists():
        if not directory.is_dir() or {path.name for path in directory.iterdir()} - DEMO_FILES:
            raise UsageError(f"`{directory}` is not from an earlier demo", "name another directory")
        shutil.rmtree(directory)
    directory.mkdir(parents=True)


def _run_session(directory: Path, as_json: bool, *, keep: bool) -> int:
    atlas, pages = directory / "atlas", directory / "pages.jsonl"
    show = _CommandRunner(as_json)
    with _serve_meadow(directory / "truth.jsonl") as seed:
        show.print_heading(f"crawl a synthetic web of 200 hosts, politely, from {seed}")
        crawled = show.run_command("crawl", str(atlas), "--seed", seed, *CRAWL_OPTIONS, "--progress", "2s")
        show.print_heading("export the pages")
        show.run_command("export", str(atlas), "--to", str(pages))
        rows = [json.loads(line) for line in pages.read_text().splitlines()]
        show.print_first_rows(pages, rows)
        show.print_heading("search the full text")
        hits = show.run_command("search", str(atlas), *_search_words(rows), "--limit", "3")
        show.print_heading("explain why a URL is not stored")
        show.run_command("explain", str(atlas), _url_not_stored(directory / "truth.jsonl"))
        show.print_heading("check the crawl directory")
        show.run_command("doctor", str(atlas))
    missing, outside = _count_differences(rows, directory / "truth.jsonl")
    show.print_heading(
        f"{console.format_number(len(rows))} pages are stored; compared with the truth, {missing} are missing"
        f" and {outside} should not be stored"
    )
    if as_json:
        console.print_json({"crawl": crawled, "search": hits, "missing": missing, "outside": outside})
    elif keep:
        show.print_heading(f"the crawl is in {atlas}; try: fieldmouse search {shell_quoted(atlas)} WORDS")
    return 0 if rows and hits is not None and not missing and not outside else 1


class _CommandRunner:
    """Runner of commands that shows them and their output, or nothing with `--json`."""

    def __init__(self, as_json: bool):
        self._as_json = as_json

    def print_heading(self, sentence: str) -> None:
        self._print("")
        self._print(f"# {sentence}")

    def _print(self, line: str) -> None:
        """Print and flush a line of the session; commands write to the same stream, and the order matters."""
        if not self._as_json:
            console.print_data(line)
            console.flush()

    def run_command(self, *words: str) -> Any:
        """Run one command; with `--json` return its JSON output, else True."""
        self._print(f"$ fieldmouse {' '.join(words)}")
        command = [sys.executable, "-m", "fieldmouse", *words]
        if self._as_json:
            done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, check=False)
        else:
            done = subprocess.run(command, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise FieldmouseError(
                f"`fieldmouse {words[0]}` ended with exit code {done.returncode}", "see its messages above"
            )
        return json.loads(done.stdout) if self._as_json else True

    def print_first_rows(self, path: Path, rows: list[dict[str, Any]]) -> None:
        self._print(f"$ head -2 {path}")
        for row in rows[:2]:
            line = json.dumps(row, separators=(",", ":"), ensure_ascii=False)
            self._print(line if len(line) <= 240 else line[:237] + "...")


@contextmanager
def _serve_meadow(truth: Path) -> Iterator[str]:
    """Serve a meadow while the block runs; yields the seed URL."""
    # With `follow_parent` the server ends even if this process is killed.
    given = json.dumps(MEADOW | {"truth": str(truth), "follow_parent": True})
    server = subprocess.Popen([sys.executable, "-m", "fieldmouse.testing.meadow.serve", given], stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        ready = server.stdout.readline()
        if not ready:
            raise FieldmouseError("the synthetic web did not start", "see its messages above")
        yield json.loads(ready)["seeds"][0]
    finally:
        server.terminate()
        server.wait(20)
        server.stdout.close()


def _search_words(rows: list[dict[str, Any]]) -> list[str]:
    """Two words that some titles share and most do not."""
    counts = Counter(word.lower() for row in rows for word in row["title"].split() if word.isalpha())
    titles = [row["title"].lower().split() for row in rows[len(rows) // 2 :]]
    titled = next((words for words in titles if len(words) > 1), ["meadow"])
    return sorted((word for word in titled if word.isalpha()), key=counts.__getitem__)[:2]


def _url_not_stored(truth: Path) -> str:
    """URL that robots.txt excludes; if there is none, one that answers with an error."""
    facts = [json.loads(line) for line in truth.read_text().splitlines()]
    unstored = [fact for fact in facts if not fact["allowed"]] or [f for f in facts if f["status"] != 200]
    return str((unstored or facts)[0]["url"])


def _count_differences(rows: list[dict[str, Any]], truth: Path) -> tuple[int, int]:
    facts = [json.loads(line) for line in truth.read_text().splitlines()]
    wanted = {fact["url"] for fact in facts if fact["allowed"] and fact["status"] == 200}
    stored = {row["url"] for row in rows}
    return len(wanted - stored), len(stored - wanted)
