"""`fieldmouse explain`: the history of one URL and the state of its host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from fieldmouse.cli import console, options

if TYPE_CHECKING:
    from fieldmouse.reader.explain import CombinedExplanation, Explanation


@click.command(
    epilog="""\b
Examples:
  fieldmouse explain atlas https://example.org/missing
  fieldmouse explain agent-1 --with agent-2 --with agent-3 https://example.org/"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("url")
@options.with_option
@options.json_option
def command(directory: Path, url: str, others: tuple[Path, ...], as_json: bool) -> None:
    """Show when and where URL was found, its outcomes, and the state of its host.

    The answer is as of the last checkpoint; the command may run while the crawl runs.
    With --with every crawl is asked, and the answer names the one with the newest copy.
    """
    from fieldmouse.reader.crawl_reader import CrawlReader, MultiCrawlReader

    typed_url = console.decode_argument(url)
    if others:
        combined = MultiCrawlReader([directory, *others]).explain(typed_url)
        plain, lines = _plain_combined(combined), combined.lines
    else:
        explanation = CrawlReader(directory).explain(typed_url)
        plain, lines = _plain(explanation), [explanation.url, *(f"  {line}" for line in explanation.says)]
    if as_json:
        console.print_json(plain)
    else:
        console.print_lines(lines)


def _plain(explanation: Explanation) -> dict[str, Any]:
    """Explanation as a dict; rows, which are lists on disk, become dicts, too."""
    parts = {
        "outcomes": [msgspec.structs.asdict(row) for row in explanation.outcomes],
        "waiting": explanation.waiting and msgspec.structs.asdict(explanation.waiting),
        "host": explanation.host and msgspec.structs.asdict(explanation.host),
    }
    return msgspec.structs.asdict(explanation) | parts


def _plain_combined(combined: CombinedExplanation) -> dict[str, Any]:
    outcomes = [msgspec.structs.asdict(row) | {"directory": path} for path, row in combined.outcomes]
    return {
        "url": combined.url,
        "place": combined.place,
        "directory": combined.directory,
        "says": combined.says,
        "outcomes": outcomes,
        "crawls": [{"directory": path} | _plain(each) for path, each in combined.crawls.items()],
    }
