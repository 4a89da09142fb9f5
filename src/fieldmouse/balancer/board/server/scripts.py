"""The scripts that a Redis board runs on its server, each of which says at its head what it promises.

They lie beside this module as Lua. A script names the pieces it is made of in its first line
(`-- uses: begin rows`); here they are put together, once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_USES = "-- uses: "


@dataclass(frozen=True, slots=True)
class BoardScript:
    """A script as the server gets it, and the digest by which it is called afterwards."""

    name: str
    text: str
    digest: str


@cache
def script(name: str) -> BoardScript:
    """The script of that name, with the pieces that it uses before it."""
    body = _piece(name)
    first = body.partition("\n")[0]
    pieces = first.removeprefix(_USES).split() if first.startswith(_USES) else []
    text = "\n".join([*map(_piece, pieces), body])
    return BoardScript(name, text, hashlib.sha1(text.encode()).hexdigest())


@cache
def _piece(name: str) -> str:
    return (files(__package__) / "lua" / f"{name}.lua").read_text()
