"""Log of page changes in the synthetic web, the reference for measuring a crawler's freshness.

A heap holds the next change of each page, so a second without changes costs nothing. If several processes
serve a meadow, only one writes the log.
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fieldmouse.lab.meadow.change import PageVersion
from fieldmouse.lab.meadow.fates import Whereabout
from fieldmouse.lab.meadow.meadow import Meadow
from fieldmouse.lab.meadow.paths import Nook, nook_path, path_of
from fieldmouse.lab.meadow.plan import Site
from fieldmouse.url import Url

_NEVER = PageVersion(0, math.inf)


class MeadowChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: from `t` on, `url` shows another `revision`, or is `new`, `gone`, `moved` or `back`."""

    t: float  # epoch seconds
    url: Url
    revision: int
    kind: str = "changed"


def changes_after(meadow: Meadow, start: float) -> Iterator[MeadowChange]:
    """Yield all changes to the pages of a meadow after `start`, in order of time, without end.

    Changes of a page that is away are not yielded; a moved page changes at its new URL.
    """
    heap: list[tuple[float, int, int, Iterator[MeadowChange], MeadowChange]] = []
    for site in meadow.plan.sites:
        for page in range(site.size):
            course = _course(meadow, site, page, start)
            first = next(course, None)
            if first is not None:
                heap.append((first.t, site.number, page, course, first))
    heapq.heapify(heap)
    while heap:
        _, number, page, course, change = heap[0]
        yield change
        later = next(course, None)
        if later is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (later.t, number, page, course, later))


def _course(meadow: Meadow, site: Site, page: int, start: float) -> Iterator[MeadowChange]:
    """Yield the changes of one page."""
    changes, fates = meadow.desk.changes, meadow.desk.fates
    here = Url(site.origin + path_of(site, page))
    home = Url(site.origin + nook_path(Nook.HOME, page))
    turns = [turn for turn in fates.turns(site, page) if turn.at > start]
    story = fates.story_from(site, page)
    revision, where = changes.version(site, page, start).number, fates.where(site, page, start)
    for version in _with_end(changes.after(site, page, start)):
        while turns and turns[0].at < version.since:
            turn = turns.pop(0)
            where = turn.where
            if where is Whereabout.HERE:
                yield MeadowChange(turn.at, here, changes.version(site, page, turn.at).number, "back")
            else:
                kind = "moved" if where is Whereabout.MOVED else "gone"
                yield MeadowChange(turn.at, here, revision, kind)
        if version is _NEVER or where is Whereabout.GONE:
            return
        revision = version.number
        if where is Whereabout.HERE or where is Whereabout.MOVED:
            yield MeadowChange(version.since, here if where is Whereabout.HERE else home, revision)
        if story == version.since:
            yield MeadowChange(version.since, Url(site.origin + nook_path(Nook.STORY, page)), 0, "new")


def _with_end(versions: Iterator[PageVersion]) -> Iterator[PageVersion]:
    """Append a version at infinite time, because a page that never changes may still vanish or move."""
    yield from versions
    yield _NEVER


class ChangeLog:
    """Writer of all changes from `start` on; they are written when their time comes."""

    def __init__(self, meadow: Meadow, path: Path, start: float):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        self._coming = changes_after(meadow, start)
        self._next = next(self._coming, None)

    def advance(self, now: float) -> None:
        """Write all changes up to `now`."""
        lines = []
        encode = msgspec.json.encode
        while self._next is not None and self._next.t <= now:
            lines.append(encode(self._next) + b"\n")
            self._next = next(self._coming, None)
        left = b"".join(lines)
        while left:
            left = left[os.write(self._file, left) :]

    def close(self) -> None:
        os.close(self._file)
