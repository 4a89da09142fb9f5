"""Parts that doctor knows nothing of: the files noted for each are there, and long enough."""

from __future__ import annotations

from collections.abc import Iterator

from fieldmouse.agent.examination.finding import COPY, Finding, bad, good
from fieldmouse.crawldir import Checkpoint, CrawlDir, read_checkpoint

_READ_BY_OTHERS = {"frontier", "outcomes", "shards", "tally"}
"""Each of their records is read elsewhere, by its checksum."""
_TRIES = 20


def look_at_parts(home: CrawlDir, last: Checkpoint, owner: int | None) -> Iterator[Finding]:
    """A running crawl may delete a file soon after a checkpoint that no longer names it: then look again."""
    for _ in range(_TRIES):
        wounds = dict(_wounds(home, last))
        if not wounds or owner is None:
            break
        again = read_checkpoint(home)
        if again is None or again.at == last.at:
            break
        last = again
    for name in sorted(last.parts.keys() - _READ_BY_OTHERS):
        hurt = [(file, says) for (part, file), says in wounds.items() if part == name]
        for file, says in hurt:
            yield bad(name, f"`{file}` is damaged: {says}", COPY, file)
        if not hurt:
            yield good(name, f"{len(last.parts[name].files):,} files, as long as the journal knows them")


def _wounds(home: CrawlDir, last: Checkpoint) -> Iterator[tuple[tuple[str, str], str]]:
    for name, note in last.parts.items():
        for file, length in note.files.items():
            try:
                size = (home / file).stat().st_size
            except FileNotFoundError:
                yield (name, file), "it is missing"
                continue
            if size < length:
                yield (name, file), f"{length:,} bytes were written and synced, {size:,} are there"
