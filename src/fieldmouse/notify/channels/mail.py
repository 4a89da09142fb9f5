"""Channel that sends mail to a few people by SMTP.

The connection is encrypted (STARTTLS, or TLS from its beginning) unless the settings say otherwise,
and no password is sent over an unencrypted one. A mail that is sent again after a kill has the same
Message-ID.
"""

from __future__ import annotations

import asyncio
import logging
import smtplib
import ssl
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate

from fieldmouse.aio import DaemonExecutor
from fieldmouse.clock import Clock
from fieldmouse.config.notify_section import NotifySection
from fieldmouse.http.connection import tls_error_text
from fieldmouse.notify import format
from fieldmouse.notify.channel_interface import BatchingRules, ChangeBatch, Channel, FailedDelivery, one_line

log = logging.getLogger(__name__)

#: Changes in one mail; more of them go into the next one.
MAX_CHANGES_PER_MAIL = 1000

#: Receivers that the server refused, with its code and message.
RefusedReceivers = dict[str, tuple[int, bytes]]

_PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}


class MailChannel(Channel):
    name = "mail"

    def __init__(self, settings: NotifySection, *, password: str, crawl: str, clock: Clock, tls: ssl.SSLContext):
        """`password` is that of `notify.mail_user`; without a user there is no login."""
        self._scheme, _, authority = settings.mail_server.partition("://")
        name, colon, port = authority.rpartition(":") if not authority.endswith("]") else (authority, "", "")
        self._name = (name if colon else authority).strip("[]")
        self._port = int(port) if colon else _PORTS[self._scheme]
        self._sender, self._receivers, self._user = settings.mail_from, settings.mail_to, settings.mail_user
        self._password, self._crawl = password, crawl
        self._timeout, self._clock, self._tls = settings.timeout, clock, tls
        self.mode = BatchingRules(max_changes=MAX_CHANGES_PER_MAIL, min_interval=settings.mail_every)
        self._put_off: tuple[str, list[str]] = ("", [])  # key of a mail and the receivers still to get it

    async def send(self, notice: ChangeBatch) -> FailedDelivery | None:
        message = self.message_for(notice)
        key, put_off = self._put_off
        receivers = put_off if key == notice.key else list(self._receivers)
        sending = asyncio.get_running_loop().run_in_executor(DaemonExecutor(), self._send, message, receivers)
        try:
            async with asyncio.timeout(2 * self._timeout):
                setback, refused = await sending
        except TimeoutError:
            return FailedDelivery(f"{self._name} took longer than {2 * self._timeout:g} s")
        if setback is not None or not refused:
            return setback
        # The other receivers have it and must not get it twice. A permanent refusal (5xx) is not tried again.
        later = [whom for whom, (code, _) in refused.items() if code < 500]
        self._put_off = (notice.key, later)
        if later:
            return FailedDelivery(f"{self._name} puts off {_refusals(refused)}")
        log.warning("mail: %s refuses %s; the others have it", self._name, _refusals(refused))
        return None

    def message_for(self, notice: ChangeBatch) -> EmailMessage:
        message = EmailMessage(policy=SMTP)
        message["Subject"] = format.subject(notice.changes, self._crawl)
        message["From"] = self._sender
        message["To"] = ", ".join(self._receivers)
        message["Date"] = formatdate(self._clock.now())
        message["Message-ID"] = f"<{notice.key}@{self._sender.rpartition('@')[2]}>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(format.body(notice.changes))
        return message

    def _send(self, message: EmailMessage, receivers: list[str]) -> tuple[FailedDelivery | None, RefusedReceivers]:
        """Return the failure, or the receivers refused although others got the mail."""
        try:
            with self._connect() as server:
                if self._user:
                    server.login(self._user, self._password)
                return None, server.send_message(message, self._sender, receivers)
        except smtplib.SMTPAuthenticationError as trouble:
            # The server's message may repeat the password.
            why = f"{self._name} does not let `{self._user}` in ({trouble.smtp_code})"
        except smtplib.SMTPRecipientsRefused as trouble:
            why = f"{self._name} refuses {_refusals(trouble.recipients)}"
        except smtplib.SMTPResponseException as trouble:
            why = f"{self._name} answered {trouble.smtp_code}: {_words(trouble.smtp_error)}"
        except smtplib.SMTPException as trouble:
            why = f"{self._name}: {one_line(str(trouble))}"
        except TimeoutError:
            why = f"{self._name} did not answer within {self._timeout:g} s"
        except ssl.SSLError as trouble:
            why = f"{self._name}: {tls_error_text(trouble)}"
        except OSError as trouble:
            why = f"{self._name} cannot be reached: {(trouble.strerror or 'no connection').lower()}"
        return FailedDelivery(why), {}

    def _connect(self) -> smtplib.SMTP:
        if self._scheme == "smtps":
            return smtplib.SMTP_SSL(self._name, self._port, timeout=self._timeout, context=self._tls)
        server = smtplib.SMTP(self._name, self._port, timeout=self._timeout)
        try:
            if self._scheme == "smtp":
                server.starttls(context=self._tls)
        except BaseException:
            server.close()
            raise
        return server


def _refusals(refused: RefusedReceivers) -> str:
    return ", ".join(f"{whom} ({code})" for whom, (code, _) in refused.items())


def _words(said: bytes | str) -> str:
    return one_line(said.decode(errors="replace") if isinstance(said, bytes) else said)
