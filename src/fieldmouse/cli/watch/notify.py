"""`fieldmouse notify`: channels of change notifications, their backlog, and test messages."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fieldmouse.cli import console, options
from fieldmouse.config.notify_section import CHANNELS
from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.formatting import format_count

if TYPE_CHECKING:
    from fieldmouse.notify.channel_commands import ChannelStatus, SampleReport


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
    help="Send a sample by command, webhook, mail, feed or apprise; without a name, by all that are set.",
)
@click.option(
    "--skip", metavar="CHANNEL", help="Drop the changes that wait for this channel; not while the crawl runs."
)
@options.json_option
def command(directory: Path, test: str | None, skip: str | None, as_json: bool) -> int:
    """Show the notification channels of the crawl in DIRECTORY, and the changes that wait.

    The channels are set in `[notify]` of its fieldmouse.toml. Notifications are sent
    while the crawl runs (`fieldmouse crawl`, `resume`, `refresh`); this command sends
    only samples, with --test. It may run while the crawl runs.
    """
    from fieldmouse.notify import channel_commands

    if skip is not None:
        count = channel_commands.skip_pending(directory, _check_channel_name(skip))
        if as_json:
            console.print_json({"skipped": count})
        else:
            console.print_data(f"{format_count(count, 'change')} skipped")
    elif test is None:
        _show_channels(directory, channel_commands.channel_reports(directory), as_json)
    else:
        only = None if test == ALL else _check_channel_name(test)
        return _show_samples(asyncio.run(channel_commands.send_samples(directory, only)), as_json)
    return 0


def _check_channel_name(channel: str) -> str:
    if channel not in CHANNELS:
        raise UsageError(f"there is no channel `{channel}`", f"name one of {', '.join(CHANNELS)}")
    return channel


def _show_channels(directory: Path, reports: list[ChannelStatus], as_json: bool) -> None:
    if as_json:
        console.print_json(reports)
        return
    if not reports:
        raise FieldmouseError(
            f"`{directory}` has no notification channel",
            f"set one in `[notify]` of `{directory / 'fieldmouse.toml'}`; see docs/guides/notify.md",
        )
    for report in reports:
        sent = f"last sent {console.format_time(round(report.told_at))}" if report.told_at else "nothing sent yet"
        wait = f"{format_count(report.waiting, 'change')} {'waits' if report.waiting == 1 else 'wait'}"
        console.print_data(f"{report.channel:<8} {report.receiver}: {sent}, {wait}")


def _show_samples(samples: list[SampleReport], as_json: bool) -> int:
    if as_json:
        console.print_json(samples)
    else:
        for sample in samples:
            why = f": {sample.why}" if sample.why else ""
            verdict = "ok " if sample.delivered else "BAD"
            console.print_data(f"{verdict}  {sample.channel:<8} {sample.receiver}{why}")
    return 0 if all(sample.delivered for sample in samples) else 1
