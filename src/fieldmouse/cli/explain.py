"""`fieldmouse explain`: what happened to one URL, and why its host waits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from fieldmouse.cli import options, voice

if TYPE_CHECKING:
    from fieldmouse.reading.explanation import Explanation
    from fieldmouse.reading.explanations import Explanations


@click.command(
    epilog="""\b
Examples:
  fieldmouse explain atlas https://example.org/missing
  fieldmouse explain agent-1 --with agent-2 --with agent-3 https://example.org/"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("url")
@options.also
@options.as_json
def command(directory: Path, url: str, others: tuple[Path, ...], as_json: bool) -> int:
    """Say when URL was seen, from where, what came of it, and how its host stands.

    The answer is as of the last checkpoint; it may be asked while the crawl runs.
    With --with each crawl says what it knows, and it is told whose copy is shown.
    """
    from fieldmouse.reading import ReadingRoom, ReadingRooms

    asked = voice.as_typed(url)
    if others:
        together = ReadingRooms([directory, *others]).explain(asked)
        if as_json:
            voice.json(_plain_together(together))
        for line in [] if as_json else together.lines:
            voice.data(line)
        return 0
    told = ReadingRoom(directory).explain(asked)
    if as_json:
        voice.json(_plain(told))
        return 0
    voice.data(told.url)
    for sentence in told.says:
        voice.data(f"  {sentence}")
    return 0


def _plain(told: Explanation) -> dict[str, Any]:
    """Rows travel as bare lists on disk; a reader of JSON wants their names."""
    parts = {
        "outcomes": [msgspec.structs.asdict(row) for row in told.outcomes],
        "waiting": told.waiting and msgspec.structs.asdict(told.waiting),
        "host": told.host and msgspec.structs.asdict(told.host),
    }
    return msgspec.structs.asdict(told) | parts


def _plain_together(told: Explanations) -> dict[str, Any]:
    return {
        "url": told.url,
        "place": told.place,
        "directory": told.directory,
        "says": told.says,
        "outcomes": [
            msgspec.structs.asdict(row) | {"directory": directory} for directory, row in told.outcomes
        ],
        "crawls": [{"directory": directory} | _plain(one) for directory, one in told.crawls.items()],
    }
