"""Channel for chat rooms, phones and all other services that apprise supports.

apprise is an optional dependency (`fieldmouse[notify]`) and is loaded only if configured. Its
URLs hold tokens and passwords, so the settings only refer to them, and messages only give
their number.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from fieldmouse.aio import DaemonExecutor
from fieldmouse.errors import FieldmouseError, SettingsError
from fieldmouse.formatting import format_count
from fieldmouse.notify import format
from fieldmouse.notify.channel_interface import BatchingRules, ChangeBatch, Channel, FailedDelivery


class MissingApprise(FieldmouseError):
    """The extra `fieldmouse[notify]` is not installed."""

    def __init__(self) -> None:
        super().__init__("`notify.apprise` needs apprise, which is not installed")
        self.hint = "`pip install 'fieldmouse[notify]'`, or take `notify.apprise` out of the settings"


class AppriseChannel(Channel):
    name = "apprise"

    def __init__(self, urls: Sequence[str], *, batch: int, timeout: float, crawl: str):
        try:
            import apprise
        except ModuleNotFoundError:
            raise MissingApprise from None
        # Its error messages may hold parts of a URL, and those are secret.
        logging.getLogger("apprise").setLevel(logging.CRITICAL)
        self._format: Any = apprise.NotifyFormat.TEXT
        self._all: Any = apprise.Apprise()
        self._number, self._timeout, self._crawl = format_count(len(urls), "service"), timeout, crawl
        for number, url in enumerate(urls, 1):
            if not self._all.add(url):
                raise SettingsError(
                    f"apprise does not understand the URL that place {number} of `notify.apprise` names",
                    "its documentation lists the services and how their URLs are written",
                )
        self.mode = BatchingRules(max_changes=batch)

    async def send(self, notice: ChangeBatch) -> FailedDelivery | None:
        sending = asyncio.get_running_loop().run_in_executor(DaemonExecutor(), self._send, notice)
        try:
            async with asyncio.timeout(self._timeout):
                reached = await sending
        except TimeoutError:
            return FailedDelivery(f"{self._number} took longer than {self._timeout:g} s")
        return None if reached else FailedDelivery(f"not all of {self._number} could be reached")

    def _send(self, notice: ChangeBatch) -> bool:
        title, text = format.subject(notice.changes, self._crawl), format.body(notice.changes)
        return bool(self._all.notify(title=title, body=text, body_format=self._format))
