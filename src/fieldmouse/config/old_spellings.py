"""Old spellings of settings, options, variables and arguments, with the present ones.

Old spellings are understood wherever they may have been written: on the command line, in `fieldmouse.toml`,
in the environment, in Python, and in the settings stored with a crawl or on a coordinator. They are shown
nowhere: help, documentation, messages and new files have the present spellings only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from fieldmouse.errors import SettingsError

F = TypeVar("F", bound=Callable[..., Any])

SECTIONS = {"robots": "fetch", "board": "cluster"}
#: Settings whose key changed too; the others keep theirs in the new section.
KEYS = {
    "robots.count": "fetch.concurrency",
    "robots.errand_links": "fetch.urls_per_visit",
    "board.keep_booked": "cluster.keep_acked",
}
OPTIONS = {"--robots": "--concurrency", "--board": "--coordinator", "--forgive": "--retry-failed"}
VARIABLES = {"FIELDMOUSE_BOARD": "FIELDMOUSE_COORDINATOR"}
ARGUMENTS = {"robots": "concurrency"}


def present_setting_name(name: str) -> str:
    """Present name of a setting or section.

    >>> [present_setting_name(name) for name in ("robots.count", "robots.keep_alive", "board", "crawl.pages")]
    ['fetch.concurrency', 'fetch.keep_alive', 'cluster', 'crawl.pages']
    """
    section, dot, key = name.partition(".")
    return KEYS.get(name) or SECTIONS.get(section, section) + dot + key


def with_present_names(
    given: Mapping[str, object], name_of: Callable[[str], str] = present_setting_name, where: str = ""
) -> dict[str, object]:
    """`given` under present names; two spellings of one name raise `SettingsError`."""
    values: dict[str, object] = {}
    spelt: dict[str, str] = {}
    for name, value in given.items():
        present = name_of(name)
        if present in spelt:
            old, new = sorted((spelt[present], name), key=lambda each: each == present)
            raise both_spellings_error(old, new, where)
        spelt[present], values[present] = name, value
    return values


def both_spellings_error(old: str, new: str, where: str = "") -> SettingsError:
    """Error about two spellings of one thing, given at once."""
    place = f" in `{where}`" if where else ""
    return SettingsError(f"`{old}` and `{new}`{place} are two names of the same thing", f"keep only `{new}`")


def sections_with_present_names(tables: Mapping[str, object], where: str) -> Mapping[str, object]:
    """Sections of a settings file under present names; an old section is merged into the present one.

    >>> sections_with_present_names({"robots": {"count": 4}, "fetch": {"keep_alive": "5s"}}, "fieldmouse.toml")
    {'fetch': {'concurrency': 4, 'keep_alive': '5s'}}
    """
    for old, new in SECTIONS.items():
        former, present = tables.get(old), tables.get(new, {})
        if isinstance(former, dict) and isinstance(present, dict):
            named = {f"{old}.{key}": value for key, value in former.items()}
            named |= {f"{new}.{key}": value for key, value in present.items()}
            merged = {name.partition(".")[2]: value for name, value in with_present_names(named, where=where).items()}
            tables = {section: table for section, table in tables.items() if section != old} | {new: merged}
    return tables


def accept_old_arguments(function: F) -> F:
    """Let `function` take old keyword arguments too; its signature shows the present ones only."""

    @functools.wraps(function)
    def call(*args: object, **given: object) -> object:
        return function(*args, **with_present_names(given, lambda name: ARGUMENTS.get(name, name)))

    return cast(F, call)
