"""Status, samples and skipping of notifications, for the command line.

Status and samples change nothing in the crawl and work while it runs.
"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import msgspec

from fieldmouse.clock import WallClock
from fieldmouse.config import settings_file
from fieldmouse.config.notify_section import NotifySection, is_reference
from fieldmouse.errors import SettingsError
from fieldmouse.formatting import format_count
from fieldmouse.notify.channel_interface import ChangeBatch
from fieldmouse.notify.dispatcher import PART, ChangeSource, ChannelCursor, channel_cursor, sealed_channel_cursors
from fieldmouse.notify.setup import build_channel
from fieldmouse.storage.changes_from_outcomes import Change, ChangeKind, change_id, sealed_baseline
from fieldmouse.storage.checkpoint import encode_checkpoint, open_journal, read_checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.url import Url, host_of


class ChannelStatus(msgspec.Struct, frozen=True):
    """Status of a channel."""

    channel: str
    receiver: str
    waiting: int  # changes not yet delivered
    told_at: float  # time of the last delivery; 0 if there was none


class SampleReport(msgspec.Struct, frozen=True):
    """Result of sending a sample."""

    channel: str
    receiver: str
    delivered: bool
    why: str = ""  # why it was not delivered
    id: str = ""  # of the sample


def channel_reports(directory: Path) -> list[ChannelStatus]:
    """Status of all configured channels, as of the last checkpoint."""
    home = CrawlDir.open(directory)
    settings, last = settings_file.load(home / "fieldmouse.toml"), read_checkpoint(home)
    source = ChangeSource.from_settings(home, settings.notify)
    reports = []
    for name in settings.notify.channel_names:
        state = channel_cursor(name, last)
        waiting = source.count_waiting(state, sealed_outcome_bytes(last), sealed_baseline(last))
        reports.append(ChannelStatus(name, receiver_of(name, settings.notify), waiting, state.told_at))
    return reports


def receiver_of(name: str, asked: NotifySection) -> str:
    """The receiver of a channel according to the settings, without any secret.

    >>> receiver_of("webhook", NotifySection(webhook="https://hooks.example/T0K3N"))
    'https://hooks.example'
    """
    match name:
        case "command":
            return asked.command[0]
        case "webhook":
            # The part after the host may be a secret: with many services it is.
            return asked.webhook if is_reference(asked.webhook) else host_of(Url(asked.webhook + "/"))
        case "mail":
            return ", ".join(asked.mail_to)
        case "feed":
            return asked.feed
        case _:
            return format_count(len(asked.apprise), "service")


def skip_pending(directory: Path, name: str) -> int:
    """Drop the pending changes of a channel and return their number. Takes the lock."""
    home = CrawlDir.open(directory)
    source = ChangeSource.from_settings(home, settings_file.load(home / "fieldmouse.toml").notify)
    home.lock()
    try:
        journal, last = open_journal(home)
        try:
            if last is None or name not in sealed_channel_cursors(last):
                return 0
            end, known = sealed_outcome_bytes(last), sealed_channel_cursors(last)
            count = source.count_waiting(known[name], end, sealed_baseline(last))
            skipped = ChannelCursor(end, told_at=known[name].told_at, since=end)
            journal.commit(encode_checkpoint(last.with_part(PART, known | {name: skipped}, {})))
        finally:
            journal.close()
    finally:
        home.unlock(as_found=True)
    return count


async def send_samples(directory: Path, only: str | None) -> list[SampleReport]:
    """Send a sample by one channel, or by all that are configured, and report the results."""
    home = CrawlDir.open(directory)
    settings, last, clock = settings_file.load(home / "fieldmouse.toml"), read_checkpoint(home), WallClock()
    asked = settings.notify
    if not asked.channel_names or (only is not None and only not in asked.channel_names):
        raise SettingsError(
            f"`[notify]` in `{home / 'fieldmouse.toml'}` asks for no {only or 'channel'}",
            "docs/guides/notify.md has an example of each",
        )
    reports = []
    for name in [only] if only else asked.channel_names:
        # A running crawl may be writing the feed now.
        channel = build_channel(name, home, last, settings, clock, suffix=".test")
        notice = ChangeBatch([sample_change(clock.now())], [sealed_outcome_bytes(last)])
        setback = await channel.send(notice)
        why = setback.reason if setback is not None else ""
        reports.append(SampleReport(name, receiver_of(name, asked), setback is None, why, notice.key))
    return reports


def sample_change(now: float) -> Change:
    """A change of a page that does not exist."""
    url, kind = f"https://example.org/sample/{uuid4()}", ChangeKind.CHANGED
    return Change(
        url=url,
        kind=kind,
        at=now,
        id=change_id(url, kind, now),
        title="A sample of fieldmouse notify",
        difference=0.5,
        status=200,
    )
