"""What all agents of a crawl have in common, as it stands on each of its servers, and in which format."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from fieldmouse.errors import BoardError

FORMAT = 1
"""Of what lies on a board. It is raised when an older fieldmouse could no longer read, or would spoil it."""


@dataclass(frozen=True, slots=True)
class Charter:
    """Whoever comes first writes it."""

    key_seed: int
    settings: str  # TOML: those of the crawl, not of a machine
    seeds: tuple[str, ...]
    made_by: str = ""
    servers: tuple[str, ...] = ()  # all that the crawl lies on, if they are several, without passwords
    place: int = 0  # which of them this is
    format: int = 1  # the first ones did not say


class _FormatOnly(msgspec.Struct, frozen=True):
    format: int = 1
    made_by: str = ""


def read_charter(told: bytes, label: str) -> Charter:
    """A charter as the server of that label has it; raises `MsgspecError` if it is none.

    The format is looked at first: of a newer one nothing else need be as it is today.
    """
    stands = msgspec.json.decode(told, type=_FormatOnly)
    if stands.format > FORMAT:
        raise BoardError(
            f"the crawl on the board at {label} has format {stands.format}, {FORMAT} is the newest known",
            f"use the version that began it ({stands.made_by or 'unknown'}), or a newer one",
        )
    return msgspec.json.decode(told, type=Charter)
