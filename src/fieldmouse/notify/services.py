"""Chat rooms, telephones and whatever else apprise knows how to reach.

apprise is an extra of its own (`fieldmouse[notify]`) and is loaded only if it is asked for. Its
URLs hold tokens and passwords, so the settings only say where they stand, and messages only how
many there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from fieldmouse.aside import Aside
from fieldmouse.errors import FieldmouseError, SettingsError
from fieldmouse.figures import counted
from fieldmouse.notify import letter
from fieldmouse.notify.channel import Manner, Notice, Setback


class MissingApprise(FieldmouseError):
    """The extra `fieldmouse[notify]` is not installed."""

    def __init__(self) -> None:
        super().__init__("`notify.apprise` needs apprise, which is not installed")
        self.hint = "`pip install 'fieldmouse[notify]'`, or take `notify.apprise` out of the settings"


class Services:
    name = "apprise"
    since = 0

    def __init__(self, urls: Sequence[str], *, batch: int, timeout: float, crawl: str):
        try:
            import apprise
        except ModuleNotFoundError:
            raise MissingApprise from None
        # What it has to say of a failure may hold parts of a URL, and those are secret.
        logging.getLogger("apprise").setLevel(logging.CRITICAL)
        self._format: Any = apprise.NotifyFormat.TEXT
        self._all: Any = apprise.Apprise()
        self._number, self._timeout, self._crawl = counted(len(urls), "service"), timeout, crawl
        for number, url in enumerate(urls, 1):
            if not self._all.add(url):
                raise SettingsError(
                    f"apprise does not understand the URL that place {number} of `notify.apprise` names",
                    "its documentation lists the services and how their URLs are written",
                )
        self.manner = Manner(most=batch)

    async def send(self, notice: Notice) -> Setback | None:
        sending = asyncio.get_running_loop().run_in_executor(Aside(), self._send, notice)
        try:
            async with asyncio.timeout(self._timeout):
                reached = await sending
        except TimeoutError:
            return Setback(f"{self._number} took longer than {self._timeout:g} s")
        return None if reached else Setback(f"not all of {self._number} could be reached")

    def close(self) -> None:
        """What is under way goes its way."""

    def _send(self, notice: Notice) -> bool:
        title, text = letter.subject(notice.changes, self._crawl), letter.body(notice.changes)
        return bool(self._all.notify(title=title, body=text, body_format=self._format))
