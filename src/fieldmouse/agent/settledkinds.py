"""What the outcome log of an agent says of keys: of which kind they are, and which of them were forgiven.

The board grants what is settled here to whoever asks first: what came too late to count, since its lease
was lost, and what an agent had booked that was forgotten. If that is the agent which has them, its copies
are booked as they are. What came too late is remembered while we live; for anything else the log is read,
each part of it at most once.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from fieldmouse.crawldir import Checkpoint, CrawlDir, outcomes, read_checkpoint, records, sealed_outcomes
from fieldmouse.frontier.moment import sealed_frontier
from fieldmouse.outcome import OutcomeKind
from fieldmouse.records import OutcomeRow
from fieldmouse.url import key_of

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode
_KINDS = list(OutcomeKind)


def forgiven_keys(home: CrawlDir, last: Checkpoint | None) -> set[int]:
    """Keys whose outcomes were taken back, and that have no other since."""
    state = sealed_frontier(last) if last is not None else None
    if last is None or state is None or state.sieve.seen == state.done:
        return set()  # what was ever settled still is
    seed = home.identity.key_seed
    return {key_of(url, seed) for url in outcomes.forgiven(home, length=sealed_outcomes(last))}


class SettledKinds:
    def __init__(self, home: CrawlDir):
        self._home, self._seed = home, home.identity.key_seed
        self._late: dict[int, str] = {}  # by key
        self._keys, self._places = np.zeros(0, np.uint64), np.zeros(0, np.uint8)  # in order; of `_KINDS`
        self._upto = 0  # bytes of the log that were read

    def note(self, key: int, kind: str) -> None:
        """It came too late to count."""
        self._late[key] = kind

    def __call__(self, keys: Sequence[int]) -> list[str]:
        """The kind of each at first sight, whatever polls made of it; "" if no checkpoint holds it yet."""
        if any(key not in self._late for key in keys):
            self._read_on()
        return [self._late.get(key) or self._read(key) for key in keys]

    def _read(self, key: int) -> str:
        at = int(self._keys.searchsorted(np.uint64(key), "right")) - 1  # the last of equals
        return _KINDS[self._places[at]].value if at >= 0 and self._keys[at] == key else ""

    def _read_on(self) -> None:
        last = read_checkpoint(self._home)
        length = sealed_outcomes(last) if last is not None else 0
        if length <= self._upto:
            return
        keys, places = list[int](), list[int]()
        for _, record in records(self._home / "outcomes.log", start=self._upto, length=length):
            row = _decode(record)
            if not row.polled and row.kind is not OutcomeKind.FORGIVEN:
                keys.append(key_of(row.url, self._seed))
                places.append(_KINDS.index(row.kind))
        every = np.concatenate([self._keys, np.array(keys, np.uint64)])
        order = every.argsort(kind="stable")  # what was said last of a key stands last
        self._keys = every[order]
        self._places = np.concatenate([self._places, np.array(places, np.uint8)])[order]
        self._upto = length
