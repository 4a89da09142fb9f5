"""Keys of what `--json` prints, from real crawls of a small site and a real Redis.

A golden line is a command, the path of a key, and its JSON type; items of a list are one. More keys are
allowed. `cluster top` and `cluster drain`, `lab run` and `lab report`, `model fit` and `demo` are not run.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from formats.conftest import Live
from formats.golden import COMMAND, ROOT, ask, check_superset, key_paths, normalised, say
from formats.smallsite import CHANGING, GONE, MISSING, MOVING, SECRET

LAB = {
    "lab list": [],
    "lab exact": ["--hosts", 10, "--capacity", 5],
    "lab urn": ["--hosts", 10, "--capacity", 5, "--steps", 100],
    "lab refresh": ["--slots", 20, "--policy", "uniform"],
    "lab network": ["--seconds", 500],
    "model solve": [ROOT / "examples" / "thresholds.json"],
    "model optimise": [ROOT / "examples" / "thresholds.json", "--modes", "1,4"],
}


def lines(printed: dict[str, Any]) -> list[str]:
    """Key paths with types, each once. What is null now may be a number another time, so it is not listed."""
    found = {f"{name}: {path}" for name, value in printed.items() for path in key_paths(value)}
    return sorted(normalised(line) for line in found if not line.endswith(" null"))


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_keys_of_commands_on_a_crawl(live: Live, tmp_path: Path) -> None:
    home, other = live.home("refreshed"), live.home("resumed")
    printed = dict(live.printed)
    for name, words in {
        "search": [home, "acorns"],
        "search --versions": [home, "twelve", "--versions"],
        "search --with": [home, "hedges", "--with", other],
        "changes": [home],
        "changes --diff": [home, "--diff", CHANGING],
        "changes --versions": [home, "--versions", CHANGING],
        "changes --propose-rules": [home, "--propose-rules"],
        "freshness": [home, "--budget", "100/h"],
        "freshness --with": [home, "--with", other],
        "pack": [home, "--capacity", "100"],
        "explain page": [home, CHANGING],
        "explain gone": [home, GONE],
        "explain moved": [home, MOVING],
        "explain refused": [home, SECRET],
        "explain failed": [home, MISSING],
        "explain unknown": [home, "http://a.fence.test/never"],
        "explain --with": [home, CHANGING, "--with", other],
        "notify": [home],
        "control": [home],
        "doctor": [home, "--deep"],
        "doctor --repair": [home, "--repair"],
        "lab replay": [home],
    }.items():
        command = [word for word in name.split() if not word.startswith("-")]
        printed[name] = ask(*(command[:2] if command[0] == "lab" else command[:1]), *words)
    for name, words in {"pages": [], "--all": ["--all"], "--items": ["--items"], "--with": ["--with", other]}.items():
        target = tmp_path / f"{name}.jsonl"
        printed[f"export {name}"] = ask("export", home, "--to", target, *words)
        printed[f"export {name} row"] = rows(target)
    printed["pack.json"] = json.loads((home / "pack.json").read_text())
    check_superset("json_crawl", lines(printed))


def test_columns_of_exports(live: Live, tmp_path: Path) -> None:
    ask("export", live.home("refreshed"), "--to", tmp_path / "pages.csv", "--all")
    check_superset("csv_columns", (tmp_path / "pages.csv").read_text().splitlines()[0].split(","))


def test_keys_of_commands_on_a_cluster(cluster: Live) -> None:
    check_superset("json_cluster", lines(cluster.printed))


def test_keys_of_lab_and_model() -> None:
    check_superset("json_lab", lines({name: ask(*name.split(), *words) for name, words in LAB.items()}))


@contextmanager
def serving(folder: Path) -> Iterator[Any]:
    """The line that a meadow of three hosts prints, while it serves."""
    words = "meadow serve --hosts 3 --pages 9 --named --port 0 --json --truth".split()
    process = subprocess.Popen([COMMAND, *words, str(folder / "truth.jsonl")], stdout=subprocess.PIPE)
    assert process.stdout
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_keys_of_the_line_that_a_meadow_prints(tmp_path: Path) -> None:
    with serving(tmp_path) as line:
        check_superset("json_meadow", lines({"meadow serve": line, "truth": rows(tmp_path / "truth.jsonl")}))


@pytest.mark.parametrize("words", [["search"], ["crawl", "x", "--pages", "many"], ["explain", "x", "y"]])
def test_errors_have_two_keys(words: list[str]) -> None:
    code, said = say(*words, "--json")
    assert code in (1, 2)
    assert set(json.loads(said)) == {"error", "hint"}
