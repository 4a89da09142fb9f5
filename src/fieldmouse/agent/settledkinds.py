"""Outcome kinds by URL key, read from an agent's outcome log.

The coordinator grants URLs to any agent although an outcome exists here: outcomes that came too late
because the lease was lost, and those of an agent that was forgotten. If this agent gets them, it
acknowledges its own copies without fetching. Late outcomes are kept in memory; for others the log is read,
each part at most once.
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
    """Keys whose outcomes were withdrawn, without another outcome since."""
    state = sealed_frontier(last) if last is not None else None
    if last is None or state is None or state.sieve.seen == state.done:
        return set()  # no outcome was ever withdrawn
    seed = home.identity.key_seed
    return {key_of(url, seed) for url in outcomes.forgiven(home, length=sealed_outcomes(last))}


class SettledKinds:
    def __init__(self, home: CrawlDir):
        self._home, self._seed = home, home.identity.key_seed
        self._late: dict[int, str] = {}  # by key
        # sorted; indices into `_KINDS`
        self._keys, self._kind_indices = np.zeros(0, np.uint64), np.zeros(0, np.uint8)
        self._read_length = 0  # length of the log that was read

    def note(self, key: int, kind: str) -> None:
        """Record the kind of an outcome that came too late to count."""
        self._late[key] = kind

    def __call__(self, keys: Sequence[int]) -> list[str]:
        """Kind of each key's first outcome, whatever polls changed; "" if no checkpoint holds it yet."""
        if any(key not in self._late for key in keys):
            self._update()
        return [self._late.get(key) or self._read(key) for key in keys]

    def _read(self, key: int) -> str:
        at = int(self._keys.searchsorted(np.uint64(key), "right")) - 1  # the last of equal keys
        return _KINDS[self._kind_indices[at]].value if at >= 0 and self._keys[at] == key else ""

    def _update(self) -> None:
        last = read_checkpoint(self._home)
        length = sealed_outcomes(last) if last is not None else 0
        if length <= self._read_length:
            return
        keys, kind_indices = list[int](), list[int]()
        for _, record in records(self._home / "outcomes.log", start=self._read_length, length=length):
            row = _decode(record)
            if not row.polled and row.kind is not OutcomeKind.FORGIVEN:
                keys.append(key_of(row.url, self._seed))
                kind_indices.append(_KINDS.index(row.kind))
        all_keys = np.concatenate([self._keys, np.array(keys, np.uint64)])
        order = all_keys.argsort(kind="stable")  # the latest row of a key comes last
        self._keys = all_keys[order]
        self._kind_indices = np.concatenate([self._kind_indices, np.array(kind_indices, np.uint8)])[order]
        self._read_length = length
