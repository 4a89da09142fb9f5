"""The examples do what they say, on a crawl of a small meadow."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fieldmouse import settings
from fieldmouse.queueing.model.modelfile import read_model
from meadowland import running_meadow

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, set[str]]]:
    atlas = tmp_path_factory.mktemp("examples") / "atlas"
    with running_meadow(hosts=5, pages=40, page_kb=4, links=20, compression=False) as meadow:
        words = ["crawl", str(atlas), "--seed", meadow.seeds[0], "--allow-private", "--delay", "0s"]
        subprocess.run([sys.executable, "-m", "fieldmouse", *words, "--json"], check=True, timeout=100)
        yield atlas, meadow.pages()


def output_of(example: str, atlas: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, EXAMPLES / example, atlas], capture_output=True, text=True, check=True, timeout=100
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_settings_files_are_understood_and_name_their_command(path: Path) -> None:
    asked = settings.load(path)
    assert asked.crawl.seeds
    assert f"--config examples/{path.name}" in path.read_text()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.name)
def test_models_are_understood_and_ask_about_a_rule(path: Path) -> None:
    asked = read_model(json.loads(path.read_text()))
    assert asked.rule is not None
    assert asked.method == "auto"


def test_the_ten_largest_titles_are_listed(crawl: tuple[Path, set[str]]) -> None:
    lines = output_of("titles.py", crawl[0])
    sizes = [int(line.split()[0]) for line in lines]
    assert len(sizes) == 10
    assert sizes == sorted(sizes, reverse=True)


def test_a_script_collects_every_page_once(crawl: tuple[Path, set[str]], tmp_path: Path) -> None:
    atlas, pages = crawl
    shutil.copytree(atlas, tmp_path / "copy")  # crawled by the command: nothing was delivered yet
    lines = [line.split("\t") for line in output_of("collect.py", tmp_path / "copy")]
    assert sorted(url for *_, url in lines) == sorted(pages)
    assert all(status == "200" for status, *_ in lines)
    assert any(int(words) > 10 and int(links) for _, words, links, _ in lines)
    assert output_of("collect.py", tmp_path / "copy") == []


def test_every_page_can_be_read_back_from_the_archive(crawl: tuple[Path, set[str]]) -> None:
    atlas, pages = crawl
    listed = {line.split()[1] for line in output_of("payloads.py", atlas)}
    told = subprocess.run(
        [sys.executable, "-m", "fieldmouse", "export", str(atlas), "--to", "-"],
        capture_output=True,
        check=True,
    ).stdout
    whole = {row["url"] for row in map(json.loads, told.splitlines()) if not row["duplicate_of"]}
    assert whole <= listed
    assert {url for url in listed if not url.endswith("/robots.txt")} <= pages


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"collect.py", "titles.py", "payloads.py"}
