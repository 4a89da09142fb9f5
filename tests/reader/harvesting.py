"""Plug-in that makes a row of each page: its title."""

from __future__ import annotations

from collections.abc import Iterator


def titles(page: object) -> Iterator[dict[str, str]]:
    yield {"title": str(page.title)}  # type: ignore[attr-defined]
