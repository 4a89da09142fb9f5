"""Settings: every key of the golden `fieldmouse.toml` is still read, and every default is what it was.

`settings.toml` has all keys with their defaults, `settings_altered.toml` all keys with another value. A key
may get a new spelling; the one in these files is accepted for ever, and must still change a value.
"""

from __future__ import annotations

import inspect
import itertools
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from formats.golden import DATA, WRITING, check_superset, classes, modules

OTHERS = [[1, 2], {"x": "1"}, {"text/x": "a.b:c"}, ["* css .ad"], "3s", "50s", 7, 0.5, True, False]
NEEDS = {"mail_to": {"mail_from": "x@x.invalid", "mail_server": "smtps://x.invalid"}}
"""Keys that others must accompany."""
DEFAULTS, ALTERED = DATA / "settings.toml", DATA / "settings_altered.toml"


@cache
def settings_class() -> type[msgspec.Struct]:
    (found,) = [
        one for one in classes(msgspec.Struct) if {"crawl", "scope", "politeness"} <= set(one.__struct_fields__)
    ]
    return found


def function(takes: type, gives: type) -> Callable[[Any], Any]:
    """The one public function that makes `gives` of one `takes`."""
    found = set()
    for module in modules():
        for name, value in vars(module).items():
            if name.startswith("_") or not inspect.isfunction(value) or value.__module__ != module.__name__:
                continue
            if len(value.__annotations__) == 2:
                try:
                    hints = get_type_hints(value)
                except NameError:
                    continue
                if hints.pop("return", None) is gives and all(
                    isinstance(hint, type) and issubclass(takes, hint) for hint in hints.values()
                ):
                    found.add(value)
    (shortest, *_) = sorted(found, key=lambda one: len(inspect.getsource(one)))
    return shortest


@pytest.fixture(scope="module")
def load() -> Callable[[Path], Any]:
    return function(Path, settings_class())


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, msgspec.Struct) and value.__struct_fields__:
        for name in value.__struct_fields__:
            yield from leaves(getattr(value, name), f"{path}.{name}")
    else:
        yield path, value


def written(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(map(written, value))}]"
        case dict():
            return "{" + ", ".join(f'"{key}" = {written(inner)}' for key, inner in value.items()) + "}"
        case str():
            return f'"{value}"'
        case _:
            return str(value)


def toml(table: dict[str, dict[str, object]]) -> str:
    sections = (
        "\n".join([f"[{section}]", *(f"{key} = {written(value)}" for key, value in keys.items())])
        for section, keys in table.items()
    )
    return "\n\n".join(sections) + "\n"


def different(load: Callable[[Path], Any], trial: Path, section: str, key: str, value: object) -> list[str]:
    """The values that change when that key gets that value."""
    base = NEEDS.get(key, {})
    trial.write_text(toml({section: {**base}}))
    default = dict(leaves(load(trial)))
    trial.write_text(toml({section: {**base, key: value}}))
    now = dict(leaves(load(trial)))
    return [name for name in default if now[name] != default[name]]


def write_golden(load: Callable[[Path], Any], folder: Path) -> None:
    """Both files: the defaults as the code writes them, and for each key the first other value it accepts."""
    text = function(settings_class(), str)(settings_class()())
    table = tomllib.loads(text)
    DEFAULTS.write_text(toml(table))
    trial = folder / "trial.toml"
    altered: dict[str, dict[str, object]] = {}
    missing = []
    words = (
        "7s 7/h 7KiB 70MiB 7GiB 7KiB/s none never same 7 x=1 page web fixed auto lose greedy uniform "
        "x.invalid http://x.invalid/ x.invalid=127.0.0.1 127.0.0.1 a.b:c priced hash kalman a/1 env:X "
        "x@x.invalid smtps://x.invalid new"
    ).split()
    for section, keys in table.items():
        for key, value in keys.items():
            near = [not value] if isinstance(value, bool) else []
            if isinstance(value, int | float) and not near:
                near = [value + 1, value * 2, value / 2]
            lists: list[object] = [[word] for word in words]
            for candidate in itertools.chain(near, words, lists, OTHERS):
                try:
                    changed = different(load, trial, section, key, candidate)
                except Exception:
                    continue
                if len(changed) == 1:
                    altered.setdefault(section, {})[key] = candidate
                    break
            else:
                missing.append(f"{section}.{key}")
    assert not missing, "no other value found for these: add a candidate"
    ALTERED.write_text(toml(altered))


def test_every_setting_is_read_and_has_its_default(load: Callable[[Path], Any], tmp_path: Path) -> None:
    if WRITING:
        write_golden(load, tmp_path)
    (tmp_path / "empty.toml").write_text("")
    assert load(DEFAULTS) == load(tmp_path / "empty.toml")


def test_every_setting_changes_a_value_of_its_own(load: Callable[[Path], Any], tmp_path: Path) -> None:
    trial = tmp_path / "trial.toml"
    keys = [(section, key, value) for section, keys in _table(ALTERED).items() for key, value in keys.items()]
    assert {(section, key) for section, key, _ in keys} == {
        (section, key) for section, keys in _table(DEFAULTS).items() for key in keys
    }
    changed = []
    for section, key, value in keys:
        names = different(load, trial, section, key, value)
        assert len(names) == 1, f"{section}.{key} = {value!r} changes {names}"
        changed += names
    assert len(set(changed)) == len(keys)


def _table(path: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads(path.read_text())


def test_environment_variables_are_still_named_in_the_source() -> None:
    text = "\n".join(
        Path(module.__file__).read_text() for module in modules() if module.__file__ and module.__package__
    )
    names = ["FIELDMOUSE_BOARD", "FIELDMOUSE_NOTIFY_KEY"]
    check_superset("environment", [name for name in names if name in text])
