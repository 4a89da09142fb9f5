"""The lab's desk at the command line: list, run, report, and Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import tinypaper
from fieldmouse.cli import output_file
from fieldmouse.cli.main import LazyGroup, fieldmouse, run_command
from fieldmouse.errors import FieldmouseError

Said = pytest.CaptureFixture[str]
PAPER = Path(tinypaper.__file__)


@pytest.fixture(autouse=True)
def paper() -> Iterator[None]:
    with tinypaper.in_the_catalogue():
        yield


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def told(said: Said) -> Any:
    heard = said.readouterr()
    assert not heard.err
    return json.loads(heard.out, parse_constant=refuse)


def test_a_list_has_every_experiment_under_its_group(capsys: Said) -> None:
    assert run_command(["lab", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["tiny", "lost", "trouble"]
    assert re.fullmatch(r"  tiny-table +Mice in a field", lines[1])


def test_a_list_for_programs(capsys: Said) -> None:
    assert run_command(["lab", "list", "--json"]) == 0
    assert told(capsys) == [{"id": one.id, "group": one.group, "title": one.title} for one in tinypaper.EXPERIMENTS]


def test_one_experiment_as_the_contract_promises(capsys: Said) -> None:
    assert run_command(["lab", "run", "tiny-table", "--json"]) == 0
    found = told(capsys)
    assert (found["id"], found["title"]) == ("tiny-table", "Mice in a field")
    assert found["rows"][1] == {
        "label": "mice, delta 6",
        "printed": 67.5,
        "ours": 76.51,
        "spread": None,
        "verdict": "misprint",
        "note": "the digits were <swapped>",
    }
    assert [row["verdict"] for row in found["rows"]] == ["same", "misprint", "outlier", "new"]
    assert found["remarks"] == ["Mice were counted at dawn."]
    assert found["figures"] == ["tiny-figure"]
    assert found["seconds"] >= 0


def test_a_group_has_all_rows_in_one_list_and_each_experiment_too(capsys: Said) -> None:
    assert run_command(["lab", "run", "tiny", "--json"]) == 0
    found = told(capsys)
    assert found["id"] == "tiny"
    assert [one["id"] for one in found["experiments"]] == ["tiny-table", "tiny-grid"]
    assert len(found["rows"]) == sum(len(one["rows"]) for one in found["experiments"]) == 10
    assert found["rows"][4]["label"] == "tiny-grid: delta 10, gamma 0.7"


def test_numbers_without_a_value_are_null_and_a_difference_is_exit_code_1(capsys: Said) -> None:
    assert run_command(["lab", "run", "tiny-lost", "--json"]) == 1
    (row,) = told(capsys)["rows"]
    assert (row["ours"], row["spread"]) == (None, None)


def test_people_get_aligned_tables_notes_and_a_closing_count(capsys: Said) -> None:
    assert run_command(["lab", "run", "tiny"]) == 0
    heard = capsys.readouterr()
    lines = heard.out.splitlines()
    table = lines[2:7]
    assert [line.split() for line in table[:2]] == [
        ["printed", "ours", "spread", "verdict"],
        ["mice,", "delta", "5", "114", "113.8", "4.1", "same"],
    ]
    verdicts = zip(table[1:], ["same", "misprint", "outlier", "new"], strict=True)
    assert len({line.index(word) for line, word in verdicts}) == 1
    printed = zip(table[1:], ["114", "67.5", "125", "–"], strict=True)
    assert len({line.index(f" {number} ") + len(number) for line, number in printed}) == 1
    assert "  mice, delta 6: the digits were <swapped>" in lines
    assert "      9  6.3 (6.3)  8.1 (8.1)" in lines, "a grid"
    assert lines[-1] == "10 numbers: 7 same, 1 misprint, 1 outlier, 1 new"
    assert re.match(r"tiny-table: 4 numbers: 1 same, 1 misprint, 1 outlier, 1 new, in ", heard.err)


def test_a_difference_is_told_in_a_sentence(capsys: Said) -> None:
    assert run_command(["lab", "run", "lost"]) == 1
    assert "1 number differs for an unknown reason" in capsys.readouterr().err


def test_trouble_in_an_experiment_is_told_like_any_other(capsys: Said) -> None:
    assert run_command(["lab", "run", "tiny-refused"]) == 1
    assert capsys.readouterr().err == "error: the mice are asleep\nhint: come back at dusk\n"
    assert run_command(["lab", "run", "tiny-unequipped", "--json"]) == 1
    assert told(capsys)["hint"] == "`pip install 'fieldmouse[lab]'`"


@pytest.mark.parametrize(
    ("words", "message", "advice"),
    [
        (["lab", "reprot"], "no command `reprot` in `fieldmouse lab`", "did you mean `fieldmouse lab report`?"),
        (["lab", "run"], "Missing argument 'NAME...'", "see `fieldmouse lab run --help`"),
        (["lab", "run", "tiny-tabel"], "no experiment or group `tiny-tabel`", "did you mean `tiny-table`?"),
        (["lab", "run", "tiny", "--jobs", "0"], "--jobs", "see `fieldmouse lab run --help`"),
        (["lab", "report", "--from", "no.json"], "`no.json`", "check the name"),
        (["lab", "report", "tiny", "--from", "no.json"], "both `tiny` and `--from no.json`", "by name, or"),
    ],
)
def test_a_wrong_word_is_named_before_anything_runs(
    words: list[str], message: str, advice: str, capsys: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(words) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert message in error
    assert advice in hint
    assert not any(tmp_path.iterdir())


def test_figures_are_drawn_where_asked(tmp_path: Path, capsys: Said) -> None:
    assert run_command(["lab", "run", "tiny", "--plots", str(tmp_path / "new" / "figures")]) == 0
    assert sorted(path.name for path in (tmp_path / "new" / "figures").iterdir()) == [
        "tiny-figure.png",
        "tiny-figure.svg",
    ]
    assert "drew 1 figure in" in capsys.readouterr().err


def test_report_from_kept_findings_equals_report_from_run(tmp_path: Path, capsys: Said) -> None:
    kept, fresh, again = tmp_path / "kept.json", tmp_path / "fresh.html", tmp_path / "again.html"
    assert run_command(["lab", "run", "tiny", "--keep", str(kept)]) == 0
    assert run_command(["lab", "report", "tiny", "--to", str(fresh)]) == 0
    assert f"wrote 2 experiments to `{fresh}`" in capsys.readouterr().err
    assert run_command(["lab", "report", "--from", str(kept), "--to", str(again), "--json"]) == 0
    assert told(capsys) == {
        "to": str(again),
        "experiments": ["tiny-table", "tiny-grid"],
        "verdicts": {"same": 7, "misprint": 1, "outlier": 1, "open": 0, "different": 0, "new": 1},
    }

    def timeless(page: Path) -> str:
        return re.sub(r"Made on .* UTC by| · [\d.]+ s<", "", page.read_text())

    assert timeless(fresh) == timeless(again)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.html", "fresh.html", "kept.json"]


def test_a_report_of_a_difference_is_written_and_fails(tmp_path: Path, capsys: Said) -> None:
    assert run_command(["lab", "report", "lost", "--to", str(tmp_path / "r.html")]) == 1
    assert "1 number differs" in capsys.readouterr().err
    assert (tmp_path / "r.html").exists()


def test_a_place_that_cannot_be_written_is_named_before_minutes_of_work(tmp_path: Path, capsys: Said) -> None:
    (tmp_path / "file").touch()
    for words in (
        ["run", "tiny-broken", "--keep", str(tmp_path / "file" / "kept.json")],
        ["run", "tiny-broken", "--plots", str(tmp_path / "file" / "plots")],
        ["report", "tiny-broken", "--to", str(tmp_path / "file" / "report.html")],
    ):
        assert run_command(["lab", *words]) == 1
        assert f"cannot write in `{tmp_path / 'file'}`" in capsys.readouterr().err


def test_a_disk_that_fills_up_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_bytes(b"the old report")
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, usual[1]))
    try:
        with pytest.raises(FieldmouseError, match="cannot write"):
            output_file.write_output(report, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert report.read_bytes() == b"the old report"
    assert list(tmp_path.iterdir()) == [report]


def test_ctrl_c_at_a_terminal_ends_everything_and_leaves_nothing_torn(tmp_path: Path) -> None:
    keyboard, screen = pty.openpty()
    # A shell keeps the terminal open until we have read it all: it hangs up when its first process ends.
    shell = ["sh", "-c", 'trap : INT; "$@"; echo "left with $?" >&2; read answer', "sh"]
    words = ["lab", "run", "tiny-table", "tiny-endless", "--jobs", "2", "--keep", str(tmp_path / "kept.json")]
    typed = subprocess.Popen(
        [*shell, sys.executable, PAPER, *words],
        stdin=screen,
        stdout=subprocess.PIPE,
        stderr=screen,
        start_new_session=True,
        preexec_fn=lambda: controlling(screen),
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(screen)
    assert typed.stdout is not None
    table = b""
    while b"4 numbers: 1 same" not in table:  # what is done is shown at once
        table += typed.stdout.readline()
    seen = b""
    while not (waiting := re.search(rb"1 of 2.*waiting in process (\d+)", seen, re.DOTALL)):
        seen += os.read(keyboard, 65536)
    os.write(keyboard, b"\x03")
    while b"left with" not in seen:
        seen += os.read(keyboard, 65536)
    os.write(keyboard, b"\n")
    typed.communicate(timeout=60)
    os.close(keyboard)
    assert b"left with 130" in seen
    assert b"Traceback" not in seen
    assert b"stopped by you after 1 of 2 experiments" in seen
    assert not any(tmp_path.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(int(waiting[1]), 0)


def controlling(screen: int) -> None:
    """Make this terminal ours, so that its Ctrl-C reaches us."""
    import fcntl
    import termios

    fcntl.ioctl(screen, termios.TIOCSCTTY, 0)


def test_every_group_names_commands_that_are_there_and_describes_them() -> None:
    context = click.Context(fieldmouse, info_name="fieldmouse", **fieldmouse.context_settings)
    for name in fieldmouse.list_commands(context):
        group = fieldmouse.get_command(context, name)
        if isinstance(group, LazyGroup):
            inside = click.Context(group, context, name)
            assert group.list_commands(inside)
            assert all(group.get_command(inside, verb) for verb in group.list_commands(inside))
