"""Read-only check of a crawl directory, with one finding per check.

The newest checkpoint in the journal says how long every file should be. A file that is shorter, does not
match its checksum, or contradicts the others is damaged; a longer one holds work that a resume will do
again. All files are read except the contents of WARC files, which `deep` reads too. Checks may run beside
a crawl.
"""

from __future__ import annotations

from collections.abc import Iterator

from fieldmouse import settings as settings_file
from fieldmouse.crawldir import CrawlDir, identity_in_journal, is_changed, is_open_to_others
from fieldmouse.errors import Damaged, FieldmouseError, typed
from fieldmouse.figures import size
from fieldmouse.reading.examination.archive import look_at_archive
from fieldmouse.reading.examination.books import look_at_frontier, look_at_journal, look_at_outcomes
from fieldmouse.reading.examination.finding import COPY, Finding, Presence, bad, curable, good, presence
from fieldmouse.reading.examination.index import look_at_index
from fieldmouse.reading.examination.parts import look_at_parts
from fieldmouse.reading.examination.snapshot import snapshot
from fieldmouse.settings import Settings

__all__ = ["Finding", "Presence", "examine", "presence"]

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
