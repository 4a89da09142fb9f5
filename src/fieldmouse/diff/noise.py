"""Learned noise rules: places of a page that differ at every poll and are not reported as changes.

A difference is a change until its place has differed on three polls in a row. Then it is noise, and
changes reported on the two polls before are withdrawn if they consist of noise only. A noisy place that
stays the same on three polls in a row is no longer noise.

The learned state is stored with the page in less than a kilobyte (`memory`). If it cannot be decoded,
learning starts again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from fieldmouse.diff.compare import Comparison

RUNNING = 3  # polls in a row
PLACES = 80  # places remembered for one page
NAMED = 40  # places of one reported change; a change with more is never withdrawn

_VERSION = 1
_PLACE = struct.Struct("<IB")  # place; polls in a row on which it differed, and on which it did not
_TELLING = struct.Struct("<dBB")  # time; polls since then; number of places


class Telling(NamedTuple):
    """A reported change that may still turn out to be noise."""

    at: float
    ago: int  # polls
    places: frozenset[int]


class Memory(NamedTuple):
    differed: dict[int, int]  # polls in a row, at most `RUNNING`, by place
    stood: dict[int, int]  # places that are noise: polls in a row without a difference
    tellings: tuple[Telling, ...] = ()

    @property
    def noise(self) -> frozenset[int]:
        return frozenset(place for place, times in self.differed.items() if times >= RUNNING)


class Lesson(NamedTuple):
    """Result of one more poll."""

    memory: Memory
    changed: bool  # there is a change to report
    withdrawn: tuple[float, ...] = ()  # `at` of the reported changes that were only noise


NOTHING = Memory({}, {})


def learn(memory: Memory, seen: Comparison, at: float) -> Lesson:
    """Update the memory by one poll; `seen` is the comparison with the previous version."""
    places = {item.place for item in seen.differing}
    memory = _aged(memory, places - {0})
    noise = memory.noise
    reported = places - noise
    withdrawn = [item for item in memory.tellings if item.places <= noise]
    tellings = [item for item in memory.tellings if item not in withdrawn]
    if reported and 0 not in reported and len(reported) <= NAMED:
        tellings.append(Telling(at, 0, frozenset(reported)))
    after = memory._replace(tellings=tuple(tellings))
    return Lesson(after, bool(reported), tuple(item.at for item in withdrawn))


def rest(memory: Memory) -> Memory:
    """Update the memory by one poll on which the page was the same."""
    return _aged(memory, frozenset())


def _aged(memory: Memory, places: Iterable[int]) -> Memory:
    """Update the memory by one poll on which exactly `places` differed."""
    differed = {place: min(RUNNING, memory.differed.get(place, 0) + 1) for place in places}
    stood = {}
    for place in memory.noise:
        if place not in differed and memory.stood.get(place, 0) + 1 < RUNNING:
            differed[place] = RUNNING
            stood[place] = memory.stood.get(place, 0) + 1
    tellings = (change._replace(ago=change.ago + 1) for change in memory.tellings if change.ago + 1 < RUNNING)
    return Memory(differed, stood, tuple(tellings))


# -- serialization


def packed(memory: Memory) -> bytes:
    """Serialize a memory, an empty one as b""; at most about 900 bytes.

    Beyond `PLACES` the places with the longest runs of differences are kept.
    """
    if not memory.differed and not memory.tellings:
        return b""
    kept = sorted(memory.differed.items(), key=lambda place: -place[1])[:PLACES]
    parts = [bytes((_VERSION, len(kept), len(memory.tellings)))]
    parts += [_PLACE.pack(place, times << 4 | memory.stood.get(place, 0)) for place, times in kept]
    for change in memory.tellings:
        parts.append(_TELLING.pack(change.at, change.ago, len(change.places)))
        parts += [place.to_bytes(4, "little") for place in sorted(change.places)]
    return b"".join(parts)


def unpacked(raw: bytes) -> Memory:
    """Restore a memory written by `packed`; `NOTHING` for any other bytes."""
    try:
        version, places, tellings = raw[:3] or (0, 0, 0)
        if version != _VERSION:
            return NOTHING
        at, differed, stood = 3, {}, {}
        for place, times in _PLACE.iter_unpack(raw[at : at + places * _PLACE.size]):
            differed[place] = times >> 4
            if times & 15:
                stood[place] = times & 15
        at += places * _PLACE.size
        reported = []
        for _ in range(tellings):
            when, ago, many = _TELLING.unpack_from(raw, at)
            at += _TELLING.size
            reported.append(Telling(when, ago, frozenset(struct.unpack_from(f"<{many}I", raw, at))))
            at += 4 * many
    except (struct.error, ValueError):
        return NOTHING
    return Memory(differed, stood, tuple(reported)) if at == len(raw) else NOTHING
