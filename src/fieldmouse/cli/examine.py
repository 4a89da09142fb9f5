"""Looking a crawl directory over without touching it: one finding per thing that could be wrong.

The journal's newest checkpoint says how long every file should be; whatever is
shorter, torn before that length, or does not add up is damage, and whatever is
longer is work that a resume will do again. Safe to run beside a crawl.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fieldmouse import settings as settings_file
from fieldmouse.agent import Checkpoint, read_checkpoint
from fieldmouse.cli import outcomes, voice
from fieldmouse.crawldir import CrawlDir
from fieldmouse.errors import Damaged, FieldmouseError, Missing
from fieldmouse.frontier.lookout import count_waiting
from fieldmouse.settings import Settings


class Finding(msgspec.Struct, frozen=True):
    """One thing looked at. `healthy` is False only for what needs mending."""

    what: str
    healthy: bool
    says: str
    advice: str = ""


def examine(home: CrawlDir) -> Iterator[Finding]:
    owner = home.owner()
    if owner is None:
        yield Finding("lock", True, "nobody crawls here now")
    else:
        yield Finding("lock", True, f"process {owner} crawls here now")
    asked = Settings()
    try:
        asked = settings_file.load(home / "fieldmouse.toml")
        yield Finding("settings", True, "fieldmouse.toml is understood")
    except FieldmouseError as trouble:
        yield Finding("settings", False, str(trouble), trouble.hint)
    yield _disk(home, asked)
    try:
        last = read_checkpoint(home)
    except FieldmouseError as trouble:
        yield Finding("journal", False, str(trouble), "restore `journal` from a copy of the directory")
        return
    yield _journal(home, last, owner)
    if last is None:
        return
    try:
        kinds, tails = _read_outcomes(home, last)
    except (Damaged, FileNotFoundError) as trouble:
        yield Finding("outcomes", False, str(trouble), "restore `outcomes.log` from a copy of the directory")
        return
    yield _outcomes(home, last, kinds, owner)
    yield _accounts(home, last)
    yield from _archive(home, last, tails)
    yield _index(home, last, owner)


def _disk(home: CrawlDir, asked: Settings) -> Finding:
    free = home.free_bytes()
    says = f"{voice.size(free)} are free"
    if free < asked.storage.min_free:
        return Finding(
            "disk", False, f"{says}, less than `storage.min_free`", "make room: a resume would stop at once"
        )
    return Finding("disk", True, says)


def _journal(home: CrawlDir, last: Checkpoint | None, owner: int | None) -> Finding:
    resume = f"continue with `fieldmouse resume {home.path}`"
    if last is None:
        return Finding("journal", True, "no checkpoint yet", "" if owner else resume)
    says = f"last checkpoint {voice.duration(max(0.0, time.time() - last.at))} ago"
    if last.clean:
        if last.frontier.sieve.seen == last.frontier.done:
            return Finding("journal", True, f"{says}; the crawl is done")
        why = f" ({last.stopped_by})" if last.stopped_by else ""
        return Finding("journal", True, f"{says}; stopped{why} with work left", resume)
    if owner is None:
        return Finding("journal", True, f"{says}; the crawl was killed since, nothing is lost", resume)
    return Finding("journal", True, says)


def _read_outcomes(home: CrawlDir, last: Checkpoint) -> tuple[Counter[str], dict[str, int]]:
    """How many rows of each kind, and the last record that rows name in each WARC file."""
    kinds: Counter[str] = Counter()
    tails: dict[str, int] = {}
    for row in outcomes.rows(home, length=last.outcomes):
        kinds[row.kind] += 1
        if row.warc:
            tails[row.warc] = max(tails.get(row.warc, 0), row.offset)
    return kinds, tails


def _outcomes(home: CrawlDir, last: Checkpoint, kinds: Counter[str], owner: int | None) -> Finding:
    tally = last.tally
    told = {
        "page": tally.pages, "unchanged": tally.unchanged, "moved": tally.moved,
        "failed": tally.failed, "refused": tally.refused,
    }  # fmt: skip
    for kind, count in told.items():
        if kinds[kind] != count:
            return Finding(
                "outcomes",
                False,
                f"{kinds[kind]} rows say {kind}, the journal counts {count}",
                "this is a bug in fieldmouse: please report it",
            )
    says = f"{voice.number(kinds.total())} rows, whole and as many as the journal counts"
    extra = (home / "outcomes.log").stat().st_size - last.outcomes if last.outcomes else 0
    if extra and owner is None:
        says += f"; {voice.size(extra)} past the checkpoint will be cut and fetched again"
    return Finding("outcomes", True, says)


def _accounts(home: CrawlDir, last: Checkpoint) -> Finding:
    """Every URL the sieve let through is settled, or found where URLs wait: counted, not subtracted."""
    seen, settled = last.frontier.sieve.seen, last.tally.settled
    try:
        waiting = count_waiting(home / "frontier", last.frontier)
    except (FileNotFoundError, Missing):
        return Finding("accounts", True, "not counted: the crawl went on while we looked")
    count = voice.number
    if seen == settled + waiting and last.frontier.done == settled:
        says = f"{count(seen)} URLs seen = {count(settled)} settled + {count(waiting)} waiting"
        return Finding("accounts", True, says)
    says = f"{count(seen)} URLs were seen, but {count(settled)} are settled and {count(waiting)} waiting"
    return Finding("accounts", False, says, "this is a bug in fieldmouse: please report it")


def _archive(home: CrawlDir, last: Checkpoint, tails: dict[str, int]) -> Iterator[Finding]:
    """Each WARC file must be there and end, at its noted length, with a whole record."""
    noted = {state.warc: state.warc_length for state in last.shards if state.warc}
    names = sorted({*tails, *noted})
    total = 0
    for name in names:
        path = home / "archive" / name
        if not path.is_file():
            yield Finding("archive", False, f"`{name}` is missing", "restore it from a copy of the directory")
            return
        end = noted.get(name, path.stat().st_size)
        trouble = _torn(path, tails.get(name, 0), end)
        if trouble:
            says = f"`{name}` is damaged: {trouble}"
            yield Finding("archive", False, says, "restore it from a copy of the directory")
            return
        total += end
    yield Finding("archive", True, f"{len(names)} WARC files, {voice.size(total)}, ending in whole records")


def _torn(path: Path, start: int, end: int) -> str:
    """What is wrong with the gzip members from `start` to `end`; empty if they fit exactly."""
    if path.stat().st_size < end:
        return f"{end} bytes were written, {path.stat().st_size} are there"
    with path.open("rb") as file:
        file.seek(start)
        left, held = end - start, b""
        while left or held:
            member = zlib.decompressobj(31)
            try:
                while not member.eof:
                    if not held:
                        held = file.read(min(left, 1 << 20))
                        left -= len(held)
                        if not held:
                            return "it ends within a record"
                    member.decompress(held)
                    held = member.unused_data
            except zlib.error as trouble:
                return f"a record after byte {start} cannot be read ({trouble})"
    return ""


def _index(home: CrawlDir, last: Checkpoint, owner: int | None) -> Finding:
    from fieldmouse.indexer.search import count

    try:
        held = count(home.path)
    except FieldmouseError as trouble:
        return Finding("index", False, str(trouble), "restore `index` from a copy of the directory")
    says = f"{voice.number(held)} pages can be searched"
    # Behind the last checkpoint of a killed or running crawl the index may be ahead; a resume rolls it back.
    if owner is None and last.clean:
        wanted = sum(row.indexed for row in outcomes.pages(home, length=last.outcomes))
        if held != wanted:
            says = f"{voice.number(held)} pages can be searched, {voice.number(wanted)} were indexed"
            return Finding("index", False, says, "restore `index` from a copy of the directory")
    return Finding("index", True, says)
