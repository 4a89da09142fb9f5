"""Secrets that the settings refer to as `env:NAME` or `file:PATH`.

They are read when a run begins, and no message repeats one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from fieldmouse.errors import SettingsError
from fieldmouse.settings.notify import is_elsewhere

LONGEST = 64 << 10


def reveal(setting: str, place: str, home: Path) -> str:
    """Read the secret at `place`, one line; `setting` is for the error. A path is relative to `home`."""
    where, _, name = place.partition(":")
    if where == "env":
        value = os.environ.get(name, "")
        if not value:
            raise SettingsError(
                f"`notify.{setting}` names the variable {name}, which is not set",
                f"set {name} where you run fieldmouse",
            )
    else:
        path = home / Path(name).expanduser()
        try:
            with path.open("rb") as file:
                value = file.read(LONGEST).decode()
        except (OSError, UnicodeDecodeError) as trouble:
            why = trouble.strerror if isinstance(trouble, OSError) else "it is not text"
            raise SettingsError(
                f"`notify.{setting}` names `{path}`, which cannot be read: {why}",
                "check that the file exists and that you may read it",
            ) from None
    value = value.strip()
    if not value or not value.isprintable():
        raise SettingsError(
            f"what `notify.{setting}` names ({place}) is not one line of text", "write it on one line"
        )
    return value


def revealed(setting: str, value: str, home: Path) -> str:
    """The value of a setting that may be given directly or by its place."""
    return reveal(setting, value, home) if is_elsewhere(value) else value


def without(places: Iterable[str]) -> dict[str, str]:
    """Our environment for child processes, without the secrets in it."""
    hidden = {place.partition(":")[2] for place in places if place.startswith("env:")}
    return {name: value for name, value in os.environ.items() if name not in hidden}
