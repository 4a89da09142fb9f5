"""Old spellings of options, settings, variables and arguments: understood in every place, shown in none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest

import fieldmouse
from cluster.coordinators import META, RedisWorld, ServerProcess, a_server, needs_server
from fieldmouse.api import agent_preparation
from fieldmouse.api.crawl_preparation import CrawlPlan, plan_new
from fieldmouse.api.refreshing import refresh
from fieldmouse.cli import main
from fieldmouse.cli.crawl import crawl
from fieldmouse.config import old_spellings
from fieldmouse.config.settings_file import Settings, parse, render, render_published
from fieldmouse.errors import SettingsError, UsageError

SEED = "http://a.test/"
SPELLINGS = {
    "robots.count": ("fetch.concurrency", "7"),
    "robots.errand_links": ("fetch.urls_per_visit", "3"),
    "robots.keep_alive": ("fetch.keep_alive", "9s"),
    "board.policy": ("cluster.policy", "hash"),
    "board.lease": ("cluster.lease", "40s"),
    "board.heartbeat": ("cluster.heartbeat", "2s"),
    "board.keep_booked": ("cluster.keep_acked", "false"),
}
OLD = {old: value for old, (_, value) in SPELLINGS.items()}
NEW = dict(SPELLINGS.values())
WANTED = Settings().override(NEW)
ANY_OLD = re.compile(
    r"--robots\b|--board\b|--forgive\b|FIELDMOUSE_BOARD|\[robots\]|\[board\]|errand_links|keep_booked"
    r"|\brobots\.(count|keep_alive)|\bboard\.(policy|lease|heartbeat)"
)
"""Old spellings as they would stand in a help text, a message or a file."""


def toml(settings: Mapping[str, str]) -> str:
    """The settings as a file of one section after the other."""
    sections: dict[str, list[str]] = {"crawl": [f'seeds = ["{SEED}"]']}
    for name, value in settings.items():
        section, _, key = name.partition(".")
        plain = value.isdigit() or value == "false"
        sections.setdefault(section, []).append(f"{key} = {value}" if plain else f'{key} = "{value}"')
    return "\n".join(line for name, lines in sections.items() for line in (f"[{name}]", *lines)) + "\n"


@pytest.fixture(name="plans")
def planned_crawls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[CrawlPlan, bool]]:
    """Plans that commands were about to run, each with whether failed URLs are retried."""
    plans: list[tuple[CrawlPlan, bool]] = []

    def note(plan: CrawlPlan, **how: Any) -> int:
        plans.append((plan, bool(how.get("on_retried"))))
        return 0

    monkeypatch.setattr(crawl, "run_plan", note)
    return plans


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with a_server() as process:
        yield process


def stored_crawl(folder: Path, settings: Mapping[str, str]) -> Path:
    """A crawl directory whose settings file has these spellings."""
    home = folder / "stored"
    plan_new(home, {}, {}, [SEED]).open_and_lock().unlock()
    (home / "fieldmouse.toml").write_text(toml(settings))
    return home


def from_set(folder: Path, settings: Mapping[str, str], plans: list[tuple[CrawlPlan, bool]]) -> Settings:
    changes = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    assert main.run_command(["crawl", str(folder / "new"), "--seed", SEED, *changes]) == 0
    return plans[0][0].settings


def from_config(folder: Path, settings: Mapping[str, str], plans: list[tuple[CrawlPlan, bool]]) -> Settings:
    (folder / "mine.toml").write_text(toml(settings))
    assert main.run_command(["crawl", str(folder / "new"), "--config", str(folder / "mine.toml")]) == 0
    return plans[0][0].settings


def from_stored(folder: Path, settings: Mapping[str, str], plans: list[tuple[CrawlPlan, bool]]) -> Settings:
    assert main.run_command(["resume", str(stored_crawl(folder, settings))]) == 0
    return plans[0][0].settings


def from_python(folder: Path, settings: Mapping[str, str], plans: list[tuple[CrawlPlan, bool]]) -> Settings:
    return fieldmouse.Crawl(folder / "new", seeds=[SEED], settings=settings)._make_plan().settings


PLACES: dict[str, Callable[[Path, Mapping[str, str], list[tuple[CrawlPlan, bool]]], Settings]]
PLACES = {"--set": from_set, "--config": from_config, "stored": from_stored, "Python": from_python}


def test_the_table_of_this_test_has_every_old_spelling() -> None:
    assert {old: old_spellings.present_setting_name(old) for old in OLD} == {
        old: new for old, (new, _) in SPELLINGS.items()
    }
    assert {name.partition(".")[0] for name in OLD} == {*old_spellings.SECTIONS}
    assert {*old_spellings.KEYS} <= {*OLD}
    for name in Settings().fetch.__struct_fields__:
        assert f"fetch.{name}" in NEW
    for name in Settings().cluster.__struct_fields__:
        assert f"cluster.{name}" in NEW


@pytest.mark.parametrize("given", [OLD, NEW], ids=["old", "new"])
@pytest.mark.parametrize("place", PLACES)
def test_old_settings_mean_the_new_ones(
    place: str, given: Mapping[str, str], tmp_path: Path, plans: list[tuple[CrawlPlan, bool]]
) -> None:
    settings = PLACES[place](tmp_path, given, plans)
    assert (settings.fetch, settings.cluster) == (WANTED.fetch, WANTED.cluster)


@pytest.mark.parametrize("place", PLACES)
def test_both_spellings_of_a_setting_are_refused(
    place: str, tmp_path: Path, plans: list[tuple[CrawlPlan, bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    both = {"robots.count": "7", "fetch.concurrency": "8"}
    if place == "Python":
        with pytest.raises(SettingsError, match=r"`robots\.count` and `fetch\.concurrency`"):
            from_python(tmp_path, both, plans)
        return
    with pytest.raises(AssertionError):
        PLACES[place](tmp_path, both, plans)
    said = capsys.readouterr().err
    assert "`robots.count` and `fetch.concurrency`" in said
    assert not plans


def test_different_keys_of_an_old_and_a_new_section_are_merged() -> None:
    settings = parse('[robots]\nkeep_alive = "9s"\n[fetch]\nconcurrency = 7\n')
    assert (settings.fetch.keep_alive, settings.fetch.concurrency) == (9.0, 7)


@pytest.mark.parametrize("name", ["robots.cuont", "robots", "fetch.cuont"])
def test_unknown_keys_of_an_old_section_are_errors(name: str) -> None:
    with pytest.raises(SettingsError, match="there is no setting"):
        Settings().override({name: 4})
    if "." in name:
        with pytest.raises(SettingsError, match=r"there is no setting `fetch\.cuont`"):
            parse(f"[{name.partition('.')[0]}]\ncuont = 4\n")


@pytest.mark.parametrize("option", ["--robots", "--concurrency"])
@pytest.mark.parametrize("joined", [True, False])
def test_the_option_of_concurrency(
    option: str, joined: bool, tmp_path: Path, plans: list[tuple[CrawlPlan, bool]]
) -> None:
    words = [f"{option}=7"] if joined else [option, "7"]
    assert main.run_command(["crawl", str(tmp_path / "a"), "--seed", SEED, *words]) == 0
    assert plans[0][0].settings.fetch.concurrency == 7


@pytest.mark.parametrize("changed", ["robots.count", "fetch.concurrency"])
@pytest.mark.parametrize("option", ["--robots", "--concurrency"])
def test_set_wins_over_an_option_in_every_spelling(
    option: str, changed: str, tmp_path: Path, plans: list[tuple[CrawlPlan, bool]]
) -> None:
    words = [option, "7", "--set", f"{changed}=8"]
    assert main.run_command(["crawl", str(tmp_path / "a"), "--seed", SEED, *words]) == 0
    assert plans[0][0].settings.fetch.concurrency == 8


@pytest.mark.parametrize("option", ["--forgive", "--retry-failed", ""])
def test_the_option_to_retry_what_failed(option: str, tmp_path: Path, plans: list[tuple[CrawlPlan, bool]]) -> None:
    home = stored_crawl(tmp_path, {})
    assert main.run_command(["resume", str(home), *option.split()]) == 0
    assert plans[0][1] is bool(option)


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [
        (["crawl", "a", "--robots", "7", "--concurrency", "7"], "--robots", "--concurrency"),
        (["resume", "a", "--forgive", "--retry-failed"], "--forgive", "--retry-failed"),
        (["agent", "a", "--coordinator", "x", "--board", "y"], "--board", "--coordinator"),
        (["cluster", "list", "--board", "x", "--coordinator", "y"], "--board", "--coordinator"),
    ],
)
def test_both_spellings_of_an_option_are_refused(
    words: list[str], old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run_command(words) == 2
    assert f"`{old}` and `{new}`" in capsys.readouterr().err


@pytest.mark.parametrize("argument", ["robots", "concurrency"])
def test_the_argument_of_concurrency(argument: str, tmp_path: Path) -> None:
    given: Any = {argument: 7}
    assert fieldmouse.Crawl(tmp_path, seeds=[SEED], **given)._make_plan().settings.fetch.concurrency == 7
    with pytest.raises(UsageError, match="no page yet"):  # after the arguments were read
        refresh(stored_crawl(tmp_path, {}), **given)


def test_both_spellings_of_an_argument_are_refused(tmp_path: Path) -> None:
    both: Any = {"robots": 7, "concurrency": 7}
    with pytest.raises(SettingsError, match="`robots` and `concurrency`"):
        fieldmouse.Crawl(tmp_path, seeds=[SEED], **both)
    with pytest.raises(SettingsError, match="`robots` and `concurrency`"):
        fieldmouse.crawl(tmp_path, seeds=[SEED], **both)


# -- the coordinator


def servers_named(words: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The servers that `cluster list` with these words would ask."""
    asked: list[str] = []
    monkeypatch.setattr("fieldmouse.api.cluster_admin.list_crawls", lambda boards: asked.extend(boards) or [])
    assert main.run_command(["cluster", "list", *words]) == 0
    return asked


