"""Of which kind outcomes are that an agent has settled, and that the board wants to hear of once more.

It grants them to whoever asks first: what came too late to count, since its lease was lost, and what an
agent had booked that was forgotten. If that is the agent which has them, its copies are booked as they
are. What came too late is remembered while we live; for anything else the log is read, at most once.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fieldmouse.crawldir import CrawlDir, read_checkpoint, records, sealed_outcomes
from fieldmouse.records import OutcomeKind, OutcomeRow
from fieldmouse.url import key_of

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


class SettledKinds:
    def __init__(self, home: CrawlDir):
        self._home, self._seed = home, home.identity.key_seed
        self._kinds: dict[int, str] = {}  # by key
        self._upto = 0  # bytes of the log that were read

    def note(self, key: int, kind: str) -> None:
        self._kinds[key] = kind

    def __call__(self, keys: Sequence[int]) -> list[str]:
        """The kind of each at first sight, whatever polls made of it; "" if no checkpoint holds it yet."""
        if any(key not in self._kinds for key in keys):
            self._read_on()
        return [self._kinds.get(key, "") for key in keys]

    def _read_on(self) -> None:
        last = read_checkpoint(self._home)
        length = sealed_outcomes(last) if last is not None else 0
        for _, record in records(self._home / "outcomes.log", start=self._upto, length=length):
            row = _decode(record)
            if not row.polled and row.kind is not OutcomeKind.FORGIVEN:
                self._kinds[key_of(row.url, self._seed)] = row.kind.value
        self._upto = max(self._upto, length)
