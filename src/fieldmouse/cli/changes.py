"""`fieldmouse changes`: new, changed, gone and moved pages, and differences between versions."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
@click.option("--since", metavar="T", help="List only changes since then: 1d, 12h, 2026-11-16.")
@click.option("--host", metavar="H", help="List only pages of this host and its subdomains.")
@click.option(
    "--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="List only this kind; repeatable."
)
@click.option("--limit", metavar="N", type=click.IntRange(1), help="List only the newest N changes.")
@click.option(
    "--diff", "diffed", metavar="URL", help="Show the difference of two stored versions of this page."
)
@click.option("--from", "old", metavar="V", help="With --diff: the older version, by number or time.")
@click.option("--to", "new", metavar="V", help="With --diff: the newer version, by number or time.")
@click.option("--versions", "versioned", metavar="URL", help="List the stored versions of this page.")
@click.option(
    "--propose-rules", "proposing", is_flag=True, help="Suggest noise rules for parts that always differ."
)
@options.also
@options.as_json
def command(directory: Path, others: tuple[Path, ...], as_json: bool, **given: Any) -> int:
    """List what changed on the sites of the crawl in DIRECTORY, oldest first.

    A page is new if it was found after the first crawl, or came back after it was gone.
    It has changed if a reader would notice: parts that differ at every poll (dates,
    counters, tokens) are learned and left out, and so are parts that `[noise]` ignores.
    Changes are found by `fieldmouse refresh`. The command may run at the same time.

    With --with several crawls are read as one: a change that two of them saw is listed
    once, a page is new only if no crawl had it, and its versions are those of all.
    """
    room = options.opened(directory, others)
    diffed, versioned, proposing = given["diffed"], given["versioned"], given["proposing"]
    if sum(map(bool, (diffed, versioned, proposing))) > 1:
        raise UsageError("--diff, --versions and --propose-rules exclude each other", "give one of them")
    if (given["old"] is not None or given["new"] is not None) and not diffed:
        raise UsageError("--from and --to need --diff", "add --diff URL")
    if diffed:
        return _show_difference(room, voice.as_typed(diffed), given["old"], given["new"], as_json)
    if versioned:
        return _list_versions(room, voice.as_typed(versioned), as_json)
    if proposing:
        return _propose(directory, others, given["host"], as_json)
    return _list(room, given, as_json)


def _list(room: Crawls, given: Mapping[str, Any], as_json: bool) -> int:
    from fieldmouse.reading.dates import read_moment

    kinds, limit = given["kinds"], given["limit"]
    moment = None if given["since"] is None else read_moment(given["since"], time.time())
    placed = (pair for pair in _placed(room, moment, given["host"]) if not kinds or pair[1].kind in kinds)
    # Within one checkpoint the log is ordered by worker, not by time.
    changes = sorted(placed if limit is None else deque(placed, limit), key=lambda pair: pair[1].at)
    if as_json:
        voice.json([_plain(where, change) for where, change in changes])
        return 0
    after = f" since {voice.when(round(moment))}" if moment is not None else ""
    if not changes:
        rooms = _rooms(room)
        voice.say(f"no change is recorded in {_named(room)}{after}")
        if not any(each.status().polls for each in rooms):
            voice.hint(f"no page was polled yet; poll them with `{rooms[0].way_to_poll}`")
        return 0
    for line in voice.columns([_cells(where, change) for where, change in changes], right={2}):
        voice.data(line[: voice.width()])
    counted = Counter(change.kind.value for _, change in changes)
    voice.say(", ".join(f"{voice.number(counted[kind])} {kind}" for kind in KINDS if counted[kind]) + after)
    return 0


def _placed(room: Crawls, since: float | None, host: str | None) -> Iterator[tuple[Path | None, Change]]:
    """Changes, each with the directory of its crawl if there are several."""
    from fieldmouse.reading import ReadingRooms

    if isinstance(room, ReadingRooms):
        return room.placed_changes(since, host)
    return ((None, change) for change in room.changes(since, host))


def _rooms(room: Crawls) -> tuple[ReadingRoom, ...]:
    from fieldmouse.reading import ReadingRooms

    return room.rooms if isinstance(room, ReadingRooms) else (room,)


def _named(room: Crawls) -> str:
    return " or ".join(f"`{each.path}`" for each in _rooms(room))


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
    rows = []
    for number, (version, news) in enumerate(zip(versions, news_of(versions), strict=True), 1):
        row: dict[str, object] = {"number": number, "at": version.row.at, "url": version.url}
        row |= {"title": version.title, "size": version.size, "news": news.value or "first"}
        row |= {name: getattr(version.row, name) for name in ("difference", "warc", "offset")}
        rows.append(row | ({"directory": str(version.directory)} if len(_rooms(room)) > 1 else {}))
    if as_json:
        voice.json(rows)
        return 0
    if not rows:
        voice.say(f"no version of {url} is stored in {_named(room)}")
        return 0
    cells = []
    for row, version in zip(rows, versions, strict=True):
        at, size = voice.when(round(version.row.at)), voice.size(version.size)
        cells.append((str(row["number"]), at, str(row["news"]), size, version.title))
    for line in voice.columns(cells, right={0, 3}):
        voice.data(line[: voice.width()])
    return 0


def _show_difference(room: Crawls, url: str, old: str | None, new: str | None, as_json: bool) -> int:
    difference = room.difference(url, old, new)
    if as_json:
        versions = {"from": difference.old.row.at, "to": difference.new.row.at, "numbers": difference.numbers}
        result = {
            "difference": difference.share,
            "same": difference.same,
            "text": difference.hunks is not None,
        }
        hunks = [{"old": hunk.old, "new": hunk.new} for hunk in difference.hunks or ()]
        voice.json({"url": difference.url, **versions, **result, "hunks": hunks})
        return 0
    for line in lines_of(difference, coloured=voice.coloured()):
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
        voice.say("no part of a page differs at every poll, among pages polled at least four times")
        return 0
    voice.data("[noise]")
    voice.data("ignore = [")
    for proposal in islice(proposals, 100):
        sample = " ".join(proposal.sample.split())[:80]
        voice.data(f"  # {proposal.pages} of {proposal.looked} pages: {sample}")
        voice.data(f"  {json.dumps(proposal.rule, ensure_ascii=False)},")
    voice.data("]")
    voice.say(f"copy useful rules to `{room.path / 'fieldmouse.toml'}`; they apply to past changes, too")
    return 0