@pytest.mark.parametrize("option", ["--board", "--coordinator"])
def test_the_option_of_the_coordinator(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert servers_named([option, "redis://a/0", option, "redis://b/0"], monkeypatch) == ["redis://a/0", "redis://b/0"]


@pytest.mark.parametrize("variable", ["FIELDMOUSE_BOARD", "FIELDMOUSE_COORDINATOR"])
def test_the_variable_of_the_coordinator(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "redis://a/0 redis://b/0")
    assert servers_named([], monkeypatch) == ["redis://a/0", "redis://b/0"]
    assert servers_named(["--board", "redis://c/0"], monkeypatch) == ["redis://c/0"], "an option wins"


def test_both_variables_of_the_coordinator_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("FIELDMOUSE_BOARD", "FIELDMOUSE_COORDINATOR"):
        monkeypatch.setenv(variable, "redis://a/0")
    assert main.run_command(["cluster", "list"]) == 2
    assert "`FIELDMOUSE_BOARD` and `FIELDMOUSE_COORDINATOR`" in capsys.readouterr().err
    assert servers_named(["--coordinator", "redis://c/0"], monkeypatch) == ["redis://c/0"], "an option wins"


@needs_server
@pytest.mark.parametrize("own", [{}, OLD, NEW], ids=["none", "old", "new"])
def test_an_agent_joins_a_crawl_whose_settings_were_stored_with_old_spellings(
    own: Mapping[str, str], server: ServerProcess, tmp_path: Path
) -> None:
    RedisWorld(server)
    agent_preparation.plan_agent(tmp_path / "first", [server.url], "atlas", {}, NEW, [SEED])
    key = META.replace("fieldmouse", "atlas")
    charter = json.loads(server.client().hget(key, "charter") or b"")
    assert not ANY_OLD.search(charter["settings"]), "new crawls are stored with the new spellings"
    old = charter["settings"].replace("[cluster]", "[board]").replace("keep_acked", "keep_booked")
    assert old != charter["settings"]
    server.client().hset(key, "charter", json.dumps({**charter, "settings": old}))
    plan = agent_preparation.plan_agent(tmp_path / "second", [server.url], "atlas", {}, own)
    assert plan.settings.cluster == WANTED.cluster
    assert plan.settings.fetch == Settings().override(own).fetch, "each machine says it for itself"
    with pytest.raises(UsageError, match=r"`cluster\.lease` is .* here"):
        agent_preparation.plan_agent(tmp_path / "third", [server.url], "atlas", {}, {"board.lease": "50s"})


# -- hidden


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


@pytest.mark.parametrize("path", [*commands(main.fieldmouse)], ids=" ".join)
def test_no_help_shows_an_old_spelling(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run_command([*path, "--help"]) == 0
    shown = capsys.readouterr().out
    if path[0] == "meadow":  # its option of this name is about robots.txt
        shown = shown.replace("--robots ", "")
    assert not ANY_OLD.search(shown)


@pytest.mark.parametrize("word", ["--robot", "--boards", "--forgiv"])
@pytest.mark.parametrize("command", ["resume", "agent"])
def test_no_old_option_is_suggested(word: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run_command([command, "a", word]) == 2
    assert not ANY_OLD.search(capsys.readouterr().err.replace(word, "").replace(f"'{word}'", ""))


def test_no_file_is_written_with_an_old_spelling(tmp_path: Path) -> None:
    assert not ANY_OLD.search(render(Settings()))
    assert not ANY_OLD.search(render_published(Settings()))
    home = tmp_path / "a"
    fieldmouse.Crawl(home, seeds=[SEED], settings=OLD)._make_plan().open_and_lock().unlock()
    assert not ANY_OLD.search((home / "fieldmouse.toml").read_text())
