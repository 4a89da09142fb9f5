"""A stretch of the outcome log, and what there is to tell of it."""

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
"""Rows read at one go: some milliseconds, so that reading much of a log holds nobody up."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Whole rows, up to byte `end`."""

    end: int
    changes: tuple[Change, ...] = ()
    offsets: tuple[int, ...] = ()

    def __add__(self, after: Stretch) -> Stretch:
        return Stretch(after.end, self.changes + after.changes, self.offsets + after.offsets)

    def notices(self, most: int) -> list[Notice]:
        """All changes, in order, so many together at most."""
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
    """From byte `start` on, until `most` changes are found, or a glance is over, or at `length`.

    A row is told whole: there may be a few changes more than `most`.
    """
    changes: list[Change] = []
    offsets: list[int] = []
    end = start
    if start >= length:
        return Stretch(start)
    for number, (offset, record) in enumerate(records(log, start=start, length=length), 1):
        row = understood(log, _decode, record)
        told = [change for change in changes_in(row, offset, baseline) if wanted(change)]
        changes += told
        offsets += [offset] * len(told)
        end = offset + FRAME.size + len(record)
        if len(changes) >= most or number >= GLANCE:
            break
    return Stretch(end, tuple(changes), tuple(offsets))
