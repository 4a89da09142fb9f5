"""Size of the front: the number of hosts kept online.

The front must be large enough that a fetch worker always finds a host whose delay has passed, and no
larger: each host online holds URLs in memory and a place that a host with newer links could use. The
right size is about delay times fetches per second and cannot be known in advance, so it follows the
workers' demand. A worker that finds no host enlarges the front at once; idle hosts shrink it slowly.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FrontSizeRule:
    """Rule that grows and shrinks the front between two bounds."""

    minimum: int = 64
    maximum: int = 4096
    growth: float = 1.5  # growth factor when a fetch worker found no ready host
    plenty: float = 0.5  # share of the front ready and idle that is more than the workers can use
    decay: float = 0.98  # factor of one step of shrinking

    def __post_init__(self) -> None:
        assert 1 <= self.minimum <= self.maximum, "the front's bounds are the wrong way round"
        assert self.growth > 1.0 > self.decay > 0.0, "growth widens, decay narrows"

    def grown_size(self, target: int) -> int:
        """Size after a worker found no host although URLs are waiting.

        >>> FrontSizeRule(minimum=64, maximum=100).grown_size(64)
        96
        """
        return min(self.maximum, max(target + 1, int(target * self.growth)))

    def shrunk_size(self, target: int, ready: int) -> int:
        """Size while `ready` hosts are idle; unchanged unless that is a large share of the front.

        >>> FrontSizeRule(minimum=64).shrunk_size(100, ready=80), FrontSizeRule().shrunk_size(100, ready=10)
        (98, 100)
        """
        if ready <= self.plenty * target:
            return target
        return max(self.minimum, min(target - 1, int(target * self.decay)))
