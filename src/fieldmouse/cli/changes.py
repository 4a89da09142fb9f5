"""`fieldmouse changes`: what is new, changed, gone or moved, and how two versions of a page differ."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from fieldmouse.cli import options, voice
from fieldmouse.cli.differing import lines_of
from fieldmouse.errors import UsageError
from fieldmouse.figures import percentage

if TYPE_CHECKING:
    from fieldmouse.crawldir.news import Change
    from fieldmouse.reading import ReadingRoom, ReadingRooms

    Crawls = ReadingRoom | ReadingRooms

KINDS = ("new", "changed", "gone", "moved")


@click.command(
    epilog="""\b
Examples:
  fieldmouse changes atlas --since 1d
  fieldmouse changes atlas --host docs.example.org --kind new --kind gone --json
  fieldmouse changes atlas --diff https://example.org/terms
  fieldmouse changes atlas --diff https://example.org/terms --from 2026-11-01 --to -1
  fieldmouse changes atlas --versions https://example.org/terms
  fieldmouse changes atlas --propose-rules
  fieldmouse changes agent-1 --with agent-2 --with agent-3 --since 7d"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--since", metavar="T", help="Only what was seen since then: 1d, 12h, 2026-11-16.")
@click.option("--host", metavar="H", help="Only pages of this host and of those below it.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only these; may be repeated.")
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Only the newest N.")
@click.option("--diff", "diffed", metavar="URL", help="Show how two stored versions of this page differ.")
@click.option("--from", "old", metavar="V", help="With --diff: the older version, by number or time.")
@click.option("--to", "new", metavar="V", help="With --diff: the newer version, by number or time.")
@click.option("--versions", "versioned", metavar="URL", help="List the stored versions of this page.")
@click.option(
    "--propose-rules", "proposing", is_flag=True, help="Suggest rules for what differs at every look."
)
@options.also
@options.as_json
def command(
    directory: Path, since: str | None, host: str | None, kinds: tuple[str, ...], limit: int | None,
    diffed: str | None, old: str | None, new: str | None, versioned: str | None, proposing: bool,
    others: tuple[Path, ...], as_json: bool,
) -> int:  # fmt: skip
    """List what changed on the sites of the crawl in DIRECTORY, oldest first.

    A page is new if it was found after the first crawl was over, or is back after it was
    gone. It has changed if a reader would say so: what differs at every look (dates,
    counters, tokens) is learned and left out, and so is what the rules in `[noise]` ignore.
    Changes are found by `fieldmouse refresh`. The list may be asked for while that runs.

    With --with several crawls are one: what two of them saw is told once, a page is new
    only if none had it, and a page's versions are those of all.
    """
    room = options.opened(directory, others)
    if sum(map(bool, (diffed, versioned, proposing))) > 1:
        raise UsageError("--diff, --versions and --propose-rules are three questions", "ask one at a time")
    if (old is not None or new is not None) and not diffed:
        raise UsageError("--from and --to say which versions --diff compares", "add --diff URL")
    if diffed:
        return _show_difference(room, voice.as_typed(diffed), old, new, as_json)
    if versioned:
        return _list_versions(room, voice.as_typed(versioned), as_json)
    if proposing:
        return _propose(directory, others, host, as_json)
    return _list(room, since, host, kinds, limit, as_json)


def _list(
    room: Crawls, since: str | None, host: str | None, kinds: tuple[str, ...], limit: int | None,
    as_json: bool,
) -> int:  # fmt: skip
    from fieldmouse.reading.dates import read_moment

    moment = None if since is None else read_moment(since, time.time())
    changes = (one for one in _placed(room, moment, host) if not kinds or one[1].kind in kinds)
    # What became durable together stands in the log by worker, not by time.
    told = sorted(changes if limit is None else deque(changes, limit), key=lambda one: one[1].at)
    if as_json:
        voice.json([_plain(where, change) for where, change in told])
        return 0
    after = f" since {voice.when(round(moment))}" if moment is not None else ""
    if not told:
        rooms = _rooms(room)
        voice.say(f"nothing is told to have changed in {_named(room)}{after}")
        if not any(one.status().polls for one in rooms):
            voice.hint(f"no page was looked at twice so far: `{rooms[0].way_to_poll}` does")
        return 0
    for line in voice.columns([_cells(where, change) for where, change in told], right={2}):
        voice.data(line[: voice.width()])
    counted = Counter(change.kind.value for _, change in told)
    voice.say(", ".join(f"{voice.number(counted[kind])} {kind}" for kind in KINDS if counted[kind]) + after)
    return 0


