"""Reasons why a requested URL was never taken: rules, limits, and links in the archive.

A robots.txt is never taken either, but is in the archive: the crawler fetches it before the first page of
a host, without a link to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fieldmouse import settings as settings_file
from fieldmouse.crawldir import CrawlDir, outcomes, sealed_scope
from fieldmouse.figures import counted
from fieldmouse.frontier.lookout import Whereabouts
from fieldmouse.indexer.library import Library
from fieldmouse.policy.sitelimits import DropRule
from fieldmouse.policy.traps import trap_of
from fieldmouse.reading.moment import Checkpoint, sealed_outcomes, sealed_shards, sealed_tally
from fieldmouse.settings import Settings
from fieldmouse.settings.rules import scope_of, seeds_of, site_limits_of, traps_of
from fieldmouse.url import Url, path_of

EXCLUSION = "robots.txt"
"""`Explanation.place` of a host's robots.txt."""


def is_exclusion(url: Url) -> bool:
    return path_of(url) == "/robots.txt"


def of_exclusion(home: CrawlDir, url: Url, last: Checkpoint) -> Iterator[str]:
    """Sentences about a robots.txt. It has no outcome, so its fetches are read from the CDXJ lines."""
    yield "it is asked for before the host's pages, and counts neither as a page nor as seen"
    entries = list(Library(home / "archive", sealed_shards(last)).lines_of(url))
    for stamp, entry in entries:
        day, hour = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}", f"{stamp[8:10]}:{stamp[10:12]}:{stamp[12:14]}"
        kept = f"kept in archive/{entry.filename} at byte {entry.offset}"
        yield f"fetched {day}T{hour}Z with status {entry.status}, {kept}"
    if not entries:
        yield "no answer to it is kept"


def reasons(home: CrawlDir, url: Url, found: Whereabouts, last: Checkpoint, now: float) -> list[str]:
    """Sentences that say why the URL was not taken; the archive is read only if no rule applies."""
    settings = settings_file.load(home / "fieldmouse.toml")
    rules = [*_scope(settings, url, last, now), *_dropped(settings, found, sealed_tally(last).left_out)]
    return rules or list(_mentioned(home, settings, url, last))


def _scope(settings: Settings, url: Url, last: Checkpoint, now: float) -> Iterator[str]:
    """The scope rule or trap that excludes the URL."""
    joined = sealed_scope(last).joined
    seeds = seeds_of(settings)
    rule = scope_of(settings, seeds).joined(joined).refused_by(url)
    seeds += joined
    if rule and rule != "scope.mode":
        yield f"it is left out by `{rule}`"
        return
    if rule:
        around = ", ".join(seeds[:3]) + ("" if len(seeds) <= 3 else ", ...")
        yield f'it is out of scope, which is "{settings.scope.mode}" around {around}'
        return
    trap = trap_of(url, traps_of(settings), now)
    if trap:
        yield f"it is left out as a trap: {trap}"


def _dropped(settings: Settings, found: Whereabouts, left_out: int) -> Iterator[str]:
    """Limits that drop links to the URL, given the present size of its site and the crawl."""
    rule = None
    if found.site:
        limits = site_limits_of(settings)
        rule = limits.refused(found.site_hosts, found.site_urls, new_host=found.host is None)
    if rule is not None:
        has = counted(found.site_urls, "URL")
        if rule is DropRule.HOSTS:
            has = f"{counted(found.site_hosts, 'host')}, and its own is not one of them"
        yield f"links to it are dropped: its site {found.site} has {has} ({rule.value})"
    if left_out:
        were = "link was left where it was" if left_out == 1 else "links were left where they were"
        page = "its page" if left_out == 1 else "their page"
        yield (
            f"{left_out:,} {were} found, since {page} had too many ({DropRule.LINKS.value});"
            " it may be one of them"
        )


def _mentioned(home: CrawlDir, settings: Settings, url: Url, last: Checkpoint) -> Iterator[str]:
    """Archived pages that link to the URL, and why each link was not followed."""
    from fieldmouse.indexer.mentions import mentions_of

    search = mentions_of(home / "archive", sealed_shards(last), url)
    deepest = settings.crawl.max_depth
    for mention in search.mentions:
        why = mention.rule
        rows = outcomes.rows_of(home, mention.page, length=sealed_outcomes(last))
        if not why and rows and deepest is not None and rows[-1].depth >= deepest:
            away = counted(rows[-1].depth + 1, "link")
            why = f"it would be {away} away from a seed (`crawl.max_depth` is {deepest})"
        if not why and settings.plugins.admit:
            why = f"`{settings.plugins.admit}` (`plugins.admit`) may have rejected it"
        why = why or "no rule excludes it; it may have been taken since the last checkpoint"
        yield f"{mention.page} links to it: {why}"
    if not search.mentions:
        read = "the stored pages" if search.complete else "the pages that were looked through (not all)"
        unread = "; documents that only your `plugins.readers` understand were not looked into"
        yield f"none of {read} has a link to it{unread if settings.plugins.readers else ''}"
