"""Read-only check of a crawl directory, with one finding per check.

The newest checkpoint in the journal says how long every file should be. A file that is shorter, does not
match its checksum, or contradicts the others is damaged; a longer one holds work that a resume will do
again. All files are read except the contents of WARC files, which `deep` reads too. Checks may run beside
a crawl.

The page table is derived from the outcome log, so damage to it costs nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import Settings
from fieldmouse.doctor.check.archive_and_index import check_archive, check_index
from fieldmouse.doctor.check.check_result import (
    RESTORE_FROM_COPY,
    CheckResult,
    CrawlProcess,
    damaged,
    healthy,
    repair_advice,
    repairable,
)
from fieldmouse.doctor.check.frontier_and_outcomes import check_frontier, check_outcomes, open_frontier_files
from fieldmouse.errors import DamagedFile, FieldmouseError, shell_quoted
from fieldmouse.formatting import format_count, format_size
from fieldmouse.frontier.durable_parts import frontier_state_of
from fieldmouse.reader.snapshot import retry_until_whole
from fieldmouse.refresh.page_table import PAGE_TABLE, check_page_table
from fieldmouse.storage import checkpoint
from fieldmouse.storage.directory import CrawlDir, settings_readable_by_others
from fieldmouse.storage.log import read_records

#: Parts whose records are read and verified by other checks.
_READ_BY_OTHERS = {"frontier", "outcomes", "shards", "tally"}
_LOGS = {"board", "unbooked", "held"}
_REMEDIES = {
    "board": f"{RESTORE_FROM_COPY}, or begin another one with `fieldmouse agent`: other agents fetch the URLs that"
    " this one had not acknowledged, and its pages can be read where they are"
}


def check_journal(home: CrawlDir, last: checkpoint.Checkpoint | None, process: CrawlProcess) -> CheckResult:
    resume = f"continue with `{home.resume_command}`"
    report = checkpoint.inspect_journal(home)
    if report.bad:
        spans = ", ".join(f"the record at byte {span.offset} {span.what}" for span in report.bad[:3])
        more = f", and {len(report.bad) - 3} more" if len(report.bad) > 3 else ""
        cost = "a whole one follows, so nothing is lost by it"
        if report.newer_checkpoint_lost:
            cost = "the checkpoint before it counts, and later work will be done again"
        return repairable(
            "journal",
            f"`journal` is damaged: {spans}{more}; {cost}",
            repair_advice(home.path, "repairs it, and so does a resume"),
            "journal",
        )
    if report.torn and process.ended_normally:
        says = "`journal` is damaged: its last record was cut after the crawl had ended"
        return damaged(
            "journal", says, f"{RESTORE_FROM_COPY}; otherwise a resume continues from the checkpoint before it"
        )
    if last is None:
        return healthy("journal", "no checkpoint yet", "" if process.owner else resume)
    says = f"last checkpoint {max(0.0, time.time() - last.at):,.0f} s ago"
    if last.clean and home.is_cluster_agent:  # waiting URLs are on the coordinator
        if not last.stopped_by:
            return healthy("journal", f"{says}; the crawl is done")
        return healthy("journal", f"{says}; this agent was stopped ({last.stopped_by})", resume)
    if last.clean:
        frontier = frontier_state_of(last)
        if not frontier.waiting + frontier.polls:
            return healthy("journal", f"{says}; the crawl is done")
        why = f" ({last.stopped_by})" if last.stopped_by else ""
        return healthy("journal", f"{says}; stopped{why} with work left", resume)
    if process.owner is None:
        return healthy("journal", f"{says}; the crawl was killed since, nothing is lost", resume)
    return healthy("journal", says)


def check_parts(home: CrawlDir) -> Iterator[CheckResult]:
    """Check the parts of the newest checkpoint; no findings if there is none."""
    seen = retry_until_whole(home, lambda last: (last, dict(_damaged_files(home, last))), lambda seen: not seen[1])
    if seen is None:
        return
    last, wounds = seen
    for name in sorted(last.parts.keys() - _READ_BY_OTHERS):
        if name == PAGE_TABLE:
            yield _check_page_table(home, last)
            continue
        hurt = [(file, says) for (part, file), says in wounds.items() if part == name]
        for file, says in hurt:
            yield damaged(name, f"`{file}` is damaged: {says}", _REMEDIES.get(name, RESTORE_FROM_COPY), file)
        if not hurt:
            files = format_count(len(last.parts[name].files), "file")
            checked = "every record whole" if _is_log_read_on_resume(name, last) else "of the length in the journal"
            yield healthy(name, f"{files}, {checked}")


def _check_page_table(home: CrawlDir, last: checkpoint.Checkpoint) -> CheckResult:
    again = "nothing is lost: the next refresh reads it again from `outcomes.log`"
    try:
        pages = check_page_table(home, last)
    except DamagedFile as trouble:
        return healthy(PAGE_TABLE, f"{trouble}; {again}")
    files = format_count(len(last.parts[PAGE_TABLE].files), "file")
    return healthy(PAGE_TABLE, f"{files}, whole: {format_count(pages, 'URL')} that may be polled")


def _damaged_files(home: CrawlDir, last: checkpoint.Checkpoint) -> Iterator[tuple[tuple[str, str], str]]:
    for name, note in last.parts.items():
        for file, length in note.files.items():
            try:
                size = (home / file).stat().st_size
            except FileNotFoundError:
                yield (name, file), "it is missing"
                continue
            if size < length:
                yield (name, file), f"{length:,} bytes were written and synced, {size:,} are there"
            elif _is_log_read_on_resume(name, last) and (says := _log_damage(home / file, length)):
                yield (name, file), says


def _is_log_read_on_resume(name: str, last: checkpoint.Checkpoint) -> bool:
    """Whether it is a log that a resume reads; held links are read only while the scope may still grow."""
    return name in _LOGS and (name != "held" or checkpoint.sealed_scope(last).open)


def _log_damage(path: Path, length: int) -> str:
    """Description of the damage to a log; "" if it is whole."""
    try:
        deque(read_records(path, length=length), maxlen=0)
    except DamagedFile as trouble:
        return str(trouble).partition("is damaged: ")[2]
    return ""


_ANEW = (
    f"{RESTORE_FROM_COPY}, or write it anew with the settings that differ from the defaults: at least `[crawl]` with"
    " its `seeds`, from which the scope follows"
)


def check_crawl(home: CrawlDir, *, deep: bool = False, process: CrawlProcess | None = None) -> Iterator[CheckResult]:
    """All findings, good and bad. A caller that holds the lock passes `process` from before that."""
    process = process or CrawlProcess.of(home)
    owner = process.owner
    unknown = "a process crawls here now, and its id is unknown: the file `lock` was deleted or emptied"
    states = {None: "no process crawls here now", 0: unknown}
    yield healthy("lock", states.get(owner, f"process {owner} crawls here now"))
    settings = Settings()
    try:
        settings = settings_file.load(home / "fieldmouse.toml")
        if settings.crawl.seeds and settings.secret_names and settings_readable_by_others(home.path):
            names = " and ".join(f"`{name}`" for name in settings.secret_names)
            yield damaged(
                "settings",
                f"all users of this machine can read `fieldmouse.toml`, and {names} may hold a secret",
                f"close it with `chmod 600 {shell_quoted(home / 'fieldmouse.toml')}`; the next resume does it, too",
            )
        elif settings.crawl.seeds:
            yield healthy("settings", "fieldmouse.toml is understood")
        # a truncated or empty file is valid TOML, and means a crawl without seeds and with all defaults
        else:
            yield damaged("settings", "`fieldmouse.toml` names no seeds, and every crawl has some", _ANEW)
    except (FieldmouseError, OSError, UnicodeDecodeError) as trouble:
        if (home / "fieldmouse.toml").exists():
            hint = trouble.hint if isinstance(trouble, FieldmouseError) else RESTORE_FROM_COPY
            yield damaged("settings", f"`fieldmouse.toml`: {trouble}", hint)
        else:
            yield damaged("settings", "`fieldmouse.toml` is missing", _ANEW, "fieldmouse.toml")
    yield _check_free_space(home, settings)
    try:
        with open_frontier_files(home) as shot:
            yield check_journal(home, shot.checkpoint if shot else None, process)
            if shot is None:
                return
            last = shot.checkpoint
            if last.born is not None and checkpoint.identity_changed(home.identity, last.born):
                yield _identity_finding(home, "`crawl.json` contradicts the journal")
            finding, counts = check_outcomes(home, last, owner)
            yield finding
            yield from check_frontier(home, shot, counts, owner)
            yield from check_parts(home)
    except DamagedFile as trouble:
        if trouble.path.name == "crawl.json":
            yield _identity_finding(home, str(trouble))
        else:
            yield damaged("journal", str(trouble), RESTORE_FROM_COPY)
        return
    yield from check_archive(home, last, process, deep=deep)
    wanted = counts.indexed if counts else None
    yield from check_index(home, last, wanted, process)


def _check_free_space(home: CrawlDir, settings: Settings) -> CheckResult:
    free = home.free_bytes()
    says = f"{format_size(free)} are free"
    if free < settings.storage.min_free:
        return damaged("disk", f"{says}, less than `storage.min_free`", "make room: a resume would stop at once")
    return healthy("disk", says)


def _identity_finding(home: CrawlDir, says: str) -> CheckResult:
    if checkpoint.identity_in_journal(home.path) is None:
        return damaged("identity", says, RESTORE_FROM_COPY, "crawl.json")
    return repairable("identity", says, repair_advice(home.path, "writes it again from the journal"), "crawl.json")
