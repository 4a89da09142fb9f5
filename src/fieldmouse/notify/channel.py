"""What a courier and a way of telling somebody have to know of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

import msgspec

from fieldmouse.crawldir.news import Change
from fieldmouse.visible import visible

LONGEST_TITLE = 300


@dataclass(frozen=True, slots=True)
class Notice:
    """Changes that are told together. Its key is the same whenever it is sent."""

    changes: Sequence[Change]
    offsets: Sequence[int] = ()  # where the row of each begins in the outcome log

    @property
    def key(self) -> str:
        """The id of a change that is alone, or a name made of the ids of all."""
        if len(self.changes) == 1:
            return self.changes[0].id
        return sha256("\n".join(change.id for change in self.changes).encode()).hexdigest()[:32]

    def as_json(self, *, listed: bool) -> bytes:
        """The changes with all that is known of them: a list, or the only one."""
        return msgspec.json.encode(list(self.changes) if listed else self.changes[0])


@dataclass(frozen=True, slots=True)
class Setback:
    """A notice could not be handed over. Says why, without any secret."""

    why: str
    wait: float = 0.0  # seconds that the receiver asks us to wait; 0 if it does not say


@dataclass(frozen=True, slots=True)
class Manner:
    """How a channel wants its changes."""

    most: int = 1  # in one notice
    every: float = 0.0  # seconds between two notices, at least; what comes meanwhile goes into one
    steady: bool = True  # whether a notice must be the same one after a kill


class Channel(Protocol):
    """A way to tell somebody. It is called for one notice at a time."""

    @property
    def name(self) -> str: ...

    @property
    def manner(self) -> Manner: ...

    @property
    def since(self) -> int:
        """The byte of the outcome log from which it wants to read again when it is opened anew."""

    async def send(self, notice: Notice) -> Setback | None:
        """None when the receiver has it for good."""

    def close(self) -> None:
        """Break off what is under way."""


def one_line(text: str, most: int = LONGEST_TITLE) -> str:
    """Text of a web page that is safe in a header, a line of a mail and an XML document.

    >>> one_line("Buy\\r\\nBcc: everyone\\x1b[0m\\uffff")
    'Buy Bcc: everyone␛[0m�'
    """
    shown = visible(" ".join(text.split()))
    shown = "".join("\ufffd" if ord(sign) & 0xFFFE == 0xFFFE else sign for sign in shown)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def titled(change: Change) -> str:
    """What a page is called, in one line: by its title, or by its URL."""
    return one_line(change.title) or one_line(change.url)
