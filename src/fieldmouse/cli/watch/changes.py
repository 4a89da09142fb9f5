"""`fieldmouse changes`: new, changed, gone and moved pages, and differences between versions.

In a difference, removed blocks begin with `-`, added blocks with `+`. A block in which few words changed is
shown as the changed words and the words around them, marked as [-removed-] and {+added+}; on a terminal both
are coloured. The page's text is untrusted and is sanitized, so that it cannot act on the terminal.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from fieldmouse.cli import console, options
from fieldmouse.errors import UsageError
from fieldmouse.formatting import format_percentage, format_time, sanitize

if TYPE_CHECKING:
    from fieldmouse.diff.compare import Hunk
    from fieldmouse.reader.crawl_reader import CrawlReader, MultiCrawlReader
    from fieldmouse.reader.versions import VersionDifference
    from fieldmouse.storage.changes_from_outcomes import Change

    Crawls = CrawlReader | MultiCrawlReader


CONTEXT_WORDS = 6  # words shown on either side of a changed word
MAX_TABLE_CELLS = 250_000  # largest alignment table, in cells: two blocks of 500 words
MAX_BLOCK_CHARS = 2000  # characters shown of one block
MAX_CONTEXT_CHARS = 100  # characters shown of an unchanged block

_RED, _GREEN, _DIM, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[2m", "\x1b[0m"


def difference_lines(difference: VersionDifference, *, coloured: bool) -> Iterator[str]:
    """Lines of the whole difference, with the text of the page sanitized."""

    def ink(colour: str, text: str) -> str:
        return f"{colour}{text}{_PLAIN}" if coloured and text else text

    old, new = difference.numbers
    yield sanitize(difference.url)
    yield ink(_RED, f"--- version {old}, {format_time(round(difference.old.row.at))}")
    yield ink(_GREEN, f"+++ version {new}, {format_time(round(difference.new.row.at))}")
    if difference.hunks is None:
        yield "not text: same bytes" if difference.same else "not text: different bytes"
        return
    if difference.same:
        yield "no difference in the text, except noise and parts that `[noise]` ignores"
        return
    last = None
    for hunk in difference.hunks:
        if hunk.before and hunk.before != last:
            yield ink(_DIM, f"  {_truncate(sanitize(hunk.before), MAX_CONTEXT_CHARS)}")
        yield from _hunk_lines(hunk, ink)
        if hunk.after:
            yield ink(_DIM, f"  {_truncate(sanitize(hunk.after), MAX_CONTEXT_CHARS)}")
        last = hunk.after


def _hunk_lines(hunk: Hunk, ink: Callable[[str, str], str]) -> Iterator[str]:
    if len(hunk.old) == len(hunk.new):
        for old, new in zip(hunk.old, hunk.new, strict=True):
            yield from _changed_block_lines(old, new, ink)
        return
    for block in hunk.old:
        yield ink(_RED, f"- {_truncate(sanitize(block), MAX_BLOCK_CHARS)}")
    for block in hunk.new:
        yield ink(_GREEN, f"+ {_truncate(sanitize(block), MAX_BLOCK_CHARS)}")


def _changed_block_lines(old: str, new: str, ink: Callable[[str, str], str]) -> Iterator[str]:
    """One block that became another: shown word by word if most words stayed."""
    from fieldmouse.diff.compare import diff_segments

    before, now = old.split(), new.split()
    changes = list(diff_segments(before, now, table=MAX_TABLE_CELLS))
    shared = sum(len(step.old) for step in changes if step.equal)
    if 2 * shared < max(len(before), len(now)):
        yield ink(_RED, f"- {_truncate(sanitize(old), MAX_BLOCK_CHARS)}")
        yield ink(_GREEN, f"+ {_truncate(sanitize(new), MAX_BLOCK_CHARS)}")
        return
    parts: list[str] = []
    for place, step in enumerate(changes):
        if step.equal:
            parts.append(_shorten_unchanged(step.old, first=place == 0, last=place == len(changes) - 1))
            continue
        if step.old:
            parts.append(ink(_RED, f"[-{_truncate(sanitize(' '.join(step.old)), MAX_BLOCK_CHARS)}-]"))
        if step.new:
            parts.append(ink(_GREEN, f"{{+{_truncate(sanitize(' '.join(step.new)), MAX_BLOCK_CHARS)}+}}"))
    yield "~ " + " ".join(parts)


def _shorten_unchanged(words: list[str], *, first: bool, last: bool) -> str:
    """Unchanged words, shortened to those next to a changed word."""
    before = [] if first else words[:CONTEXT_WORDS]
    after = [] if last and not first else words[-CONTEXT_WORDS:]
    kept = words if len(words) <= len(before) + len(after) else [*before, "…", *after]
    return sanitize(" ".join(kept))


def _truncate(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


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
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="List only this kind; repeatable.")
@click.option("--limit", metavar="N", type=click.IntRange(1), help="List only the newest N changes.")
@click.option("--diff", "diffed", metavar="URL", help="Show the difference of two stored versions of this page.")
@click.option("--from", "old", metavar="V", help="With --diff: the older version, by number or time.")
@click.option("--to", "new", metavar="V", help="With --diff: the newer version, by number or time.")
@click.option("--versions", "versioned", metavar="URL", help="List the stored versions of this page.")
@click.option("--propose-rules", "proposing", is_flag=True, help="Suggest noise rules for parts that always differ.")
@options.with_option
@options.json_option
def command(
    directory: Path,
    since: str | None,
    host: str | None,
    kinds: tuple[str, ...],
    limit: int | None,
    diffed: str | None,
    old: str | None,
    new: str | None,
    versioned: str | None,
    proposing: bool,
    others: tuple[Path, ...],
    as_json: bool,
) -> None:
    """List what changed on the sites of the crawl in DIRECTORY, oldest first.

    A page is new if it was found after the first crawl, or came back after it was gone.
    It has changed if a reader would notice: parts that differ at every poll (dates,
    counters, tokens) are learned and left out, and so are parts that `[noise]` ignores.
    Changes are found by `fieldmouse refresh`. The command may run at the same time.

    With --with several crawls are read as one: a change that two of them saw is listed
    once, a page is new only if no crawl had it, and its versions are those of all.
    """
    reader = options.open_reader(directory, others)
    if sum(map(bool, (diffed, versioned, proposing))) > 1:
        raise UsageError("--diff, --versions and --propose-rules exclude each other", "give one of them")
    if (old is not None or new is not None) and not diffed:
        raise UsageError("--from and --to need --diff", "add --diff URL")
    if diffed:
        _show_difference(reader, console.decode_argument(diffed), old, new, as_json)
    elif versioned:
        _list_versions(reader, console.decode_argument(versioned), as_json)
    elif proposing:
        _propose_rules(directory, others, host, as_json)
    else:
        _list_changes(reader, since, host, kinds, limit, as_json)


def _list_changes(
    reader: Crawls, since: str | None, host: str | None, kinds: tuple[str, ...], limit: int | None, as_json: bool
) -> None:
    from fieldmouse.reader.user_input import parse_time

    moment = None if since is None else parse_time(since, time.time())
    several = len(reader.rooms) > 1
    placed = (
        (directory if several else None, change)
        for directory, change in reader.changes_with_directory(moment, host)
        if not kinds or change.kind in kinds
    )
    # Within one checkpoint the log is ordered by worker, not by time.
    changes = sorted(placed if limit is None else deque(placed, limit), key=lambda pair: pair[1].at)
    if as_json:
        console.print_json([_plain(where, change) for where, change in changes])
        return
    after = f" since {console.format_time(round(moment))}" if moment is not None else ""
    if not changes:
        console.message(f"no change is recorded in {_quoted_paths(reader)}{after}")
        if not any(each.status().polls for each in reader.rooms):
            console.hint(f"no page was polled yet; poll them with `{reader.rooms[0].poll_command}`")
        return
    for line in console.align_columns([_cells(where, change) for where, change in changes], right={2}):
        console.print_data(line[: console.terminal_width()])
    counted = Counter(change.kind.value for _, change in changes)
    console.message(
        ", ".join(f"{console.format_number(counted[kind])} {kind}" for kind in KINDS if counted[kind]) + after
    )


def _quoted_paths(reader: Crawls) -> str:
    return " or ".join(f"`{path}`" for path in reader.paths)


def _plain(where: Path | None, change: Change) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(change)
    return plain if where is None else plain | {"directory": str(where)}


def _cells(where: Path | None, change: Change) -> tuple[str, ...]:
    share = format_percentage(change.difference) if change.kind == "changed" else ""
    url = f"{change.url} -> {change.target}" if change.target else change.url
    cells = (console.format_time(round(change.at)), change.kind.value, share, url, " ".join(change.title.split()))
    return cells if where is None else (*cells[:3], str(where), *cells[3:])


def _list_versions(reader: Crawls, url: str, as_json: bool) -> None:
    from fieldmouse.reader.versions import content_changes_of

    versions = reader.versions(url)
    rows = []
    for number, (version, news) in enumerate(zip(versions, content_changes_of(versions), strict=True), 1):
        row: dict[str, object] = {"number": number, "at": version.row.at, "url": version.url}
        row |= {"title": version.title, "size": version.size, "news": news.value or "first"}
        row |= {name: getattr(version.row, name) for name in ("difference", "warc", "offset")}
        rows.append(row | ({"directory": str(version.directory)} if len(reader.rooms) > 1 else {}))
    if as_json:
        console.print_json(rows)
        return
    if not rows:
        console.message(f"no version of {url} is stored in {_quoted_paths(reader)}")
        return
    cells = []
    for row, version in zip(rows, versions, strict=True):
        at, size = console.format_time(round(version.row.at)), console.format_size(version.size)
        cells.append((str(row["number"]), at, str(row["news"]), size, version.title))
    for line in console.align_columns(cells, right={0, 3}):
        console.print_data(line[: console.terminal_width()])


def _show_difference(reader: Crawls, url: str, old: str | None, new: str | None, as_json: bool) -> None:
    difference = reader.difference(url, old, new)
    if as_json:
        versions = {"from": difference.old.row.at, "to": difference.new.row.at, "numbers": difference.numbers}
        result = {"difference": difference.share, "same": difference.same, "text": difference.hunks is not None}
        hunks = [{"old": hunk.old, "new": hunk.new} for hunk in difference.hunks or ()]
        console.print_json({"url": difference.url, **versions, **result, "hunks": hunks})
        return
    for line in difference_lines(difference, coloured=console.use_colours()):
        console.print_sanitized(line)


def _propose_rules(directory: Path, others: tuple[Path, ...], host: str | None, as_json: bool) -> None:
    from fieldmouse.reader.crawl_reader import CrawlReader

    if others:
        raise UsageError("rules are proposed for one crawl at a time", "leave out --with")
    reader = CrawlReader(directory)
    proposals = reader.propose_noise_rules(host)
    if as_json:
        console.print_json(proposals)
        return
    if not proposals:
        console.message("no part of a page differs at every poll, among pages polled at least four times")
        return
    console.print_lines(["[noise]", "ignore = ["])
    for proposal in islice(proposals, 100):
        sample = " ".join(proposal.sample.split())[:80]
        console.print_data(f"  # {proposal.pages} of {proposal.looked} pages: {sample}")
        console.print_data(f"  {json.dumps(proposal.rule, ensure_ascii=False)},")
    console.print_data("]")
    console.message(f"copy useful rules to `{reader.path / 'fieldmouse.toml'}`; they apply to past changes, too")
