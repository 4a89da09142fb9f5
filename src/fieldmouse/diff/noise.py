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

POLLS_TO_LEARN = 3  # polls in a row
MAX_PLACES = 80  # places remembered for one page
MAX_PLACES_PER_CHANGE = 40  # places of one reported change; a change with more is never withdrawn

_VERSION = 1
_PLACE = struct.Struct("<IB")  # place; polls in a row on which it differed, and on which it did not
_TELLING = struct.Struct("<dBB")  # time; polls since then; number of places


class ReportedChange(NamedTuple):
    """A reported change that may still turn out to be noise."""

    at: float
    polls_ago: int  # polls
    places: frozenset[int]


class NoiseMemory(NamedTuple):
    polls_differing: dict[int, int]  # polls in a row, at most `POLLS_TO_LEARN`, by place
    polls_unchanged: dict[int, int]  # places that are noise: polls in a row without a difference
    reported_changes: tuple[ReportedChange, ...] = ()

    @property
    def noise(self) -> frozenset[int]:
        return frozenset(place for place, times in self.polls_differing.items() if times >= POLLS_TO_LEARN)


class NoiseUpdate(NamedTuple):
    """Result of one more poll."""

    memory: NoiseMemory
    changed: bool  # there is a change to report
    withdrawn: tuple[float, ...] = ()  # `at` of the reported changes that were only noise


EMPTY_MEMORY = NoiseMemory({}, {})


def learn_difference(memory: NoiseMemory, seen: Comparison, at: float) -> NoiseUpdate:
    """Update the memory by one poll; `seen` is the comparison with the previous version."""
    places = {item.place for item in seen.differences}
    memory = _aged(memory, places - {0})
    noise = memory.noise
    reported = places - noise
    withdrawn = [item for item in memory.reported_changes if item.places <= noise]
    tellings = [item for item in memory.reported_changes if item not in withdrawn]
    if reported and 0 not in reported and len(reported) <= MAX_PLACES_PER_CHANGE:
        tellings.append(ReportedChange(at, 0, frozenset(reported)))
    after = memory._replace(reported_changes=tuple(tellings))
    return NoiseUpdate(after, bool(reported), tuple(item.at for item in withdrawn))


def learn_unchanged(memory: NoiseMemory) -> NoiseMemory:
    """Update the memory by one poll on which the page was the same."""
    return _aged(memory, frozenset())


def _aged(memory: NoiseMemory, places: Iterable[int]) -> NoiseMemory:
    """Update the memory by one poll on which exactly `places` differed."""
    differed = {place: min(POLLS_TO_LEARN, memory.polls_differing.get(place, 0) + 1) for place in places}
    stood = {}
    for place in memory.noise:
        if place not in differed and memory.polls_unchanged.get(place, 0) + 1 < POLLS_TO_LEARN:
            differed[place] = POLLS_TO_LEARN
            stood[place] = memory.polls_unchanged.get(place, 0) + 1
    tellings = (
        change._replace(polls_ago=change.polls_ago + 1)
        for change in memory.reported_changes
        if change.polls_ago + 1 < POLLS_TO_LEARN
    )
    return NoiseMemory(differed, stood, tuple(tellings))


# -- serialization


def pack_memory(memory: NoiseMemory) -> bytes:
    """Serialize a memory, an empty one as b""; at most about 900 bytes.

    Beyond `MAX_PLACES` the places with the longest runs of differences are kept.
    """
    if not memory.polls_differing and not memory.reported_changes:
        return b""
    kept = sorted(memory.polls_differing.items(), key=lambda place: -place[1])[:MAX_PLACES]
    parts = [bytes((_VERSION, len(kept), len(memory.reported_changes)))]
    parts += [_PLACE.pack(place, times << 4 | memory.polls_unchanged.get(place, 0)) for place, times in kept]
    for change in memory.reported_changes:
        parts.append(_TELLING.pack(change.at, change.polls_ago, len(change.places)))
        parts += [place.to_bytes(4, "little") for place in sorted(change.places)]
    return b"".join(parts)


def unpack_memory(raw: bytes) -> NoiseMemory:
    """Restore a memory written by `pack_memory`; `EMPTY_MEMORY` for any other bytes."""
    try:
        version, places, tellings = raw[:3] or (0, 0, 0)
        if version != _VERSION:
            return EMPTY_MEMORY
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
            reported.append(ReportedChange(when, ago, frozenset(struct.unpack_from(f"<{many}I", raw, at))))
            at += 4 * many
    except (struct.error, ValueError):
        return EMPTY_MEMORY
    return NoiseMemory(differed, stood, tuple(reported)) if at == len(raw) else EMPTY_MEMORY
