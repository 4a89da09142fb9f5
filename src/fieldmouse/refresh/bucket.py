"""A budget of so many polls a second, kept over any time: a bucket of tokens.

What is in it is as durable as the ledger. A pause fills it no higher than any other time without polls, so
there is no burst after it. After a kill nobody knows what was spent since the checkpoint: all of it, then.
And polls that were under way at the checkpoint may have been made, and are made again: they are owed for.
"""

from __future__ import annotations

import math

import msgspec

_BURST = 5.0  # seconds whose polls may be spent at once, if nobody asked meanwhile
_UNKNOWN = 60.0  # seconds after a checkpoint within which a kill has come, if one came
_OWED = 60.0  # seconds whose polls may be owed: of more polls under way most have not been made twice


class Purse(msgspec.Struct, frozen=True, array_like=True):
    """What was in the bucket, and when; at 0.0 nobody has looked yet. Less than nothing is owed."""

    tokens: float = 0.0
    at: float = 0.0

    def after_kill(self, under_way: int, sealed_at: float) -> Purse:
        """Nothing was left of it when the kill came, and so many polls may be made for the second time."""
        return Purse(min(self.tokens, 0.0) - under_way, sealed_at + _UNKNOWN)


class Bucket:
    """`rate` tokens a second; None: as many as anybody wants.

    Over any time t at most `rate * t + most` are spent, however often it is opened again.
    """

    def __init__(self, rate: float | None, purse: Purse):
        self.rate, self.most = rate, _most(rate)
        owed = max(1.0, rate * _OWED) if rate is not None else 0.0
        self._tokens, self._at = max(min(purse.tokens, self.most), -owed), purse.at

    def set_rate(self, rate: float, now: float) -> None:
        """From now on so many a second; what was saved stays, as far as it may."""
        self.whole(now)
        self.rate, self.most = rate, _most(rate)
        self._tokens = min(self._tokens, self.most)

    @property
    def purse(self) -> Purse:
        return Purse(self._tokens, self._at)

    def whole(self, now: float) -> float:
        """How many polls may be spent now: a whole number, or infinitely many."""
        if self.rate is None:
            return math.inf
        if self._at and now > self._at:
            self._tokens = min(self.most, self._tokens + (now - self._at) * self.rate)
        self._at = now  # a time to come, by a kill or a clock set back, gives nothing and takes nothing
        # A sum of many small parts may be a hair less than the whole.
        return math.floor(self._tokens + 1e-9)

    def spend(self, number: int) -> None:
        if self.rate is not None:
            self._tokens -= number

    def next_at(self, now: float) -> float:
        """When there will be one."""
        if self.rate is None or self.whole(now) >= 1:
            return now
        return now + (1.0 - self._tokens) / self.rate if self.rate else math.inf


def _most(rate: float | None) -> float:
    return max(1.0, rate * _BURST) if rate is not None else math.inf
