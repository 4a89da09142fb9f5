"""What differs at every look at a page, and so is no news: learned place by place, and forgotten again.

A difference is a change until its place differed on three polls running; then it is noise, and
changes told on the two polls before, if there was nothing else to them, are withdrawn. A place that
stood still on three polls running is noise no more: what happens there next is news again.

What a page's looks taught travels with it in less than a kilobyte: `memory`. Of a memory
that cannot be read nothing is known, and learning begins anew.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from fieldmouse.indexer.comparison import Comparison

RUNNING = 3  # polls in a row
PLACES = 80  # remembered of one page
NAMED = 40  # places of one telling; one with more is a change, whatever becomes of them

_VERSION = 1
_PLACE = struct.Struct("<IB")  # its number; polls in a row on which it differed, and on which it did not
_TELLING = struct.Struct("<dBB")  # when; polls ago; how many places


class Telling(NamedTuple):
    """A change that was told, and that may yet prove to be noise."""

    at: float
    ago: int  # polls
    places: frozenset[int]


class Memory(NamedTuple):
    differed: dict[int, int]  # polls in a row, `RUNNING` at most, by place
    stood: dict[int, int]  # of places that are noise: polls in a row on which they were as before
    tellings: tuple[Telling, ...] = ()

    @property
    def noise(self) -> frozenset[int]:
        return frozenset(place for place, times in self.differed.items() if times >= RUNNING)


class Lesson(NamedTuple):
    """What one more look taught."""

    memory: Memory
    changed: bool  # there is something to tell
    withdrawn: tuple[float, ...] = ()  # `at` of the changes that were only noise


NOTHING = Memory({}, {})


def learn(memory: Memory, seen: Comparison, at: float) -> Lesson:
    """One more look, at which the page differed from the one before as `seen` says."""
    places = {one.place for one in seen.differing}
    memory = _aged(memory, places - {0})
    noise = memory.noise
    told = places - noise
    withdrawn = [one for one in memory.tellings if one.places <= noise]
    tellings = [one for one in memory.tellings if one not in withdrawn]
    if told and 0 not in told and len(told) <= NAMED:
        tellings.append(Telling(at, 0, frozenset(told)))
    after = memory._replace(tellings=tuple(tellings))
    return Lesson(after, bool(told), tuple(one.at for one in withdrawn))


def rest(memory: Memory) -> Memory:
    """One more look, at which the page was the same."""
    return _aged(memory, frozenset())


def _aged(memory: Memory, places: Iterable[int]) -> Memory:
    """One poll later, on which `places` differed and no others."""
    differed = {place: min(RUNNING, memory.differed.get(place, 0) + 1) for place in places}
    stood = {}
    for place in memory.noise:
        if place not in differed and memory.stood.get(place, 0) + 1 < RUNNING:
            differed[place] = RUNNING
            stood[place] = memory.stood.get(place, 0) + 1
    tellings = (one._replace(ago=one.ago + 1) for one in memory.tellings if one.ago + 1 < RUNNING)
    return Memory(differed, stood, tuple(tellings))


# -- in bytes


def packed(memory: Memory) -> bytes:
    """Nothing for nothing; at most about 900 bytes. Beyond `PLACES` those that differed longest are kept."""
    if not memory.differed and not memory.tellings:
        return b""
    kept = sorted(memory.differed.items(), key=lambda place: -place[1])[:PLACES]
    parts = [bytes((_VERSION, len(kept), len(memory.tellings)))]
    parts += [_PLACE.pack(place, times << 4 | memory.stood.get(place, 0)) for place, times in kept]
    for one in memory.tellings:
        parts.append(_TELLING.pack(one.at, one.ago, len(one.places)))
        parts += [place.to_bytes(4, "little") for place in sorted(one.places)]
    return b"".join(parts)


def unpacked(raw: bytes) -> Memory:
    """What `packed` wrote; `NOTHING` for whatever else."""
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
        told = []
        for _ in range(tellings):
            when, ago, many = _TELLING.unpack_from(raw, at)
            at += _TELLING.size
            told.append(Telling(when, ago, frozenset(struct.unpack_from(f"<{many}I", raw, at))))
            at += 4 * many
    except (struct.error, ValueError):
        return NOTHING
    return Memory(differed, stood, tuple(told)) if at == len(raw) else NOTHING
