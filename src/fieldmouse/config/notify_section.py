"""Section `[notify]`: channels and filters of change notifications.

A secret is never a setting: `env:NAME` and `file:PATH` say where to find it. Errors about such a setting
do
not repeat its value.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any

from fieldmouse.config import values
from fieldmouse.config.sections import Section
from fieldmouse.config.values import Duration, Positive, PositiveDuration, Texts, ValueKind
from fieldmouse.errors import SettingsError, UsageError
from fieldmouse.policy.dns_and_header_options import BLANK
from fieldmouse.url import parse

CHANGE_KINDS = ("new", "changed", "gone", "moved", "withdrawn")
CHANNELS = ("command", "webhook", "mail", "feed", "apprise")
#: Scheme of a mail server that is used without encryption.
PLAIN_SMTP = "smtp+plain"

_ELSEWHERE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+")
_SERVER = r"(smtp|smtps|smtp\+plain)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:[0-9]{1,5})?"
_ADDRESS = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+"
_PLACE = "it must be `env:NAME` or `file:PATH`, which says where to find it"


def is_reference(value: str) -> bool:
    """Whether a setting says where its value is, and is not the value itself."""
    return _ELSEWHERE.fullmatch(value) is not None


def _read_secret_reference(value: Any) -> str:
    """Read the place of a secret. No error shows the value, because it may be the secret itself."""
    if value != "" and (not isinstance(value, str) or not is_reference(value)):
        raise UsageError("a secret does not belong in the settings", _PLACE)
    return str(value)


def _read_webhook_url(value: Any) -> str:
    """Read a URL of the user. It may hold a secret, so no error shows it."""
    if not isinstance(value, str) or not value.isprintable():
        raise UsageError("this is no URL", "it begins with http:// or https://")
    if value and not is_reference(value):
        check_webhook_url(value)
    return value


def _without_secret(value: str) -> str:
    return value if not value or is_reference(value) else BLANK


def check_webhook_url(url: str) -> None:
    """Raise UsageError if nothing can be posted to `url`."""
    if parse(url) is None or not url.isprintable():
        raise UsageError("this is no URL", "it begins with http:// or https://")
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise UsageError(
            "the URL holds a name and a password", "take them out, and name a token in `notify.webhook_token`"
        )


def _change_kinds(value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values.list_of(values.choice(*CHANGE_KINDS).read, "").read(value)))


def _read_secret_references(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise UsageError("this is no list", f"each of its texts must be hidden: {_PLACE}")
    return tuple(_read_secret_reference(text) for text in value)


def _list_matching(pattern: str, accepts: str) -> ValueKind:
    return values.list_of(values.text_matching(pattern, "").read, accepts)


_kinds = replace(values.TEXTS, accepts="a list of " + ", ".join(CHANGE_KINDS), read=_change_kinds)
_hosts = _list_matching(
    r"(\*\.)?[^\s*/:]+|\[[0-9A-Fa-f:.]+\]", 'a list of names, such as ["example.org", "*.example.org"]'
)
_addresses = _list_matching(_ADDRESS, 'a list of addresses, such as ["you@example.org"]')
_services = replace(values.TEXTS, accepts='a list of places, such as ["env:NAME"]', read=_read_secret_references)
_address = values.text_matching(rf"({_ADDRESS})?", 'an address, such as "fieldmouse@example.org"')
_server = values.text_matching(
    rf"({_SERVER})?",
    '"smtp://HOST[:PORT]" (STARTTLS), "smtps://HOST[:PORT]" (TLS) or "smtp+plain://HOST[:PORT]" (neither)',
)
_place = ValueKind("a URL, or where to find it", _read_webhook_url, values.TEXT.write, without_secrets=_without_secret)
_secret = ValueKind("where to find a secret", _read_secret_reference, values.TEXT.write)


class NotifySection(Section, frozen=True):
    """Notifications of pages that are new, changed, gone or moved (see docs/guides/notify.md)."""

    kinds: Annotated[tuple[str, ...], _kinds, "changes that are sent"] = CHANGE_KINDS
    hosts: Annotated[
        tuple[str, ...], _hosts, "only changes on these hosts; `*.` for all subdomains; none for all hosts"
    ] = ()
    difference: Annotated[
        float, values.SHARE, "do not send changed pages that differ in a smaller share of their words"
    ] = 0.0
    command: Annotated[Texts, "a program and its arguments, run without a shell and with JSON on standard input"] = ()
    webhook: Annotated[str, _place, "a URL to post JSON to, or env:NAME or file:PATH that holds it"] = ""
    webhook_token: Annotated[str, _secret, "env:NAME or file:PATH of the token sent as `Authorization: Bearer`"] = ""
    batch: Annotated[Positive, "most changes in one post or run; 1 sends objects, more sends lists"] = 1
    mail_to: Annotated[tuple[str, ...], _addresses, "recipients of mail"] = ()
    mail_from: Annotated[str, _address, "sender of mail"] = ""
    mail_server: Annotated[
        str, _server, "smtp://HOST:PORT with STARTTLS, smtps:// with TLS, smtp+plain:// with neither"
    ] = ""
    mail_user: Annotated[str, values.TEXT, "user name at the mail server"] = ""
    mail_password: Annotated[str, _secret, "env:NAME or file:PATH of its password"] = ""
    mail_every: Annotated[Duration, "shortest time between two mails; each holds all changes since the last"] = 3600.0
    feed: Annotated[str, values.TEXT, "an Atom file to write, relative to the crawl directory: changes.atom"] = ""
    feed_entries: Annotated[Positive, "most entries of the feed; oldest are dropped"] = 200
    apprise: Annotated[
        tuple[str, ...], _services, "env:NAME or file:PATH of Apprise URLs (needs the extra `notify`)"
    ] = ()
    timeout: Annotated[PositiveDuration, "longest time of one post, run or mail"] = 30.0
    patience: Annotated[Duration, "how long a run waits at its end; the next run sends the rest"] = 10.0

    @property
    def channel_names(self) -> tuple[str, ...]:
        """Names of the channels in use.

        >>> NotifySection(feed="changes.atom").channel_names
        ('feed',)
        """
        wanted = (self.command, self.webhook, self.mail_to, self.feed, self.apprise)
        return tuple(name for name, is_wanted in zip(CHANNELS, wanted, strict=True) if is_wanted)

    def check(self) -> None:
        """Raise `SettingsError` if the settings of mail are incomplete or contradict each other."""
        if not self.mail_to:
            return
        for key in ("mail_from", "mail_server"):
            if not getattr(self, key):
                raise SettingsError(
                    f"`notify.mail_to` asks for mail, but `notify.{key}` is empty", f"set `notify.{key}`, too"
                )
        if bool(self.mail_user) != bool(self.mail_password):
            raise SettingsError(
                "`notify.mail_user` and `notify.mail_password` go together", "set both of them, or neither"
            )
        if self.mail_user and self.mail_server.startswith(PLAIN_SMTP):
            raise SettingsError(
                f"`notify.mail_server` would send a password in the clear ({PLAIN_SMTP})",
                "use smtp:// or smtps://, or no user name",
            )
