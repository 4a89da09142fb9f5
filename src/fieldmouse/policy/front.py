"""How many hosts should be online.

The front must be wide enough that a robot which asks finds a host that has
cooled down, and no wider: each host online holds URLs in memory and a place that
a host with fresher links could have. Nobody can say the right width beforehand,
since it is about delay times fetches per second; so it follows what the robots
meet. Hunger widens it at once, plenty narrows it slowly.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FrontRule:
    """The width of the front, moved by hunger and by plenty within two bounds."""

    minimum: int = 64
    maximum: int = 4096
    growth: float = 1.5  # a robot found nothing ready: the front becomes this much wider
    plenty: float = 0.5  # this share of the front ready and idle is more than the robots can use
    decay: float = 0.98  # then it becomes this much narrower, a step at a time

    def __post_init__(self) -> None:
        assert 1 <= self.minimum <= self.maximum, "the front's bounds are the wrong way round"
        assert self.growth > 1.0 > self.decay > 0.0, "growth widens, decay narrows"

    def after_hunger(self, target: int) -> int:
        """The width when a robot asked in vain although more URLs wait.

        >>> FrontRule(minimum=64, maximum=100).after_hunger(64)
        96
        """
        return min(self.maximum, max(target + 1, int(target * self.growth)))

    def after_plenty(self, target: int, ready: int) -> int:
        """The width when `ready` hosts stand idle; unchanged unless that is a good part of the front.

        >>> FrontRule(minimum=64).after_plenty(100, ready=80), FrontRule().after_plenty(100, ready=10)
        (98, 100)
        """
        if ready <= self.plenty * target:
            return target
        return max(self.minimum, min(target - 1, int(target * self.decay)))
