"""`fieldmouse cluster rebuild`: the board of a crawl is lost, its agents' directories are not."""

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
def command(directories: tuple[Path, ...], boards: tuple[str, ...], crawl: str, as_json: bool) -> int:
    """Make a crawl again on a board that has lost it, from the directories of its agents.

    A board that has an old copy of it, as the agents said, is cleared of that first.

    What was fetched is in their outcome logs; what waits is found again by reading the
    links of all pages in their archives. Name the directories of all agents, copied or
    mounted on this machine: what only a missing one had is fetched again. They are
    only read, and no agent may run in one of them.

    The crawl appears on the board when all of it is there. If the command is stopped
    before that, run it again. Then start the agents as before.
    """
    from fieldmouse.repair.board import rebuild_board

    with voice.talk_only():
        told = rebuild_board(boards, crawl, directories, voice.say)
    if told.unreadable:
        voice.say(
            f"{counted(told.unreadable, 'answer')} cannot be read in the archives: links that only they had"
            " are missing"
        )
        voice.hint("`fieldmouse cluster forget AGENT --again` has all fetched again that an agent had")
    if as_json:
        voice.json(told)
    else:
        voice.say(
            f"made `{crawl}` again: {counted(told.seen, 'URL')} seen, {voice.number(told.booked)} booked,"
            f" {voice.number(told.waiting)} waiting; start the agents again"
        )
    return 0