def _placed(room: Crawls, since: float | None, host: str | None) -> Iterator[tuple[Path | None, Change]]:
    """Changes, and of several crawls the one that saw each."""
    from fieldmouse.reading import ReadingRooms

    if isinstance(room, ReadingRooms):
        return room.placed_changes(since, host)
    return ((None, change) for change in room.changes(since, host))


def _rooms(room: Crawls) -> tuple[ReadingRoom, ...]:
    from fieldmouse.reading import ReadingRooms

    return room.rooms if isinstance(room, ReadingRooms) else (room,)


def _named(room: Crawls) -> str:
    return " or ".join(f"`{one.path}`" for one in _rooms(room))


def _plain(where: Path | None, change: Change) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(change)
    return plain if where is None else plain | {"directory": str(where)}


def _cells(where: Path | None, change: Change) -> tuple[str, ...]:
    share = percentage(change.difference) if change.kind == "changed" else ""
    url = f"{change.url} -> {change.target}" if change.target else change.url
    cells = voice.when(round(change.at)), change.kind.value, share, url, " ".join(change.title.split())
    return cells if where is None else (*cells[:3], str(where), *cells[3:])


def _list_versions(room: Crawls, url: str, as_json: bool) -> int:
    from fieldmouse.reading.versions import news_of

    versions = room.versions(url)
    rows = [
        {
            "number": number, "at": version.row.at, "url": version.url, "title": version.title,
            "size": version.size, "news": news.value or "first", "difference": version.row.difference,
            "warc": version.row.warc, "offset": version.row.offset,
        }
        | ({"directory": str(version.directory)} if len(_rooms(room)) > 1 else {})
        for number, (version, news) in enumerate(zip(versions, news_of(versions), strict=True), 1)
    ]  # fmt: skip
    if as_json:
        voice.json(rows)
        return 0
    if not rows:
        voice.say(f"no version of {url} is stored in {_named(room)}")
        return 0
    cells = [
        (str(row["number"]), voice.when(round(version.row.at)), str(row["news"]), voice.size(version.size),
         version.title)
        for row, version in zip(rows, versions, strict=True)
    ]  # fmt: skip
    for line in voice.columns(cells, right={0, 3}):
        voice.data(line[: voice.width()])
    return 0


def _show_difference(room: Crawls, url: str, old: str | None, new: str | None, as_json: bool) -> int:
    told = room.difference(url, old, new)
    if as_json:
        voice.json(
            {
                "url": told.url, "from": told.old.row.at, "to": told.new.row.at, "numbers": told.numbers,
                "difference": told.share, "same": told.same, "text": told.hunks is not None,
                "hunks": [{"old": hunk.old, "new": hunk.new} for hunk in told.hunks or ()],
            }
        )  # fmt: skip
        return 0
    for line in lines_of(told, coloured=voice.coloured()):
        voice.shown(line)
    return 0


def _propose(directory: Path, others: tuple[Path, ...], host: str | None, as_json: bool) -> int:
    from fieldmouse.reading import ReadingRoom

    if others:
        raise UsageError("rules are proposed for one crawl at a time", "leave out --with")
    room = ReadingRoom(directory)
    proposals = room.proposed_rules(host)
    if as_json:
        voice.json(proposals)
        return 0
    if not proposals:
        voice.say("nothing differs at every look, as far as pages were seen four times and more")
        return 0
    voice.data("[noise]")
    voice.data("ignore = [")
    for one in islice(proposals, 100):
        voice.data(f"  # {one.pages} of {one.looked} pages: {' '.join(one.sample.split())[:80]}")
        voice.data(f"  {json.dumps(one.rule, ensure_ascii=False)},")
    voice.data("]")
    voice.say(f"put what you agree with into `{room.path / 'fieldmouse.toml'}`; it works on the past, too")
    return 0
