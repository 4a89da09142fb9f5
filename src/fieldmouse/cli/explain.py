"""`fieldmouse explain`: what happened to one URL, and why its host waits."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from fieldmouse.cli import options, voice


@click.command(epilog="Example:  fieldmouse explain atlas https://example.org/missing")
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("url")
@options.as_json
def command(directory: Path, url: str, as_json: bool) -> int:
    """Say when URL was seen, from where, what came of it, and how its host stands.

    The answer is as of the last checkpoint; it may be asked while the crawl runs.
    """
    from fieldmouse.reading import ReadingRoom

    told = ReadingRoom(directory).explain(voice.as_typed(url))
    if as_json:
        # These travel as bare lists on disk; a reader of JSON wants their names.
        parts = {
            "outcomes": [msgspec.structs.asdict(row) for row in told.outcomes],
            "waiting": told.waiting and msgspec.structs.asdict(told.waiting),
            "host": told.host and msgspec.structs.asdict(told.host),
        }
        voice.json(msgspec.structs.asdict(told) | parts)
        return 0
    voice.data(told.url)
    for sentence in told.says:
        voice.data(f"  {sentence}")
    return 0
