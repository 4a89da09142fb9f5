"""Range of the outcome log and the changes in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fieldmouse.crawldir.log import FRAME, records, understood
from fieldmouse.crawldir.news import Baseline, Change, changes_in
from fieldmouse.notify.channel import Notice
from fieldmouse.records import OutcomeRow

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode

GLANCE = 5000
"""Rows read in one call: some milliseconds, so that reading a long log blocks nothing else."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Changes of whole rows, up to byte `end`."""

    end: int
    changes: tuple[Change, ...] = ()
    offsets: tuple[int, ...] = ()

    def __add__(self, after: Stretch) -> Stretch:
        return Stretch(after.end, self.changes + after.changes, self.offsets + after.offsets)

    def notices(self, most: int) -> list[Notice]:
        """All changes in order, at most `most` per notice."""
        return [
            Notice(self.changes[at : at + most], self.offsets[at : at + most])
            for at in range(0, len(self.changes), most)
        ]


def read(
    log: Path,
    start: int,
    *,
    length: int,
    baseline: Baseline | None,
    wanted: Callable[[Change], bool],
    most: int,
) -> Stretch:
    """Read from byte `start` until `most` changes, `GLANCE` rows or `length` are reached.

    Rows are not split: there may be a few changes more than `most`.
    """
    changes: list[Change] = []
    offsets: list[int] = []
    end = start
    if start >= length:
        return Stretch(start)
    for number, (offset, record) in enumerate(records(log, start=start, length=length), 1):
        row = understood(log, _decode, record)
        matching = [change for change in changes_in(row, offset, baseline) if wanted(change)]
        changes += matching
        offsets += [offset] * len(matching)
        end = offset + FRAME.size + len(record)
        if len(changes) >= most or number >= GLANCE:
            break
    return Stretch(end, tuple(changes), tuple(offsets))
