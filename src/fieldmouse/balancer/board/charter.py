"""Specification of a crawl, stored on each of its servers, and its format version."""

from __future__ import annotations

from dataclasses import dataclass

from fieldmouse.errors import BoardError

FORMAT = 1
"""Format of the coordinator's data. Raised when older versions could not read it, or would corrupt it."""


@dataclass(frozen=True, slots=True)
class Charter:
    """Specification of a crawl. The first agent writes it."""

    key_seed: int
    settings: str  # TOML: settings of the crawl, not of a machine
    seeds: tuple[str, ...]
    made_by: str = ""
    servers: tuple[str, ...] = ()  # all servers of the crawl if there are several, without passwords
    place: int = 0  # index of this server among them
    format: int = 1  # the first versions did not store it


def newer_format(label: str, format: int, made_by: str) -> BoardError:
    """Error for a crawl that was created by a newer version."""
    return BoardError(
        f"the crawl on the coordinator at {label} has format {format}, {FORMAT} is the newest known",
        f"use the version that created it ({made_by or 'unknown'}), or a newer one",
    )
