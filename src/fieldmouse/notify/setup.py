"""Construction of notification channels from the settings, and the secrets they need (`env:NAME`,
`file:PATH`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from shutil import which
from ssl import SSLContext

from fieldmouse.clock import Clock, WallClock
from fieldmouse.config.notify_section import check_webhook_url, is_reference
from fieldmouse.config.settings_file import Settings
from fieldmouse.errors import SettingsError, UsageError
from fieldmouse.http.connection import create_tls_context
from fieldmouse.notify.channel_interface import ChangeBatch, Channel, one_line
from fieldmouse.notify.channels.apprise import AppriseChannel
from fieldmouse.notify.channels.apprise import MissingApprise as MissingApprise
from fieldmouse.notify.channels.command import CommandChannel
from fieldmouse.notify.channels.feed import FeedChannel
from fieldmouse.notify.channels.mail import MailChannel
from fieldmouse.notify.channels.webhook import WebhookChannel
from fieldmouse.notify.dispatcher import ChangeRange, ChangeSource, ChannelCursor, Notifier, channel_cursor
from fieldmouse.storage.changes_from_outcomes import sealed_baseline
from fieldmouse.storage.checkpoint import Checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.url import parse

MAX_SECRET_BYTES = 64 << 10


def read_secret(setting: str, place: str, home: Path) -> str:
    """Read the secret at `place`, one line; `setting` is for the error. A path is relative to `home`."""
    where, _, name = place.partition(":")
    if where == "env":
        value = os.environ.get(name, "")
        if not value:
            raise SettingsError(
                f"`notify.{setting}` names the variable {name}, which is not set",
                f"set {name} where you run fieldmouse",
            )
    else:
        path = home / Path(name).expanduser()
        try:
            with path.open("rb") as file:
                value = file.read(MAX_SECRET_BYTES).decode()
        except (OSError, UnicodeDecodeError) as trouble:
            why = trouble.strerror if isinstance(trouble, OSError) else "it is not text"
            raise SettingsError(
                f"`notify.{setting}` names `{path}`, which cannot be read: {why}",
                "check that the file exists and that you may read it",
            ) from None
    value = value.strip()
    if not value or not value.isprintable():
        raise SettingsError(f"what `notify.{setting}` names ({place}) is not one line of text", "write it on one line")
    return value


def resolve_secret(setting: str, value: str, home: Path) -> str:
    """The value of a setting that may be given directly or by its place."""
    return read_secret(setting, value, home) if is_reference(value) else value


def environment_without(places: Iterable[str]) -> dict[str, str]:
    """Our environment for child processes, without the secrets in it."""
    hidden = {place.partition(":")[2] for place in places if place.startswith("env:")}
    return {name: value for name, value in os.environ.items() if name not in hidden}


def build_notifier(home: CrawlDir, last: Checkpoint | None, settings: Settings, clock: Clock) -> Notifier:
    """A notifier for all configured channels, at the checkpoint `last`."""
    channels = [build_channel(name, home, last, settings, clock) for name in settings.notify.channel_names]
    return Notifier(home, last, settings.notify, channels, clock)


def check_channels(directory: Path, settings: Settings) -> None:
    """Raise `SettingsError` if something that the channels need is missing; `directory` may not exist yet."""
    asked = settings.notify
    if asked.command and not _is_program(asked.command[0], directory):
        raise SettingsError(
            f"`notify.command` names `{asked.command[0]}`, which is no program that can be run",
            "write its path, seen from the crawl's directory, or a name that is found in PATH",
        )
    if asked.webhook:
        _webhook_channel(directory, settings, WallClock())
    if asked.mail_to and asked.mail_user:
        read_secret("mail_password", asked.mail_password, directory)
    if asked.apprise:
        _apprise_channel(directory, settings)


def _is_program(word: str, directory: Path) -> bool:
    return which(str(directory / word) if "/" in word else word) is not None


def build_channel(
    name: str, home: CrawlDir, last: Checkpoint | None, settings: Settings, clock: Clock, *, suffix: str = ".new"
) -> Channel:
    """One channel; `SettingsError` if something it needs is missing. `suffix` marks files being written."""
    asked, directory = settings.notify, home.path.absolute()
    match name:
        case "command":
            places = (asked.webhook, asked.webhook_token, asked.mail_password, *asked.apprise)
            return CommandChannel(asked, home=directory, environment=environment_without(places))
        case "webhook":
            return _webhook_channel(directory, settings, clock)
        case "mail":
            password = read_secret("mail_password", asked.mail_password, directory) if asked.mail_user else ""
            tls = _tls_context(settings, protocol="")
            return MailChannel(asked, password=password, crawl=directory.name, clock=clock, tls=tls)
        case "feed":
            state = channel_cursor("feed", last)
            return FeedChannel(
                directory / Path(asked.feed).expanduser(),
                entries=asked.feed_entries,
                since=state.since,
                title=f"What changed in {one_line(directory.name)}",
                mark=str(home.identity.key_seed),
                suffix=suffix,
                recall=lambda: earlier_changes(home, last, settings, state),
            )
        case "apprise":
            return _apprise_channel(directory, settings)
        case _:
            raise AssertionError(name)


def earlier_changes(home: CrawlDir, last: Checkpoint | None, settings: Settings, state: ChannelCursor) -> ChangeBatch:
    """Earlier changes of a feed: all between its first entry and its channel's offset."""
    source = ChangeSource.from_settings(home, settings.notify)
    changes, baseline = ChangeRange(state.since), sealed_baseline(last)
    while changes.end < state.place:
        changes += source.read(changes.end, state.place, baseline)
    return ChangeBatch(changes.changes, changes.offsets)


def _webhook_channel(directory: Path, settings: Settings, clock: Clock) -> WebhookChannel:
    asked = settings.notify
    given = resolve_secret("webhook", asked.webhook, directory)
    try:
        check_webhook_url(given)
    except UsageError as refused:
        raise SettingsError(f"`notify.webhook`: {refused}", refused.hint) from None
    url = parse(given)
    assert url is not None
    return WebhookChannel(
        url,
        token=read_secret("webhook_token", asked.webhook_token, directory) if asked.webhook_token else "",
        user_agent=settings.crawl.product,
        settings=asked,
        clock=clock,
        tls=_tls_context(settings) if url.startswith("https") else None,
    )


def _tls_context(settings: Settings, protocol: str = "http/1.1") -> SSLContext:
    network = settings.network
    ca_file = Path(network.ca_file) if network.ca_file else None
    return create_tls_context(verify=network.tls_verify, ca_file=ca_file, protocol=protocol)


def _apprise_channel(directory: Path, settings: Settings) -> AppriseChannel:
    asked = settings.notify
    urls = [read_secret("apprise", place, directory) for place in asked.apprise]
    return AppriseChannel(urls, batch=asked.batch, timeout=asked.timeout, crawl=directory.absolute().name)
