"""Lua scripts of the Redis coordinator, each with its contract at its head.

They are files beside this module. The first line of a script names the pieces it needs (`-- uses: begin
rows`); they are joined here, once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_USES = "-- uses: "


@dataclass(frozen=True, slots=True)
class BoardScript:
    """A script as sent to the server, and the digest by which it is called afterwards."""

    name: str
    text: str
    digest: str


@cache
def script(name: str) -> BoardScript:
    """Script of that name, after the pieces that it uses."""
    body = _piece(name)
    first = body.partition("\n")[0]
    pieces = first.removeprefix(_USES).split() if first.startswith(_USES) else []
    text = "\n".join([*map(_piece, pieces), body])
    return BoardScript(name, text, hashlib.sha1(text.encode()).hexdigest())


@cache
def _piece(name: str) -> str:
    return (files(__package__) / "lua" / f"{name}.lua").read_text()
