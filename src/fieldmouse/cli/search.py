"""`fieldmouse search`: ranked full-text search, also while the crawl runs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fieldmouse.cli import options, voice

if TYPE_CHECKING:
    from fieldmouse.indexer.search import Hit


@click.command(
    # A word with a minus sign is a word to leave out, not an option; so `-h` is not help here.
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
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
    is understood, and a word that begins with two dashes is a word. When nothing is
    found the exit code is 0, and --json prints an empty list.

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
        for line in textwrap.wrap(voice.visible(" ".join(hit.snippet.split())), 96):
            voice.data(f"    {line}")
    return 0


def _plain(hit: Hit, *, placed: bool) -> dict[str, object]:
    plain: dict[str, object] = {
        "url": hit.url, "title": hit.title, "snippet": hit.snippet, "score": hit.score
    }  # fmt: skip
    return plain | {"directory": str(hit.directory)} if placed else plain


def _when(told: dict[str, object]) -> str:
    seen = voice.when(round(float(str(told["at"]))))
    return f"shown since {seen}" if told["newest"] else f"of {seen}, no longer shown"
