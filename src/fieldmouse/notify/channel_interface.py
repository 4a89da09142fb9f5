"""Interface between a sender and its channel: notice, failure, send mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from fieldmouse.formatting import sanitize
from fieldmouse.storage.changes_from_outcomes import Change

LONGEST_TITLE = 300


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes that are sent together. Its key is the same whenever it is sent."""

    changes: Sequence[Change]
    offsets: Sequence[int] = ()  # where the row of each change begins in the outcome log

    @property
    def key(self) -> str:
        """The id of a single change, or a hash of the ids of all."""
        if len(self.changes) == 1:
            return self.changes[0].id
        return sha256("\n".join(change.id for change in self.changes).encode()).hexdigest()[:32]

    def as_json(self, *, listed: bool) -> bytes:
        """The changes as JSON: a list, or the only change as an object."""
        return msgspec.json.encode(list(self.changes) if listed else self.changes[0])


@dataclass(frozen=True, slots=True)
class FailedDelivery:
    """Failed delivery of a notice. The reason contains no secret."""

    reason: str
    retry_after: float = 0.0  # seconds that the receiver asks us to wait; 0 if it does not say


@dataclass(frozen=True, slots=True)
class BatchingRules:
    """Batching that a channel asks for."""

    max_changes: int = 1  # changes in one notice, at most
    min_interval: float = 0.0  # minimum seconds between two notices; later changes are collected into one
    repeatable: bool = True  # whether a notice must be the same after a kill


class Channel:
    """A way to deliver notices. It gets one notice at a time."""

    name: str
    mode: BatchingRules
    replay_from = 0  # byte of the outcome log from which it reads again when it is reopened

    async def send(self, notice: ChangeBatch) -> FailedDelivery | None:
        """Deliver a notice; None when the receiver has accepted it."""
        raise NotImplementedError

    def cancel_delivery(self) -> None:
        """Cancel a delivery in progress, where that is possible; others are finished."""


def one_line(text: str, most: int = LONGEST_TITLE) -> str:
    r"""Text of a web page made safe for a header, a line of a mail and an XML document.

    >>> one_line("Buy\r\nBcc: everyone\x1b[0m\uffff")
    'Buy Bcc: everyone␛[0m�'
    """
    shown = sanitize(" ".join(text.split()))
    shown = "".join("\ufffd" if ord(sign) & 0xFFFE == 0xFFFE else sign for sign in shown)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def title_or_url(change: Change) -> str:
    """The title of a page in one line, or its URL if it has none."""
    return one_line(change.title) or one_line(change.url)
