"""`control.log`: every rule that governed the robots, what was expected of it, and how it went."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from fieldmouse.control.gauge import Fare
from fieldmouse.crawldir import Diary, records


class Decision(msgspec.Struct, frozen=True, tag="decision", kw_only=True):
    """From now on this rule holds, and this is expected of it (None while numbers of robots are tried)."""

    number: int
    at: float
    robots: tuple[int, ...]
    limits: tuple[int, ...]
    why: str
    trial: bool = False  # to see what so many robots bring
    predicted: Fare | None = None
    cost: float | None = None
    seconds: float = 0.0  # that deciding took
    says: tuple[str, ...] = ()  # doubts of the fit
    rates: dict[int, float] = {}  # pages in a second with so many robots, as last seen


class Period(msgspec.Struct, frozen=True, tag="period", kw_only=True):
    """How it went under decision `number`."""

    number: int
    until: float
    seconds: float
    arrived: int
    measured: Fare
    cost: float


Entry = Decision | Period

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode


class ControlLog:
    """Written as it happens, handed to the operating system at once."""

    def __init__(self, path: Path):
        last = last_decision(path)
        self.last = last
        self._log = Diary(path)

    def append(self, entry: Entry) -> None:
        self._log.append(_encode(entry))
        self._log.flush()

    def close(self) -> None:
        self._log.close()


class Chapter(msgspec.Struct, frozen=True):
    """A decision with how it went; None while it is not over, or if the crawl was killed under it."""

    decision: Decision
    period: Period | None = None


def entries(path: Path) -> Iterator[Entry]:
    if path.exists():
        for _, record in records(path):
            yield _decode(record)


def last_decision(path: Path) -> Decision | None:
    last = None
    for entry in entries(path):
        if isinstance(entry, Decision):
            last = entry
    return last


def chapters(path: Path) -> list[Chapter]:
    """All decisions, oldest first."""
    told: dict[int, Chapter] = {}
    for entry in entries(path):
        if isinstance(entry, Decision):
            told[entry.number] = Chapter(entry)
        elif entry.number in told:
            told[entry.number] = Chapter(told[entry.number].decision, entry)
    return list(told.values())
