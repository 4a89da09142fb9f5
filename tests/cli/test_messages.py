"""What the command line says when it is asked, and when it is asked wrongly."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import msgspec
import pytest

from fieldmouse import __version__
from fieldmouse.cli import console, options
from fieldmouse.cli.crawl.serve_synthetic_web import HIDDEN_OPTIONS, OPTION_HELP
from fieldmouse.cli.main import fieldmouse, run_command
from fieldmouse.cli.progress_and_summary import print_summary
from fieldmouse.config import settings_file
from fieldmouse.config import settings_file as toml_format
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.config.settings_file import Settings
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.stats import Summary

Said = pytest.CaptureFixture[str]


def verbs() -> list[tuple[str, click.Command]]:
    context = click.Context(fieldmouse, **fieldmouse.context_settings)
    found = []
    for name in fieldmouse.list_commands(context):
        command = fieldmouse.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            inside = click.Context(command, context, name)
            for sub in command.list_commands(inside):
                inner = command.get_command(inside, sub)
                assert inner is not None
                found.append((f"{name} {sub}", inner))
        else:
            found.append((name, command))
    return found


@pytest.fixture
def empty_crawl(tmp_path: Path) -> Path:
    home = CrawlDir.create(tmp_path / "atlas", shards=1, settings=settings_file.render(Settings()).encode())
    return home.path


def test_the_version_is_told(capsys: Said) -> None:
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out == f"fieldmouse {__version__}\n"


def test_no_line_of_the_command_list_is_cut_off(capsys: Said) -> None:
    assert run_command(["--help"]) == 0
    said = capsys.readouterr().out
    assert "  model " in said
    assert not [line for line in said.splitlines() if line.endswith("...") and "COMMAND" not in line]


@pytest.mark.parametrize(("name", "command"), verbs())
def test_every_command_takes_json_and_explains_itself(name: str, command: click.Command, capsys: Said) -> None:
    assert any("--json" in option.opts for option in command.params)
    assert run_command([*name.split(), "--help"]) == 0
    said = capsys.readouterr()
    assert "Usage: fieldmouse" in said.out
    assert re.search(rf"Examples?:\s+fieldmouse {name}", said.out)
    assert not said.err
    for option in command.params:
        assert isinstance(option, click.Argument) or option.help  # type: ignore[attr-defined]


def test_the_default_scope_is_stated_in_the_help_of_crawl(capsys: Said) -> None:
    run_command(["crawl", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert f'The default scope is "{Settings().scope.mode}"' in said
    assert "[default: site]" in said


def test_each_option_of_a_crawl_is_a_setting_that_exists() -> None:
    for name in options.KEYWORD_SETTINGS.values():
        section, key = toml_format.split_name(Settings, name)
        assert key in toml_format.keys_of(toml_format.sections_of(Settings)[section])


def test_every_knob_of_the_meadow_can_be_turned() -> None:
    assert {*OPTION_HELP, *HIDDEN_OPTIONS} == set(MeadowOptions.__struct_fields__)


@pytest.mark.parametrize(
    ("words", "code", "message", "advice"),
    [
        (["crwl"], 2, "there is no command `crwl`", "did you mean `fieldmouse crawl`?"),
        (["dance"], 2, "there is no command `dance`", "`fieldmouse --help` lists the commands"),
        (["crawl"], 2, "Missing argument 'DIRECTORY'", "see `fieldmouse crawl --help`"),
        (["crawl", "x", "--sed", "y"], 2, "No such option", "see `fieldmouse crawl --help`"),
        (["crawl", "x"], 2, "no seed is given", "`fieldmouse crawl x --seed https://...`"),
        (
            ["crawl", "https://www.example.org/docs/"],
            2,
            "`https://www.example.org/docs/` is a URL, and the first argument is the directory of the crawl",
            "`fieldmouse crawl example --seed https://www.example.org/docs/`",
        ),
        (
            ["crawl", "HTTP://127.0.0.1:8000", "--seed", "http://127.0.0.1:8000/"],
            2,
            "is a URL",
            "`fieldmouse crawl atlas --seed http://127.0.0.1:8000/`",
        ),
        (["crawl", "x", "--seed", "example.org"], 2, "`example.org` is no URL", "`https://example.org`"),
        (["crawl", "x", "--seed", "ftp://a.example/"], 2, "`ftp://a.example/`", "http:// or https://"),
        (["crawl", "x", "--seeds-file", "missing.txt"], 2, "missing.txt", "check the name"),
        (["crawl", "x", "--seed", "http://a.example/", "--delay", "5"], 2, 'politeness.delay` is "5"', "10s"),
        (
            ["crawl", "x", "--seed", "http://a.example/", "--delay", "1"],
            2,
            'politeness.delay` is "1"',
            "; the unit is missing: write 1s",
        ),
        (
            ["crawl", "x", "--seed", "http://a.example/", "--set", "delay=1s"],
            2,
            "there is no setting `delay`",
            "did you mean `politeness.delay`?",
        ),
        (
            ["crawl", "x", "--seed", "http://a.example/", "--set", "pages=5"],
            2,
            "there is no setting `pages`",
            "did you mean `crawl.pages` or `buffer.pages`",
        ),
        (["crawl", "x", "--seed", "http://a.example/", "--pages", "many"], 2, "crawl.pages", "whole number"),
        (["crawl", "x", "--seed", "http://a.example/", "--scope", "moon"], 2, "scope.mode", '"web"'),
        (["crawl", "x", "--seed", "http://a.example/", "--policy", "idnex"], 2, "frontier.policy", "index"),
        (["crawl", "x", "--seed", "http://a.example/", "--set", "a.b=1"], 2, "no setting `a.b`", "settings.md"),
        (["crawl", "x", "--seed", "http://a.example/", "--set", "politeness.delay"], 2, "has no value", "VALUE"),
        (["crawl", "x", "--seed", "http://a.example/", "--progress", "2"], 2, "--progress 2", "5s"),
        (["crawl", "x", "--seed", "http://a.example/", "--config", "no.toml"], 2, "no.toml", "name"),
        (["resume", "nowhere"], 1, "`nowhere` holds no crawl", "fieldmouse crawl nowhere"),
        (["search", "nowhere", "word"], 1, "`nowhere` holds no crawl", "there is no such directory"),
        (["search", __file__, "word"], 1, "holds no crawl", "it is a file: name the directory"),
        (["resume", __file__], 1, "holds no crawl", "it is a file: name the directory"),
        (["search", "nowhere"], 2, "Missing argument 'WORDS...'", "see `fieldmouse search --help`"),
        (["export", "nowhere", "--to", "x.jsonl"], 1, "`nowhere` holds no crawl", "there is no such directory"),
        (["export", "nowhere", "--to", "x.docx"], 2, "the name `x.docx` has no known format", ".parquet"),
        (["explain", "nowhere", "http://a.example/"], 1, "`nowhere` holds no crawl", "there is no such directory"),
        (["doctor", "nowhere"], 1, "`nowhere` holds no crawl", "there is no such directory"),
        (["meadow", "serve", "--hosts", "9", "--pages", "3"], 2, "too few for 9 hosts", "--pages 9"),
        (["meadow", "serve", "--latency", "20"], 2, '"20" is no duration', "see `fieldmouse meadow serve"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True], ids=["talk", "json"])
def test_an_error_names_the_thing_and_the_way_out(
    words: list[str],
    code: int,
    message: str,
    advice: str,
    as_json: bool,
    capsys: Said,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command([*words, "--json"] if as_json else words) == code
    said = capsys.readouterr()
    if as_json:
        told = json.loads(said.out)
        assert message in told["error"]
        assert advice in told["hint"]
        assert not said.err
    else:
        assert not said.out
        lines = said.err.splitlines()
        assert message in next(line for line in lines if line.startswith("error: "))
        assert advice in next(line for line in lines if line.startswith("hint: "))
    assert not any(tmp_path.iterdir()), "a command that cannot be meant leaves nothing behind"


@pytest.mark.parametrize("words", [["crawl", "x", "--seed"], ["cluster", "status", "--coordinator"]], ids=" ".join)
def test_an_option_without_its_value_sends_to_the_help_of_its_command(words: list[str], capsys: Said) -> None:
    assert run_command(words) == 2
    command = " ".join(word for word in words if word != "x" and not word.startswith("-"))
    assert f"hint: see `fieldmouse {command} --help`" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name, _ in verbs()])
def test_h_is_the_help_of_every_command(name: str, capsys: Said) -> None:
    assert run_command([*name.split(), "-h"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: fieldmouse {name}")


def test_search_help_is_h_anywhere_and_other_dashed_words_are_excluded(
    empty_crawl: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = dict(verbs())["search"]
    monkeypatch.setattr(search, "_help_option", None)
    search.get_params(click.Context(search, help_option_names=["-h", "--help"]))  # as a list of all commands does
    for words in (["docs", "-h"], ["docs", "mouse", "-h"], ["-h", "docs", "mouse"]):
        assert run_command(["search", *words]) == 0
        assert capsys.readouterr().out.startswith("Usage: fieldmouse search")
    for words in (["mouse", "-hotel"], ["mouse", "--", "-h"], ["--", "-h", "--json"]):
        assert run_command(["search", str(empty_crawl), *words]) == 0
        assert f"matches: {' '.join(word for word in words if word != '--')}" in capsys.readouterr().err


def test_a_crawl_is_not_begun_twice_in_one_directory(empty_crawl: Path, capsys: Said) -> None:
    before = sorted(empty_crawl.rglob("*"))
    assert run_command(["crawl", str(empty_crawl), "--seed", "http://a.example/"]) == 1
    assert f"hint: continue it with `fieldmouse resume {empty_crawl}`" in capsys.readouterr().err
    assert sorted(empty_crawl.rglob("*")) == before


def test_a_crawl_without_a_checkpoint_exports_nothing(empty_crawl: Path, capsys: Said) -> None:
    target = empty_crawl.parent / "pages.jsonl"
    assert run_command(["export", str(empty_crawl), "--to", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"to": str(target), "pages": 0}
    assert target.read_bytes() == b""


def test_a_reader_that_leaves_early_is_no_failure() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "fieldmouse", "doctor", "nowhere", "--json"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == 0


def test_missing_settings_file_hint_names_doctor(empty_crawl: Path, capsys: Said) -> None:
    (empty_crawl / "fieldmouse.toml").unlink()
    assert run_command(["resume", str(empty_crawl)]) == 2
    assert f"hint: `fieldmouse doctor {empty_crawl}` says what it must hold" in capsys.readouterr().err


def test_invalid_utf8_is_a_valid_query(empty_crawl: Path, capsys: Said) -> None:
    assert run_command(["search", str(empty_crawl), "\udcff\udcfe", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    assert run_command(["explain", str(empty_crawl), "http://a.example/\udcff", "--json"]) == 0
    assert "a.example" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--resolve", "a.test=127.0.0.1:99999"], "does not send a name to an address"),
        (["--set", 'network.resolve=["a.test=999.1.1.1"]'], "does not send a name to an address"),
        (["--set", 'network.headers={"X_From" = "us"}'], "cannot be sent as a header"),
        (["--set", 'network.headers={"user-agent" = "Mozilla"}'], "crawl.product"),
        (["--set", 'network.headers={"Range" = "bytes=0-9"}'], "no header to be added"),
        (["--set", 'network.nameservers=["ns.example"]'], "not the address of a DNS server"),
        (["--set", "network.source=eth0"], "no address to connect from"),
        (["--set", "network.source=192.0.2.7:80"], "no address to connect from"),
        (["--set", "network.source=0.0.0.0"], "no address to connect from"),
        (["--set", "network.source=ff02::1"], "no address to connect from"),
        (["--set", "network.ca_file=/nowhere/ca.pem"], "cannot be read as certificates"),
        (["--set", 'crawl.seeds=["example.org"]'], "no URL we can crawl"),
        (["--set", "frontier.policy=no.such:Policy"], "cannot be imported"),
        (["--set", "index.heap=9GiB"], "`index.heap`"),
        (["--set", f"archive.prefix={'x' * 300}"], "`archive.prefix`"),
    ],
    ids=lambda value: value[1][:24] if isinstance(value, list) else "",
)
def test_what_no_crawl_could_use_is_told_before_anything_is_made(
    words: list[str], message: str, tmp_path: Path, capsys: Said
) -> None:
    assert run_command(["crawl", str(tmp_path / "new"), "--seed", "http://a.test/", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_time_of_a_run_is_not_told_as_that_of_all_pages(capsys: Said) -> None:
    plain = dict.fromkeys(Summary.__struct_fields__[:13], 0) | {"giving_hosts": 3, "stopped_by": "pages", "exit": 3}
    whole = plain | {"pages": 90, "seconds": 9.0, "pages_per_second": 10.0}
    for summary in (whole, whole | {"pages": 5090}):
        print_summary(msgspec.convert(summary, Summary), Settings(), "my crawls/c")
    said = capsys.readouterr().err
    assert "90 pages from 3 hosts, 0 B, in 9 s (10 pages/s)" in said
    assert "5,090 pages from 3 hosts, 0 B; this run took 9 s (10 pages/s)" in said
    assert "continue with `fieldmouse resume 'my crawls/c'`" in said


@pytest.mark.parametrize(
    ("ending", "hint"),
    [
        ({"exit": 130, "stopped_by": "signal"}, "continue the round with `fieldmouse refresh c --budget 5/s --once`"),
        ({"waiting": 7}, "fetch them, too, with `fieldmouse refresh c --budget 5/s --once --continue`"),
    ],
)
def test_the_hint_after_a_round_repeats_its_options(ending: dict[str, object], hint: str, capsys: Said) -> None:
    console.mute_messages(False)  # whoever asked for JSON before us
    plain = dict.fromkeys(Summary.__struct_fields__[:13], 0) | ending
    order = RefreshRunMode(once=True, hold_waiting=True, refresh_only=True)
    print_summary(msgspec.convert(plain, Summary), Settings(), "c", order, " --budget 5/s --once")
    assert f"hint: {hint}\n" in capsys.readouterr().err


def test_one_page_is_one_page(capsys: Said) -> None:
    plain = dict.fromkeys(Summary.__struct_fields__[:13], 0) | {"giving_hosts": 1, "stopped_by": "pages"}
    alone = plain | {"pages": 1, "seen": 1, "waiting": 1, "dropped_links": {"limits.links_per_page": 1}}
    limited = Settings().override({"crawl.pages": 1})
    print_summary(msgspec.convert(alone, Summary), limited, "c")
    said = capsys.readouterr().err
    assert "1 page from 1 host, 0 B" in said
    assert "1 URL seen: " in said
    assert "1 link was dropped by `limits.links_per_page`" in said
    assert "stopped by the limit of 1 page; 1 URL is waiting" in said
