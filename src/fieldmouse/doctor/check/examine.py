"""Read-only check of a crawl directory, with one finding per check.

The newest checkpoint in the journal says how long every file should be. A file that is shorter, does not match
its checksum, or contradicts the others is damaged; a longer one holds work that a resume will do again. All
files are read except the contents of WARC files, which `deep` reads too. Checks may run beside a crawl.

The page table is derived from the outcome log, so damage to it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import Settings
from fieldmouse.doctor.check.archive import look_at_archive
from fieldmouse.doctor.check.counts import look_at_frontier, look_at_journal, look_at_outcomes
from fieldmouse.doctor.check.finding import COPY, Finding, Presence, bad, curable, good, presence
from fieldmouse.doctor.check.frontier import snapshot
from fieldmouse.doctor.check.index import look_at_index
from fieldmouse.errors import Damaged, FieldmouseError, typed
from fieldmouse.formatting import counted, size
from fieldmouse.reader.snapshot import look_until
from fieldmouse.refresh.page_table import LEDGER, check_ledger
from fieldmouse.storage.checkpoint import Checkpoint, identity_in_journal, is_changed, sealed_scope
from fieldmouse.storage.directory import CrawlDir, is_open_to_others
from fieldmouse.storage.log import records

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


_ANEW = (
    f"{COPY}, or write it anew with the settings that differ from the defaults: at least `[crawl]` with its"
    " `seeds`, from which the scope follows"
)


def examine(home: CrawlDir, *, deep: bool = False, here: Presence | None = None) -> Iterator[Finding]:
    """All findings, good and bad. A caller that holds the lock passes the `presence` from before."""
    here = here or presence(home)
    owner = here.owner
    if owner == 0:
        says = "a process crawls here now, and its id is unknown: the file `lock` was deleted or emptied"
        yield good("lock", says)
    else:
        yield good(
            "lock", "no process crawls here now" if owner is None else f"process {owner} crawls here now"
        )
    settings = Settings()
    try:
        settings = settings_file.load(home / "fieldmouse.toml")
        if settings.crawl.seeds and settings.secrets and is_open_to_others(home.path):
            names = " and ".join(f"`{name}`" for name in settings.secrets)
            yield bad(
                "settings",
                f"all users of this machine can read `fieldmouse.toml`, and {names} may hold a secret",
                f"close it with `chmod 600 {typed(home / 'fieldmouse.toml')}`; the next resume does it, too",
            )
        elif settings.crawl.seeds:
            yield good("settings", "fieldmouse.toml is understood")
        # a truncated or empty file is valid TOML, and means a crawl without seeds and with all defaults
        else:
            yield bad("settings", "`fieldmouse.toml` names no seeds, and every crawl has some", _ANEW)
    except (FieldmouseError, OSError, UnicodeDecodeError) as trouble:
        if (home / "fieldmouse.toml").exists():
            hint = trouble.hint if isinstance(trouble, FieldmouseError) else COPY
            yield bad("settings", f"`fieldmouse.toml`: {trouble}", hint)
        else:
            yield bad("settings", "`fieldmouse.toml` is missing", _ANEW, "fieldmouse.toml")
    yield _disk(home, settings)
    try:
        with snapshot(home) as shot:
            yield look_at_journal(home, shot.checkpoint if shot else None, here)
            if shot is None:
                return
            last = shot.checkpoint
            if last.born is not None and is_changed(home.identity, last.born):
                yield _identity(home, "`crawl.json` contradicts the journal")
            finding, counts = look_at_outcomes(home, last, owner)
            yield finding
            yield from look_at_frontier(home, shot, counts, owner)
            yield from look_at_parts(home)
    except Damaged as trouble:
        if trouble.path.name == "crawl.json":
            yield _identity(home, str(trouble))
        else:
            yield bad("journal", str(trouble), COPY)
        return
    yield from look_at_archive(home, last, here, deep=deep)
    wanted = counts.indexed if counts else None
    yield from look_at_index(home, last, wanted, here)


def _disk(home: CrawlDir, settings: Settings) -> Finding:
    free = home.free_bytes()
    says = f"{size(free)} are free"
    if free < settings.storage.min_free:
        return bad("disk", f"{says}, less than `storage.min_free`", "make room: a resume would stop at once")
    return good("disk", says)


def _identity(home: CrawlDir, says: str) -> Finding:
    if identity_in_journal(home.path) is None:
        return bad("identity", says, COPY, "crawl.json")
    advice = f"`fieldmouse doctor {typed(home.path)} --repair` writes it again from the journal"
    return curable("identity", says, advice, "crawl.json")
