"""Tests of loading objects by name, and of finding the name of an object."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hostile_mice
from fieldmouse.config.settings_file import Settings, parse, render
from fieldmouse.errors import UsageError
from fieldmouse.import_string import IMPORT_NAME, import_callable, import_name_of, import_object, import_path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current directory, whose modules are unloaded afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for module in set(sys.modules) - before:
        del sys.modules[module]


@pytest.mark.parametrize("thing", [hostile_mice.titles, json.dumps, functools.partial, Path])
def test_name_of_an_object_loads_the_same_object(thing: object) -> None:
    assert import_object(import_name_of(thing, "extract"), "extract") is thing


def test_name_of_a_name_is_unchanged() -> None:
    assert import_name_of("shop:rows", "extract") == "shop:rows"


def _local() -> object:
    def inner() -> None: ...

    return inner


@pytest.mark.parametrize(
    "thing",
    [lambda page: None, _local(), functools.partial(json.dumps), hostile_mice.titles.__call__, object(), 7],
    ids=["lambda", "inner function", "partial", "method", "object", "number"],
)
def test_object_without_an_importable_name_raises_an_error(thing: object) -> None:
    with pytest.raises(UsageError, match=r"^`extract` is ") as told:
        import_name_of(thing, "extract")
    assert told.value.hint


def test_shadowed_function_is_not_confused_with_the_one_that_hides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = hostile_mice.titles
    monkeypatch.setattr(hostile_mice, "titles", hostile_mice.raises)
    with pytest.raises(UsageError):
        import_name_of(hidden, "extract")


def test_function_in_the_main_script_raises_an_error_with_a_hint_to_move_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile_mice.titles, "__module__", "__main__")
    with pytest.raises(UsageError, match="script or notebook") as told:
        import_name_of(hostile_mice.titles, "extract")
    assert "module beside it" in told.value.hint


@pytest.mark.parametrize(
    ("code", "name", "says"),
    [
        ("", "nowhere_to_be_found:rows", "No module named 'nowhere_to_be_found'"),
        ("", "faulty.inner:rows", "is not a package"),
        ("import not_installed_at_all", "faulty:rows", "No module named 'not_installed_at_all'"),
        ("", "faulty:rows", "`faulty` has no `rows`"),
        ("rows = 7", "faulty:rows", "cannot be called: it is of type `int`"),
        ("1 / 0", "faulty:rows", "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit()", "faulty:rows", "SystemExit"),
        ("def rows(:", "faulty:rows", "SyntaxError"),
        ("", "faulty.rows", "is no name that can be imported"),
        ("", "faulty:rows:more", "is no name that can be imported"),
    ],
)
def test_name_that_cannot_be_loaded_raises_an_error_with_a_hint(here: Path, code: str, name: str, says: str) -> None:
    (here / "faulty.py").write_text(code)
    with pytest.raises(UsageError) as told:
        import_callable(name, "extract")
    assert f"the extract `{name}`" in str(told.value)
    assert says in str(told.value)
    assert told.value.hint


def test_current_directory_is_searched_last(here: Path) -> None:
    """A file there may have the name of an installed module, and must not hide it."""
    (here / "json.py").write_text("dumps = None")
    (here / "own.py").write_text("def rows(page): ...")
    assert import_object("json:dumps", "extract") is json.dumps
    assert import_object("own:rows", "extract").__module__ == "own"
    assert import_path()[-1] == str(here)


def test_settings_accept_only_valid_names() -> None:
    asked = Settings().override({"plugins.extract": "shop.rows:of"})
    assert parse(render(asked)).plugins.extract == "shop.rows:of"
    assert IMPORT_NAME.fullmatch("a.b:c")
    for wrong in ("shop", "shop.rows", ":of", "shop:", "shop:of()", "../shop:of", "shop:a.b"):
        with pytest.raises(UsageError, match=r"plugins\.extract"):
            Settings().override({"plugins.extract": wrong})
