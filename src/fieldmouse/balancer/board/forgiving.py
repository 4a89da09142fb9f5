"""Retry of failed URLs: acknowledged URLs that wait again and are no longer settled.

An agent sends this for URLs it acknowledged itself, in numbered parts. A part counts once, however often
it is sent. A retried URL is not sent out a second time if its agent is lost (`forget`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fieldmouse.url import Host


@dataclass(frozen=True, slots=True)
class TakenBack:
    """Failed outcomes of one host that an agent retries: keys with rows, and the kind of each outcome."""

    host: Host
    rows: Sequence[tuple[int, bytes]]
    kinds: Sequence[str]
    number: int = 0  # grows with each one that an agent sends
