"""Token bucket that limits polls per second.

The bucket's state is as durable as the page table. A pause fills the bucket no higher than any other idle
time, so no burst follows a pause. After a kill it is unknown how much was spent since the checkpoint, so
all saved tokens count as spent. Polls that were in flight at the checkpoint may be made twice; the bucket
goes into debt for them.
"""

from __future__ import annotations

import math

import msgspec

_BURST = 5.0  # seconds of polls that may be saved up and spent at once
_UNKNOWN = 60.0  # seconds after the last checkpoint by which a kill is assumed to have happened
_OWED = 60.0  # seconds of polls that may be owed; when more are in flight, most have not been made twice


class BucketState(msgspec.Struct, frozen=True, array_like=True):
    """Tokens in the bucket at a time; `at` 0.0 means never used. Negative tokens are debt."""

    tokens: float = 0.0
    at: float = 0.0

    def after_kill(self, under_way: int, sealed_at: float) -> BucketState:
        """Return the state to resume with after a kill: no saved tokens, and a debt of `under_way` polls."""
        return BucketState(min(self.tokens, 0.0) - under_way, sealed_at + _UNKNOWN)


class TokenBucket:
    """Bucket that gains `rate` tokens per second; a rate of None means no limit.

    Over any time t at most `rate * t + most` tokens are spent, even if the crawl is restarted in between.
    """

    def __init__(self, rate: float | None, purse: BucketState):
        self.rate, self.capacity = rate, _capacity_of(rate)
        owed = max(1.0, rate * _OWED) if rate is not None else 0.0
        self._tokens, self._at = max(min(purse.tokens, self.capacity), -owed), purse.at

    def set_rate(self, rate: float, now: float) -> None:
        """Change the rate; saved tokens stay, up to the new capacity."""
        self.available(now)
        self.rate, self.capacity = rate, _capacity_of(rate)
        self._tokens = min(self._tokens, self.capacity)

    @property
    def state(self) -> BucketState:
        return BucketState(self._tokens, self._at)

    def available(self, now: float) -> float:
        """Number of polls that may be spent now: a whole number, or infinity."""
        if self.rate is None:
            return math.inf
        if self._at and now > self._at:
            self._tokens = min(self.capacity, self._tokens + (now - self._at) * self.rate)
        # a time in the future (after a kill, or a clock set back) neither adds nor removes tokens
        self._at = now
        # A sum of many small additions may end just below a whole number.
        return math.floor(self._tokens + 1e-9)

    def spend(self, number: int) -> None:
        if self.rate is not None:
            self._tokens -= number

    def next_token_at(self, now: float) -> float:
        """Time at which the next token is available; infinity if the rate is 0."""
        if self.rate is None or self.available(now) >= 1:
            return now
        return now + (1.0 - self._tokens) / self.rate if self.rate else math.inf


def _capacity_of(rate: float | None) -> float:
    return max(1.0, rate * _BURST) if rate is not None else math.inf
