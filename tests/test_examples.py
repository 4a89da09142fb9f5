"""Examples run on a crawl of a small meadow (a synthetic web)."""

from __future__ import annotations

import configparser
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fieldmouse.config import settings_file
from fieldmouse.queueing.model.model_file import read_model
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
def test_settings_files_are_valid_and_name_their_command(path: Path) -> None:
    asked = settings_file.load(path)
    assert asked.crawl.seeds
    assert f"--config examples/{path.name}" in path.read_text()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.name)
def test_model_files_are_valid_and_define_a_rule(path: Path) -> None:
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
        [sys.executable, "-m", "fieldmouse", "export", str(atlas), "--to", "-"], capture_output=True, check=True
    ).stdout
    whole = {row["url"] for row in map(json.loads, told.splitlines()) if not row["duplicate_of"]}
    assert whole <= listed
    assert {url for url in listed if not url.endswith("/robots.txt")} <= pages


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"collect.py", "titles.py", "payloads.py"}


def options_of(words: list[str]) -> None:
    """Raises unless `fieldmouse WORDS` is a command with such options."""
    from test_docs import check_options, find

    command, context, rest = find(words)
    command.parse_args(context, list(rest))
    check_options(words)


def test_the_systemd_unit_starts_an_existing_command(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((EXAMPLES / "fieldmouse-agent.service").read_text())
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    words = shlex.split(unit["Service"]["ExecStart"].replace("%i", "news"))
    assert Path(words[0]).name == "fieldmouse"
    monkeypatch.setenv("FIELDMOUSE_COORDINATOR", "redis://redis.example/0")  # as its EnvironmentFile would
    options_of(words[1:])
    # An agent that was asked to stop ends with 130; one that reports an error is not restarted.
    assert "130" in unit["Service"]["SuccessExitStatus"].split()
    assert {"1", "2"} <= set(unit["Service"]["RestartPreventExitStatus"].split())


def test_the_compose_file_starts_a_durable_coordinator_and_agents_that_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = pytest.importorskip("yaml")
    from fieldmouse.cluster.redis.connection import check_url

    file = yaml.safe_load((EXAMPLES / "network-compose.yaml").read_text())
    services = file["services"]
    board = services.pop("board")
    assert board["command"][:3] == ["redis-server", "--appendonly", "yes"]
    assert "noeviction" in board["command"]
    named = {mount.partition(":")[0] for service in (board, *services.values()) for mount in service["volumes"]}
    assert named == set(file["volumes"]), "each has a disk of its own"
    assert len(services) == 2
    for service in services.values():
        url = service["environment"]["FIELDMOUSE_COORDINATOR"].replace("${BOARD_PASSWORD}", "secret")
        assert check_url(url) == "redis://:secret@board:6379/0"
        monkeypatch.setenv("FIELDMOUSE_COORDINATOR", url)
        options_of(service["command"])
    assert sum("--seed" in service["command"] for service in services.values()) == 1
