"""Neutral policy: every drawn URL goes online. The reference for all others.

Large hosts fill the front, because they fill the source.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from fieldmouse.policy.distribution.tally import Tally

H = TypeVar("H", bound=Hashable)


class Neutral(Tally[H]):
    """Policy without an offline side. URLs stored by an earlier policy are recalled last."""

    def recall(self, dry: bool = False) -> H | None:
        return next(iter(self.absent), None) if dry else None

    def place(self, host: H) -> bool:
        return True
