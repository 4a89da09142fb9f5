"""Commands, options and arguments: every spelling of the golden file is still accepted, hidden or not."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any

import click
import pytest

from formats.golden import ask, check_superset, golden, main, say


def root() -> click.Group:
    """The outermost group, found among what the module of the command defines or imports."""
    groups = [one for one in vars(sys.modules[main().__module__]).values() if isinstance(one, click.Group)]
    (group,) = [one for one in groups if "crawl" in one.list_commands(click.Context(one))]
    return group


def commands(command: click.Command, path: str = "fieldmouse") -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, f"{path} {name}")


def kind(parameter: click.Parameter) -> str:
    words = [parameter.type.name]
    if isinstance(parameter.type, click.Choice):
        words += ["of", "|".join(map(str, parameter.type.choices))]
    if isinstance(parameter, click.Option) and parameter.is_flag:
        words = ["flag"]
    if isinstance(parameter, click.Argument):
        words += ["required"] * parameter.required
    words += ["multiple"] * parameter.multiple
    if parameter.nargs != 1:
        words.append(f"nargs={parameter.nargs}")
    return " ".join(words)


def accepted() -> dict[str, dict[str, Any]]:
    """For each command its arguments and environment variables, and the kind of each option spelling."""
    found: dict[str, dict[str, Any]] = {}
    for path, command in commands(root()):
        options, arguments, variables = {}, [], []
        with click.Context(command, help_option_names=["-h", "--help"]) as context:
            for parameter in command.get_params(context):
                names = parameter.envvar or []
                variables += [names] if isinstance(names, str) else names
                if isinstance(parameter, click.Argument):
                    arguments.append(kind(parameter))
                else:
                    options |= dict.fromkeys([*parameter.opts, *parameter.secondary_opts], kind(parameter))
        group = isinstance(command, click.Group)
        found[path] = {"arguments": arguments, "options": options, "variables": variables, "group": group}
    return found


RENAMED_VARIABLES = {"FIELDMOUSE_BOARD": "FIELDMOUSE_COORDINATOR"}
"""The old name still works: tests/config/test_old_spellings.py."""


def test_every_command_and_option_spelling_is_accepted() -> None:
    """`--help` as the last word: click looks up every option first, then prints the help."""
    present = accepted()
    for path, expected in golden("command_line", present).items():
        command = path.split()[1:]
        words = []
        for option, expected_kind in expected["options"].items():
            if option not in ("-h", "--help", "--version"):
                words.append([option] if expected_kind == "flag" else [option, "1"])
            present_kind = present[path]["options"].get(option, expected_kind)  # an alias may be no option
            assert present_kind == expected_kind, f"{path} {option}"
        if say(*command, *chain(*words), "--help")[0]:
            refused = [option[0] for option in words if say(*command, *option, "--help")[0]]
            raise AssertionError(f"`{path}` is no command, or refuses {refused}")
        assert present[path]["group"] == expected["group"], path
        assert present[path]["arguments"] == expected["arguments"], path
        renamed = {RENAMED_VARIABLES.get(name, name) for name in expected["variables"]}
        missing = renamed - set(present[path]["variables"])
        assert not missing, f"{path} does not read {missing}"


@pytest.mark.parametrize("words", [["no-such-command"], ["crawl"], ["crawl", "--no-such-option"]])
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    assert set(ask(*words, expect=2)) == {"error", "hint"}


def test_failure_exits_with_1(tmp_path: object) -> None:
    assert set(ask("search", f"{tmp_path}/none", "word", expect=1)) == {"error", "hint"}


def test_public_python_names_are_importable() -> None:
    fieldmouse = importlib.import_module("fieldmouse")
    names = {*dir(fieldmouse), "ReadingRoom", "ReadingRooms"}  # the last two are former names
    check_superset("python_names", sorted(name for name in names if hasattr(fieldmouse, name)))
