"""Pages that come, go and move: what happens to the few pages to which more happens than changes.

As with changes, nothing is remembered: a page's fate follows from the seed, and when it
comes about is counted from the time at which the meadow began. Before that
time the meadow is what its truth says. Only leaves vanish or move, so that what is left
stays within reach.
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
    """Where a page is at some time."""

    HERE = "here"
    AWAY = "away"  # 404, for a while
    GONE = "gone"  # 410, for good
    MOVED = "moved"  # 301, for good


class Turn(NamedTuple):
    """From some time on a page is elsewhere."""

    at: float
    where: Whereabout


class Fates:
    """What becomes of the pages of a meadow. `any` is False where nothing ever comes or goes."""

    def __init__(self, options: MeadowOptions, changes: Changes):
        self._seed, self._began, self._staying = options.seed, options.began, options.staying
        self._vanishing, self._moving = below(options.vanishing), below(options.moving)
        self._appearing = below(options.appearing)
        self._changes, self._signs = changes, Signs(options)
        self.any = bool(self._vanishing or self._moving or self._appearing)

    def turns(self, site: Site, page: int) -> list[Turn]:
        """What happens to the page, in order of time."""
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
        """From when on the page links to a new one: its first change of all. None if it never does."""
        if not self._appearing or original_of(site, page) != page or self.turns(site, page):
            return None
        if throw(self._seed, "story", site.number, page)[0] >= self._appearing:
            return None
        if self._signs.is_nofollow(site, page, dice_of(site, page)):
            return None  # nobody would find it
        first = next(self._changes.after(site, page, self._began), None)
        return first.since if first else None

    def has_story(self, site: Site, page: int, at: float) -> bool:
        since = self.story_from(site, page)
        return since is not None and since <= at
