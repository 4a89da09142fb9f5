"""What all agents of a crawl have in common, as it stands on each of its servers, and in which format."""

from __future__ import annotations

from dataclasses import dataclass

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


def newer_format(label: str, format: int, made_by: str) -> BoardError:
    """The crawl was begun by a newer version."""
    return BoardError(
        f"the crawl on the board at {label} has format {format}, {FORMAT} is the newest known",
        f"use the version that began it ({made_by or 'unknown'}), or a newer one",
    )
