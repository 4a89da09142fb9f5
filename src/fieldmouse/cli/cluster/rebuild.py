"""`fieldmouse cluster rebuild`: a lost coordinator rebuilt from the agents' directories."""

from __future__ import annotations

from pathlib import Path

import click

from fieldmouse.cli import options, voice
from fieldmouse.cli.cluster.options import of_a_crawl
from fieldmouse.figures import counted


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster rebuild east west --coordinator redis://board.example:6379/0
  fieldmouse cluster rebuild /mnt/*/news --crawl news --coordinator redis://board.example:6379/0"""
)
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@of_a_crawl
@options.as_json
def command(directories: tuple[Path, ...], coordinators: tuple[str, ...], crawl: str, as_json: bool) -> int:
    """Rebuild a crawl on a coordinator that has lost it, from the directories of its agents.

    An outdated copy of the crawl on the coordinator, which the agents refused, is
    deleted first.

    Fetched URLs come from the outcome logs; waiting URLs are found by reading the links
    of all pages in the archives. Name the directories of all agents, copied or mounted
    on this machine: pages that only a missing directory has are fetched again. The
    directories are only read, and no agent may run in them.

    The crawl appears on the coordinator when it is complete. If the command is stopped
    before that, run it again. Then start the agents as before.
    """
    from fieldmouse.repair.board import rebuild_board

    with voice.talk_only():
        result = rebuild_board(coordinators, crawl, directories, voice.say)
    if result.unreadable:
        voice.say(
            f"{counted(result.unreadable, 'response')} in the archives cannot be read: links that only they"
            " contain are missing"
        )
        voice.hint("fetch all pages of an agent again with `fieldmouse cluster forget AGENT --again`")
    if as_json:
        voice.json(result)
    else:
        voice.say(
            f"rebuilt `{crawl}`: {counted(result.seen, 'URL')} seen,"
            f" {voice.number(result.booked)} acknowledged, {voice.number(result.waiting)} waiting;"
            " start the agents again"
        )
    return 0
