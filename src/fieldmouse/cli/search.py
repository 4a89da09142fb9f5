"""`fieldmouse search`: ranked full-text search, also while the crawl runs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fieldmouse.cli import options, voice

if TYPE_CHECKING:
    from fieldmouse.indexer.search import Hit, Piece

WIDTH = 96  # columns of a snippet
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


class SearchCommand(click.Command):
    """A command whose words may begin with a minus sign.

    Such a word is to be left out, and is no cluster of options: click would read `-hotel` as `-h` and more.
    Only `-h` itself is the help, as in every command.
    """

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        # Not a setting of the context: click keeps the option that the first context asked for, and a
        # context made elsewhere, for a list of all commands say, takes `-h` over from its parent.
        return ["--help"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        options = ["--help" if word == "-h" else word for word in args[:end]]
        return super().parse_args(ctx, options + args[end:])


@click.command(
    cls=SearchCommand,
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
@click.option("--limit", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Most results.")
@click.option("--versions", is_flag=True, help="Also in versions that pages had before, and in pages gone.")
@options.also
@options.as_json
def command(
    directory: Path, words: tuple[str, ...], limit: int, versions: bool, others: tuple[Path, ...],
    as_json: bool,
) -> int:  # fmt: skip
    """Search the pages of the crawl in DIRECTORY for WORDS, best match first.

    \b
      mouse field        both words
      '"field mouse"'    these words in this order
      mouse -computer    not this word
      mouse OR vole      one of them
      title:mouse        in the title
      host:example.org   on this host or one below it

    Nothing you type is an error: punctuation inside a word (don't, std::vector)
    is understood, and a word that begins with two dashes is a word. Words behind --
    are never options: `mouse -- -h` leaves out the word h, while -h alone is the
    help. When nothing is found the exit code is 0, and --json prints an empty list.

    The words that were found are bold on a terminal. In --json they stand between **.

    With --with the pages of several crawls are ranked as if they were in one, and
    of a page that more than one has stored only the newest copy is found.

    With --versions, what pages said before they were changed, moved or gone is found, too:
    each version is a result of its own. Old versions are read from the archive, which
    takes some 2 ms for each of them.
    """
    question = voice.as_typed(" ".join(words))
    room = options.opened(directory, others)
    hits: Sequence[Hit] = room.search(question, limit) if not versions else ()
    more: Sequence[dict[str, object]] = [{}] * len(hits)
    if versions:
        hits = found = room.search_versions(question, limit)
        more = [{"at": hit.at, "version": hit.version, "newest": hit.newest} for hit in found]
    if as_json:
        voice.json([_plain(hit, placed=bool(others)) | told for hit, told in zip(hits, more, strict=True)])
        return 0
    if not hits:
        where = " or ".join(f"`{one}`" for one in (directory, *others))
        voice.say(f"no page in {where} has: {question}")
        return 0
    for place, (hit, told) in enumerate(zip(hits, more, strict=True), 1):
        voice.data(f"{place:>2}. {hit.title or hit.url}")
        voice.data(f"    {hit.url}" + (f"  in `{hit.directory}`" if others else ""))
        if versions:
            voice.data(f"    version {told['version']}, {_when(told)}")
        for line in snippet_lines(hit.pieces, bold=voice.coloured()):
            voice.shown(f"    {line}")
    return 0


def snippet_lines(pieces: Sequence[Piece], *, bold: bool) -> Iterator[str]:
    """A snippet in lines; with `bold`, found words are in bold type. The page's own text is made visible."""
    text, marks = "", list[tuple[int, int]]()
    for piece, found in pieces:
        start, text = len(text), text + voice.visible(piece)
        if found:
            marks.append((start, len(text)))
    end = 0
    for line in textwrap.wrap(text, WIDTH):
        start = text.index(line, end)
        end = start + len(line)
        yield _emphasised(text, start, end, marks) if bold else line


def _emphasised(text: str, start: int, end: int, marks: Sequence[tuple[int, int]]) -> str:
    """`text[start:end]` with the parts of it that `marks` cover in bold type."""
    shown, at = "", start
    for first, last in marks:
        first, last = max(first, start), min(last, end)
        if first < last:
            shown += f"{text[at:first]}{_BOLD}{text[first:last]}{_PLAIN}"
            at = last
    return shown + text[at:end]


def _plain(hit: Hit, *, placed: bool) -> dict[str, object]:
    plain: dict[str, object] = {
        "url": hit.url, "title": hit.title, "snippet": hit.snippet, "score": hit.score
    }  # fmt: skip
    return plain | {"directory": str(hit.directory)} if placed else plain


def _when(told: dict[str, object]) -> str:
    seen = voice.when(round(float(str(told["at"]))))
    return f"shown since {seen}" if told["newest"] else f"of {seen}, no longer shown"
