"""Control log (`control.log`): every rule, its predicted effect and its measured effect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from fieldmouse.control.buffer_trace import BufferMetrics
from fieldmouse.storage.log import BestEffortLog, read_records


class Decision(msgspec.Struct, frozen=True, tag="decision", kw_only=True):
    """A rule that holds from now on, with its prediction (None if it follows from no model)."""

    number: int
    at: float
    robots: tuple[int, ...]
    limits: tuple[int, ...]
    why: str
    trial: bool = False  # a test of this number of fetch workers, by an earlier version
    predicted: BufferMetrics | None = None
    cost: float | None = None
    seconds: float = 0.0  # duration of the decision
    says: tuple[str, ...] = ()  # caveats of the fit
    rates: dict[int, float] = {}  # pages per second by number of fetch workers; written by earlier versions
    when_full: str = ""  # "wait" or "lose"; "" in the log of an earlier version


class DecisionEffect(msgspec.Struct, frozen=True, tag="period", kw_only=True):
    """Measured effect of decision `number`."""

    number: int
    until: float
    seconds: float
    arrived: int
    measured: BufferMetrics
    cost: float


Entry = Decision | DecisionEffect

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode


class ControlLog:
    """Writer that hands each entry to the operating system at once."""

    def __init__(self, path: Path):
        self.last = last_decision(path)
        self._log = BestEffortLog(path)

    def append(self, entry: Entry) -> None:
        self._log.append(_encode(entry))
        self._log.flush()

    def close(self) -> None:
        self._log.close()


class ControlPeriod(msgspec.Struct, frozen=True):
    """A decision and its measured effect; None while it holds, or if the crawl was killed under it."""

    decision: Decision
    period: DecisionEffect | None = None


def log_entries(path: Path) -> Iterator[Entry]:
    if path.exists():
        for _, record in read_records(path):
            yield _decode(record)


def last_decision(path: Path) -> Decision | None:
    last = None
    for entry in log_entries(path):
        if isinstance(entry, Decision):
            last = entry
    return last


def control_periods(path: Path) -> list[ControlPeriod]:
    """All decisions, oldest first."""
    by_number: dict[int, ControlPeriod] = {}
    for entry in log_entries(path):
        if isinstance(entry, Decision):
            by_number[entry.number] = ControlPeriod(entry)
        elif entry.number in by_number:
            by_number[entry.number] = ControlPeriod(by_number[entry.number].decision, entry)
    return list(by_number.values())
