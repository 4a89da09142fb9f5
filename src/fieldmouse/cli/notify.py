"""`fieldmouse notify`: who is told of changes, what waits to be told, and does it work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fieldmouse.cli import options, voice
from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.figures import counted
from fieldmouse.settings.notify import CHANNELS

if TYPE_CHECKING:
    from fieldmouse.notify.desk import ChannelReport, SampleReport

ALL = "all"


@click.command(
    epilog="""\b
Examples:
  fieldmouse notify atlas
  fieldmouse notify atlas --test
  fieldmouse notify atlas --test webhook --json
  fieldmouse notify atlas --skip mail

Exit code 1 means that a test failed."""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--test",
    metavar="[CHANNEL]",
    is_flag=False,
    flag_value=ALL,
    help="Send a sample by command, webhook, mail, feed or apprise; by all that are set if none is named.",
)
@click.option(
    "--skip",
    metavar="CHANNEL",
    help="Leave untold, for good, what waits for this channel; not while it runs.",
)
@options.as_json
def command(directory: Path, test: str | None, skip: str | None, as_json: bool) -> int:
    """Say who is told of changes in the crawl in DIRECTORY, and how many each has yet to hear of.

    It reads `[notify]` in its fieldmouse.toml. Changes are told while the crawl runs
    (`fieldmouse crawl`, `resume`, `refresh`); this command tells nobody anything but a
    sample, if --test asks for one. It may be used while the crawl runs.
    """
    from fieldmouse.notify import desk

    if skip is not None:
        count = desk.skip(directory, _known(skip))
        voice.json({"skipped": count}) if as_json else voice.data(f"{counted(count, 'change')} left untold")
        return 0
    if test is None:
        return _tell(directory, desk.report(directory), as_json)
    only = None if test == ALL else _known(test)
    return _tell_samples(asyncio.run(desk.trials(directory, only)), as_json)


def _known(channel: str) -> str:
    if channel not in CHANNELS:
        raise UsageError(f"there is no channel `{channel}`", f"name one of {', '.join(CHANNELS)}")
    return channel


def _tell(directory: Path, reports: list[ChannelReport], as_json: bool) -> int:
    if as_json:
        voice.json(reports)
        return 0
    if not reports:
        raise FieldmouseError(
            f"nobody is told of changes in `{directory}`",
            f"`[notify]` in `{directory / 'fieldmouse.toml'}` says who is; see docs/guides/notify.md",
        )
    for report in reports:
        told = f"last told {voice.when(round(report.told_at))}" if report.told_at else "nothing told yet"
        wait = f"{counted(report.waiting, 'change')} {'waits' if report.waiting == 1 else 'wait'}"
        voice.data(f"{report.channel:<8} {report.receiver}: {told}, {wait}")
    return 0


def _tell_samples(trials: list[SampleReport], as_json: bool) -> int:
    if as_json:
        voice.json(trials)
    for trial in trials:
        verdict = "ok " if trial.delivered else "BAD"
        if not as_json:
            voice.data(
                f"{verdict}  {trial.channel:<8} {trial.receiver}{': ' if trial.why else ''}{trial.why}"
            )
    return 0 if all(trial.delivered for trial in trials) else 1
