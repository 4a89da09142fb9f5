"""Lifetimes of pages: the few pages that appear, vanish or move.

Like changes, lifetimes are not stored: they follow from the seed, and times count from the start of the
meadow. Before that time the meadow matches its ground truth. Only leaves vanish or move, so the other pages
stay reachable.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from fieldmouse.lab.meadow.change import Changes
from fieldmouse.lab.meadow.dice import below, exponential, throw
from fieldmouse.lab.meadow.options import MeadowOptions
from fieldmouse.lab.meadow.paths import Signs, dice_of, original_of
from fieldmouse.lab.meadow.plan import FANOUT, Site


class Whereabout(Enum):
    """Location of a page at some time."""

    HERE = "here"
    AWAY = "away"  # 404, temporarily
    GONE = "gone"  # 410, permanently
    MOVED = "moved"  # 301, permanently


class Turn(NamedTuple):
    """Change of a page's location at time `at`."""

    at: float
    where: Whereabout


class Fates:
    """Lifetimes of the pages of a meadow. `any` is False if no page ever appears, vanishes or moves."""

    def __init__(self, options: MeadowOptions, changes: Changes):
        self._seed, self._began, self._staying = options.seed, options.began, options.staying
        self._vanishing, self._moving = below(options.vanishing), below(options.moving)
        self._appearing = below(options.appearing)
        self._changes, self._signs = changes, Signs(options)
        self.any = bool(self._vanishing or self._moving or self._appearing)

    def turns(self, site: Site, page: int) -> list[Turn]:
        """Location changes of the page, in order of time."""
        if not self.any or page * FANOUT + 1 < site.linked or page == 0 or original_of(site, page) != page:
            return []
        dice = throw(self._seed, "fate", site.number, page)
        at = self._began + self._staying * exponential(dice[2])
        if dice[0] < self._vanishing:
            if dice[3] & 1:
                return [Turn(at, Whereabout.GONE)]
            back = at + self._staying * exponential(dice[4])
            return [Turn(at, Whereabout.AWAY), Turn(back, Whereabout.HERE)]
        return [Turn(at, Whereabout.MOVED)] if dice[1] < self._moving else []

    def where(self, site: Site, page: int, at: float) -> Whereabout:
        passed = [turn.where for turn in self.turns(site, page) if turn.at <= at]
        return passed[-1] if passed else Whereabout.HERE

    def story_from(self, site: Site, page: int) -> float | None:
        """Time of the first change, from which the page links to a new page. None if it never does."""
        if not self._appearing or original_of(site, page) != page or self.turns(site, page):
            return None
        if throw(self._seed, "story", site.number, page)[0] >= self._appearing:
            return None
        if self._signs.is_nofollow(site, page, dice_of(site, page)):
            return None  # a crawler would not find it
        first = next(self._changes.after(site, page, self._began), None)
        return first.since if first else None

    def has_story(self, site: Site, page: int, at: float) -> bool:
        since = self.story_from(site, page)
        return since is not None and since <= at
