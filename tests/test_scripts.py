"""Shell scripts of the checkout: they must work from any directory."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose Python only prints the directory it runs in and its arguments."""
    root = tmp_path / "a checkout"
    (root / "scripts").mkdir(parents=True)
    shutil.copy(SCRIPTS / "replay", root / "scripts")
    (root / ".venv-pywb").mkdir()
    (root / ".venv-pywb" / ".installed").touch()
    python = root / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\npwd\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    return root


def run(*words: str, where: Path) -> list[str]:
    ended = subprocess.run(words, cwd=where, capture_output=True, text=True, check=True, timeout=60)
    return ended.stdout.splitlines()


def test_replay_resolves_the_crawl_against_the_directory_of_its_caller(checkout: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    told = [str(elsewhere), str(checkout / "scripts" / "replay.py"), "atlas", "--serve"]
    assert run(str(checkout / "scripts" / "replay"), "atlas", "--serve", where=elsewhere) == told
    assert run("sh", "../a checkout/scripts/replay", "atlas", "--serve", where=elsewhere) == told


def test_replay_works_from_its_own_directory_and_through_a_symbolic_link(checkout: Path, tmp_path: Path) -> None:
    script = str(checkout / "scripts" / "replay.py")
    assert run("sh", "replay", "../atlas", where=checkout / "scripts")[1:] == [script, "../atlas"]
    (tmp_path / "replay").symlink_to(checkout / "scripts" / "replay")
    assert run("./replay", "atlas", where=tmp_path) == [str(tmp_path), script, "atlas"]


def test_the_makefile_and_the_scripts_name_tests_that_exist() -> None:
    root = SCRIPTS.parent
    tests = "\n".join(file.read_text() for file in root.glob("tests/**/test_*.py"))
    for file in (root / "Makefile", *(one for one in SCRIPTS.iterdir() if one.is_file())):
        text = file.read_text()
        for path in re.findall(r"(?<![\w/.-])(?:tests|benchmarks|examples|scripts)/[\w/-]+(?:\.\w+)?", text):
            assert (root / path).exists(), f"{file.name} names {path}"
        for selected in re.findall(r"pytest .* -k (\w+)", text):
            assert re.search(rf"def test_\w*{selected}", tests), f"{file.name} selects {selected}"
