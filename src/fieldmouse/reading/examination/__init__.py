"""Looking a crawl directory over without touching it: one finding per thing that could be wrong.

The journal's newest checkpoint says how long every file should be. Whatever is
shorter, does not match its checksum, or does not agree with the rest is damage;
whatever is longer is work that a resume will do again. All files are read but for
the insides of WARC files, which `deep` reads too. It is safe to run beside a crawl.
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
    """All findings, good and bad. Who holds the lock himself says how it was before."""
    here = here or presence(home)
    owner = here.owner
    if owner == 0:
        says = (
            "a process crawls here now, and its number is not known: the file `lock` was deleted or emptied"
        )
        yield good("lock", says)
    else:
        yield good("lock", "nobody crawls here now" if owner is None else f"process {owner} crawls here now")
    asked = Settings()
    try:
        asked = settings_file.load(home / "fieldmouse.toml")
        if asked.crawl.seeds and asked.secrets and is_open_to_others(home.path):
            names = " and ".join(f"`{name}`" for name in asked.secrets)
            yield bad(
                "settings",
                f"everybody on this machine may read `fieldmouse.toml`, in which {names} may hold a secret",
                f"close it with `chmod 600 {typed(home / 'fieldmouse.toml')}`; the next resume does it, too",
            )
        elif asked.crawl.seeds:
            yield good("settings", "fieldmouse.toml is understood")
        else:  # cut short or emptied, it is still valid, and means a crawl of nothing by default manners
            yield bad("settings", "`fieldmouse.toml` names no seeds, and every crawl has some", _ANEW)
    except (FieldmouseError, OSError, UnicodeDecodeError) as trouble:
        if (home / "fieldmouse.toml").exists():
            hint = trouble.hint if isinstance(trouble, FieldmouseError) else COPY
            yield bad("settings", f"`fieldmouse.toml`: {trouble}", hint)
        else:
            yield bad("settings", "`fieldmouse.toml` is missing", _ANEW, "fieldmouse.toml")
    yield _disk(home, asked)
    try:
        with snapshot(home) as shot:
            yield look_at_journal(home, shot.checkpoint if shot else None, here)
            if shot is None:
                return
            last = shot.checkpoint
            if last.born is not None and is_changed(home.identity, last.born):
                yield _papers(home, "`crawl.json` does not say what the journal knows")
            finding, counts = look_at_outcomes(home, last, owner)
            yield finding
            yield from look_at_frontier(home, shot, counts, owner)
            yield from look_at_parts(home)
    except Damaged as trouble:
        if trouble.path.name == "crawl.json":
            yield _papers(home, str(trouble))
        else:
            yield bad("journal", str(trouble), COPY)
        return
    yield from look_at_archive(home, last, here, deep=deep)
    wanted = counts.indexed if counts else None
    yield from look_at_index(home, last, wanted, here)


def _disk(home: CrawlDir, asked: Settings) -> Finding:
    free = home.free_bytes()
    says = f"{size(free)} are free"
    if free < asked.storage.min_free:
        return bad("disk", f"{says}, less than `storage.min_free`", "make room: a resume would stop at once")
    return good("disk", says)


def _papers(home: CrawlDir, says: str) -> Finding:
    if identity_in_journal(home.path) is None:
        return bad("identity", says, COPY, "crawl.json")
    advice = f"`fieldmouse doctor {typed(home.path)} --repair` writes it again, as the journal knows it"
    return curable("identity", says, advice, "crawl.json")
