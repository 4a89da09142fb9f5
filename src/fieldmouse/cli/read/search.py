"""`fieldmouse search`: ranked full-text search, also while the crawl runs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fieldmouse.cli import console, options

if TYPE_CHECKING:
    from fieldmouse.search.search import Hit, SnippetPiece


SNIPPET_WIDTH = 96  # columns of a snippet
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


class MinusWordCommand(click.Command):
    """Command whose words may begin with a minus sign.

    Such a word is excluded from the search. Click would read `-hotel` as `-h` and further short options. Only
    `-h` itself shows the help, as in every command.
    """

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        # Not a context setting: click caches the help option of the first context, and a context made
        # elsewhere, such as for a list of all commands, inherits `-h` from its parent.
        return ["--help"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        options = ["--help" if word == "-h" else word for word in args[:end]]
        return super().parse_args(ctx, options + args[end:])


@click.command(
    cls=MinusWordCommand,
    context_settings={"ignore_unknown_options": True},
    epilog="""\b
Examples:
  fieldmouse search atlas meadow mouse
  fieldmouse search atlas '"field mouse"' -computer --limit 3 --json
  fieldmouse search atlas git commit --amend host:docs.example.org
  fieldmouse search atlas --versions price 30 days
  fieldmouse search agent-1 --with agent-2 --with agent-3 meadow mouse""",
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Show at most N results.")
@click.option("--versions", is_flag=True, help="Also search old versions of pages, and pages that are gone.")
@options.with_option
@options.json_option
def command(
    directory: Path, words: tuple[str, ...], limit: int, versions: bool, others: tuple[Path, ...], as_json: bool
) -> None:
    """Search the pages of the crawl in DIRECTORY for WORDS, best match first.

    \b
      mouse field        both words
      '"field mouse"'    these words in this order
      mouse -computer    not this word
      mouse OR vole      one of them
      title:mouse        in the title
      host:example.org   on this host or a subdomain of it

    Every query is valid: punctuation inside a word (don't, std::vector) is
    understood, and a word that begins with two dashes is a word. Words after --
    are never options: `mouse -- -h` excludes the word h, while -h alone shows the
    help. Without results the exit code is 0, and --json prints an empty list.

    Matching words are bold on a terminal. In --json they stand between **.

    With --with the pages of several crawls are ranked together. Only the newest
    copy of a page that several crawls have stored is found.

    With --versions old versions of pages that were changed, moved or gone are found,
    too; each version is a separate result. Old versions are read from the archive,
    which takes about 2 ms each.
    """
    query = console.decode_argument(" ".join(words))
    reader = options.open_reader(directory, others)
    hits: Sequence[Hit] = reader.search(query, limit) if not versions else ()
    more: Sequence[dict[str, object]] = [{}] * len(hits)
    if versions:
        hits = version_hits = reader.search_versions(query, limit)
        more = [{"at": hit.at, "version": hit.version, "newest": hit.newest} for hit in version_hits]
    if as_json:
        console.print_json([_plain(hit, placed=bool(others)) | extra for hit, extra in zip(hits, more, strict=True)])
        return
    if not hits:
        where = " or ".join(f"`{path}`" for path in (directory, *others))
        console.message(f"no page in {where} matches: {query}")
        return
    for place, (hit, version) in enumerate(zip(hits, more, strict=True), 1):
        console.print_data(f"{place:>2}. {hit.title or hit.url}")
        console.print_data(f"    {hit.url}" + (f"  in `{hit.directory}`" if others else ""))
        if versions:
            console.print_data(f"    version {version['version']}, {_when(version)}")
        for line in snippet_lines(hit.pieces, bold=console.use_colours()):
            console.print_sanitized(f"    {line}")


def snippet_lines(pieces: Sequence[SnippetPiece], *, bold: bool) -> Iterator[str]:
    """Wrap a snippet into lines; with `bold`, matching words are bold. The page's text is sanitized."""
    text, marks = "", list[tuple[int, int]]()
    for piece, matches in pieces:
        start, text = len(text), text + console.sanitize(piece)
        if matches:
            marks.append((start, len(text)))
    end = 0
    for line in textwrap.wrap(text, SNIPPET_WIDTH):
        start = text.index(line, end)
        end = start + len(line)
        yield _emphasised(text, start, end, marks) if bold else line


def _emphasised(text: str, start: int, end: int, marks: Sequence[tuple[int, int]]) -> str:
    """`text[start:end]` with the parts that `marks` cover in bold."""
    shown, at = "", start
    for first, last in marks:
        first, last = max(first, start), min(last, end)
        if first < last:
            shown += f"{text[at:first]}{_BOLD}{text[first:last]}{_PLAIN}"
            at = last
    return shown + text[at:end]


def _plain(hit: Hit, *, placed: bool) -> dict[str, object]:
    plain = {name: getattr(hit, name) for name in ("url", "title", "snippet", "score")}
    return plain | {"directory": str(hit.directory)} if placed else plain


def _when(version: dict[str, object]) -> str:
    seen = console.format_time(round(float(str(version["at"]))))
    return f"current since {seen}" if version["newest"] else f"of {seen}, no longer current"
