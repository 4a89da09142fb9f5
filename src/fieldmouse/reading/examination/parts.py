"""Checks of the remaining checkpoint parts: their files exist and are long enough; logs are read.

The page table is checked further. It is derived from the outcome log, so damage to it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fieldmouse.crawldir import Checkpoint, CrawlDir, records, sealed_scope
from fieldmouse.errors import Damaged
from fieldmouse.figures import counted
from fieldmouse.reading.examination.finding import COPY, Finding, bad, good
from fieldmouse.reading.moment import look_until
from fieldmouse.refresh.reading import LEDGER, check_ledger

_READ_BY_OTHERS = {"frontier", "outcomes", "shards", "tally"}
"""Parts whose records are read and verified by other checks."""
_LOGS = {"board", "unbooked", "held"}
_NEW_AGENT = (
    f"{COPY}, or begin another one with `fieldmouse agent`: other agents fetch the URLs that"
    " this one had not acknowledged, and its pages can be read where they are"
)
_REMEDIES = {"board": _NEW_AGENT}


def look_at_parts(home: CrawlDir) -> Iterator[Finding]:
    """Check the parts of the newest checkpoint; no findings if there is none."""
    seen = look_until(home, lambda last: (last, dict(_wounds(home, last))), lambda seen: not seen[1])
    if seen is None:
        return
    last, wounds = seen
    for name in sorted(last.parts.keys() - _READ_BY_OTHERS):
        if name == LEDGER:
            yield _ledger(home, last)
            continue
        hurt = [(file, says) for (part, file), says in wounds.items() if part == name]
        for file, says in hurt:
            yield bad(name, f"`{file}` is damaged: {says}", _REMEDIES.get(name, COPY), file)
        if not hurt:
            files = counted(len(last.parts[name].files), "file")
            checked = "every record whole" if _is_read(name, last) else "of the length in the journal"
            yield good(name, f"{files}, {checked}")


def _ledger(home: CrawlDir, last: Checkpoint) -> Finding:
    again = "nothing is lost: the next refresh reads it again from `outcomes.log`"
    try:
        pages = check_ledger(home, last)
    except Damaged as trouble:
        return good(LEDGER, f"{trouble}; {again}")
    files = counted(len(last.parts[LEDGER].files), "file")
    return good(LEDGER, f"{files}, whole: {counted(pages, 'URL')} that may be polled")


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
            elif _is_read(name, last) and (says := _torn(home / file, length)):
                yield (name, file), says


def _is_read(name: str, last: Checkpoint) -> bool:
    """Whether it is a log that a resume reads; held links are read only while the scope may still grow."""
    return name in _LOGS and (name != "held" or sealed_scope(last).open)


def _torn(path: Path, length: int) -> str:
    """Description of the damage to a log; "" if it is whole."""
    try:
        for _ in records(path, length=length):
            pass
    except Damaged as trouble:
        return str(trouble).partition("is damaged: ")[2]
    return ""
