"""Comparison with golden files, and discovery of what the packages define."""

from __future__ import annotations

import importlib
import io
import json
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "fence"
WRITING = bool(os.environ.get("FENCE_WRITE"))
PACKAGES = ("fieldmouse", "fieldmouse_lab")
COMMAND = str(Path(sys.executable).with_name("fieldmouse"))


def golden(name: str, present: Any) -> Any:
    """What the golden JSON file holds; `present`, if it is to be written anew."""
    path = DATA / f"{name}.json"
    if WRITING:
        path.write_text(json.dumps(present, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    return json.loads(path.read_text())


def golden_lines(name: str, present: list[str]) -> list[str]:
    """The lines of the golden text file; those of `present`, sorted, if it is to be written anew."""
    path = DATA / f"{name}.txt"
    if WRITING:
        path.write_text("".join(f"{line}\n" for line in sorted(present)))
    return path.read_text().splitlines()


def check_superset(name: str, present: list[str]) -> None:
    """Every line of the golden file is present, as often as there; more is allowed."""
    missing = Counter(golden_lines(name, present)) - Counter(present)
    assert not missing, f"gone, though tests/data/fence/{name}.txt has them: {sorted(missing.elements())}"


def check_same(name: str, present: set[str]) -> None:
    """What is present is exactly what the golden file lists."""
    listed = set(golden_lines(name, list(present)))
    gone, new = sorted(listed - present), sorted(present - listed)
    assert not gone, f"gone, though tests/data/fence/{name}.txt has them: {gone}"
    assert not new, f"new, and not in tests/data/fence/{name}.txt: {new}"


@cache
def modules() -> tuple[ModuleType, ...]:
    """Every module of the packages that can be imported with what is installed."""
    found = []
    for package in PACKAGES:
        try:
            root = importlib.import_module(package)
        except ModuleNotFoundError:
            continue
        found.append(root)
        names = [each.name for each in pkgutil.walk_packages(root.__path__, f"{package}.")]
        found += [importlib.import_module(name) for name in names if not name.endswith(".__main__")]
    return tuple(found)


def classes(base: type) -> list[type[Any]]:
    """The classes of the packages that derive from `base`, in the order of their modules."""
    found = {}
    for module in modules():
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__:
                found[value] = None
    return list(found)


@cache
def main() -> Callable[[list[str]], None]:
    """The function behind the `fieldmouse` command, as pyproject.toml names it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["scripts"]["fieldmouse"].partition(":")
    function: Callable[[list[str]], None] = getattr(importlib.import_module(module), name)
    return function


def ask(*words: object, expect: int = 0) -> Any:
    """What a command that only reads prints with `--json`; it runs in this process, which is quicker."""
    code, said = say(*words, "--json")
    assert code == expect, said
    return json.loads(said)


def say(*words: object) -> tuple[int, str]:
    """The exit code of a command, and what it prints on stdout."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    with redirect_stdout(stream), pytest.raises(SystemExit) as left:
        main()([*map(str, words)])
    return int(left.value.code or 0), raw.getvalue().decode()


def run(*words: object, expect: int = 0) -> Any:
    """What a command that crawls prints with `--json`; it runs in a process of its own."""
    words = (COMMAND, *words, "--json")
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def key_paths(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all keys with the type of what they hold: `hits[].score number`."""
    match value:
        case dict():
            yield f"{path or '.'} object"
            for key, inner in value.items():
                yield from key_paths(inner, f"{path}.{key}")
        case list():
            yield f"{path or '.'} array"
            for inner in value:
                yield from key_paths(inner, f"{path}[]")
        case bool():
            yield f"{path or '.'} boolean"
        case int() | float():
            yield f"{path or '.'} number"
        case None:
            yield f"{path or '.'} null"
        case _:
            yield f"{path or '.'} string"


def normalised(text: str) -> str:
    """`text` with digits and hashes replaced, so that it is the same each time."""
    text = re.sub(r"(?<![A-Za-z0-9])[0-9a-f]{8,}(?![A-Za-z0-9])", "HASH", text)
    return re.sub(r"\d+", "N", text)


def plain(value: object) -> Any:
    """A default value as JSON shows it."""
    return msgspec.to_builtins(value, enc_hook=lambda odd: f"a {type(odd).__name__}")
