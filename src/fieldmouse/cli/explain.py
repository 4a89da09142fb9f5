"""`fieldmouse explain`: what happened to one URL, and why its host waits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from fieldmouse import settings as settings_file
from fieldmouse import url as urls
from fieldmouse.cli import options, voice
from fieldmouse.crawldir import CrawlDir, outcomes
from fieldmouse.errors import UsageError
from fieldmouse.records import HostState, Link, OutcomeRow
from fieldmouse.url import Url

if TYPE_CHECKING:
    from fieldmouse.crawldir import Checkpoint
    from fieldmouse.frontier.lookout import Whereabouts


@click.command(epilog="Example:  fieldmouse explain atlas https://example.org/missing")
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("url")
@options.as_json
def command(directory: Path, url: str, as_json: bool) -> int:
    """Say when URL was seen, from where, what came of it, and how its host stands.

    The answer is as of the last checkpoint; it may be asked while the crawl runs.
    """
    wanted = urls.parse(voice.as_typed(url))
    if wanted is None:
        raise UsageError(f"`{url}` is no URL", "it begins with http:// or https://")
    home = CrawlDir.open(directory)
    story = _look(home, wanted)
    if as_json:
        # These travel as bare lists on disk; a reader of JSON wants their names.
        parts = {
            "outcomes": [msgspec.structs.asdict(row) for row in story.outcomes],
            "waiting": story.waiting and msgspec.structs.asdict(story.waiting),
            "host": story.host and msgspec.structs.asdict(story.host),
        }
        voice.json(msgspec.structs.asdict(story) | parts)
        return 0
    voice.data(wanted)
    for sentence in story.says:
        voice.data(f"  {sentence}")
    return 0


class Story(msgspec.Struct, frozen=True):
    """All that is known of one URL."""

    url: Url
    place: str  # where it is now, in a phrase
    says: list[str]
    outcomes: list[OutcomeRow] = []
    waiting: Link | None = None
    host: HostState | None = None


def _look(home: CrawlDir, url: Url) -> Story:
    from fieldmouse.crawldir import read_checkpoint, sealed_outcomes, sealed_tally
    from fieldmouse.frontier import lookout, sealed_frontier

    for _ in range(3):
        last = read_checkpoint(home)
        if last is None:
            return Story(url, "unknown", ["the crawl has no checkpoint yet, so nothing is known"])
        try:
            found = lookout.look(home / "frontier", sealed_frontier(last), home.identity.key_seed, url)
            break
        except FileNotFoundError:
            continue  # a running crawl went on to its next checkpoint while we looked
    else:
        return Story(url, "unknown", ["the crawl moves too fast to be looked at; ask again"])
    rows = outcomes.rows_of(home, url, length=sealed_outcomes(last))
    says = [*_origin(rows[0] if rows else found.link), *(sentence for row in rows for sentence in _fate(row))]
    if found.place is lookout.Place.UNKNOWN:
        reasons = [*_scope(home, url), *_dropped(home, found, sealed_tally(last).left_out)]
        reasons = reasons or list(_mentioned(home, url, last))
        says += ["it was never seen as a link to be taken", *reasons]
    elif found.link is not None:
        says += _wait(found.link, found.place.value, found.ahead)
    elif not rows:
        says.append("it is done, and left no outcome, which is a bug in fieldmouse: please report it")
    says += _host(url, found.host)
    return Story(url, found.place.value, says, rows, found.link, found.host)


def _origin(first: OutcomeRow | Link | None) -> Iterator[str]:
    if first is None:
        return
    seen = f"seen {voice.when(first.seen_at)}" if first.seen_at else "seen"
    came = f"on {first.via}, {first.depth} links away from a seed" if first.via else "as a seed"
    yield f"{seen} {came}"


def _fate(row: OutcomeRow) -> Iterator[str]:
    at = voice.when(row.at)
    status = f" with status {row.status}" if row.status else ""
    detail = f" ({row.detail})" if row.detail else ""
    match row.kind:
        case "page":
            title = f' "{row.title}"' if row.title else ""
            yield f"fetched {at}{status}:{title} {row.mime}, {voice.size(row.size)}"
            if row.detail:
                yield f"read with this trouble: {row.detail}"
            if row.warc:
                yield f"kept in archive/{row.warc} at byte {row.offset}"
            if row.duplicate_of:
                yield f"the same bytes as {row.duplicate_of}"
            elif row.near_duplicate_of:
                yield f"almost the same words as {row.near_duplicate_of}"
            if not row.indexed:
                yield "not in the full-text index, because the page asked for that or holds no text"
        case "unchanged":
            yield f"asked again {at}: unchanged"
        case "moved":
            yield f"moved{status} at {at}, to {row.target}"
        case "forgiven":
            yield f"forgiven {at}, and to be asked for again: {row.reason} was taken back"
        case "refused":
            yield f"not asked for, {at}: {row.reason}{detail}"
        case _:
            tries = f", after {row.tries + 1} tries" if row.tries else ""
            yield f"failed {at}{status}{tries}: {row.reason}{detail}"


def _wait(link: Link, place: str, ahead: int) -> Iterator[str]:
    behind = f", behind {voice.number(ahead)} others" if ahead else ""
    yield f"waiting: {place}{behind}"
    if link.tries:
        yield f"failed {link.tries} times so far"
    if link.not_before > time.time():
        yield f"will be tried again {_later(link.not_before)}"


def _host(url: Url, host: HostState | None) -> Iterator[str]:
    name = urls.host_of(url)
    if host is None:
        yield f"its host {name} was never met"
        return
    where = f" at {host.address}" if host.address else ", whose address is not known yet,"
    yield f"its host {name}{where} has given {voice.number(host.pages)} pages"
    if host.verdict:
        why = f" ({host.detail})" if host.detail else ""
        yield f"the host's other URLs are answered without asking: {host.verdict}{why}"
    if host.crawl_delay:
        yield f"its robots.txt asks for {voice.duration(host.crawl_delay)} between requests"
    if host.failures:
        yield f"the host failed {host.failures} times in a row and is kept quiet for longer each time"
    if host.put_off:
        yield f"trouble of our own network or DNS kept us from asking it {host.put_off} times in a row"
    for what, at in (("the host", host.ready_at), ("its address", host.address_ready_at)):
        if at > time.time():
            yield f"{what} rests and may be asked again {_later(at)}"


def _later(at: float) -> str:
    return f"in {voice.duration(at - time.time())}, at {voice.when(at)}"


def _dropped(home: CrawlDir, found: Whereabouts, left_out: int) -> Iterator[str]:
    """Whether a link to it would have been dropped, as its site and its crawl stand now."""
    from fieldmouse.policy.sitelimits import DropRule
    from fieldmouse.settings.rules import site_limits_of

    limits = site_limits_of(settings_file.load(home / "fieldmouse.toml"))
    rule = None
    if found.site:
        rule = limits.refused(found.site_hosts, found.site_urls, new_host=found.host is None)
    if rule is not None:
        has = f"{voice.number(found.site_urls)} URLs"
        if rule is DropRule.HOSTS:
            has = f"{voice.number(found.site_hosts)} hosts, and its own is not one of them"
        yield f"links to it are dropped: its site {found.site} has {has} ({rule.value})"
    if left_out:
        yield (
            f"{voice.number(left_out)} links were left where they were found, since their page had too many"
            f" ({DropRule.LINKS.value}); it may be one of them"
        )


def _mentioned(home: CrawlDir, url: Url, last: Checkpoint) -> Iterator[str]:
    """Who links to it and why that was not followed, as the archive tells."""
    from fieldmouse.crawldir import sealed_outcomes
    from fieldmouse.indexer.mentions import mentions_of
    from fieldmouse.indexer.wire import sealed_shards

    search = mentions_of(home / "archive", sealed_shards(last), url)
    deepest = settings_file.load(home / "fieldmouse.toml").crawl.max_depth
    for mention in search.mentions:
        why = mention.rule
        rows = outcomes.rows_of(home, mention.page, length=sealed_outcomes(last))
        if not why and rows and deepest is not None and rows[-1].depth >= deepest:
            why = f"it would be {rows[-1].depth + 1} links away from a seed (`crawl.max_depth` is {deepest})"
        why = why or "nothing speaks against it; it may have been taken since the last checkpoint"
        yield f"{mention.page} links to it: {why}"
    if not search.mentions:
        read = "the stored pages" if search.complete else "the pages that were looked through (not all)"
        yield f"none of {read} has a link to it"


def _scope(home: CrawlDir, url: Url) -> Iterator[str]:
    """Whether it would have been taken, had it been seen."""
    from fieldmouse.policy.traps import trap_of
    from fieldmouse.settings.rules import scope_of, seeds_of, traps_of

    asked = settings_file.load(home / "fieldmouse.toml")
    seeds = seeds_of(asked)
    scope = scope_of(asked, seeds)
    rule = scope.refused_by(url)
    if rule and rule != "scope.mode":
        yield f"it is left out by `{rule}`"
        return
    if rule:
        around = ", ".join(seeds[:3]) + ("" if len(seeds) <= 3 else ", ...")
        yield f'it is out of scope, which is "{asked.scope.mode}" around {around}'
        return
    trap = trap_of(url, traps_of(asked), time.time())
    if trap:
        yield f"it is left out as a trap: {trap}"
