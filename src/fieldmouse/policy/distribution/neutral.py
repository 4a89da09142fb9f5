"""Every URL drawn goes online: the reference that shows what the others are worth.

Large hosts fill the front, because they fill the source.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from fieldmouse.policy.distribution.tally import Tally

H = TypeVar("H", bound=Hashable)


class Neutral(Tally[H]):
    """No offline side. Only what an earlier policy stored is ever recalled, and last."""

    def recall(self, dry: bool = False) -> H | None:
        return next(iter(self.absent), None) if dry else None

    def place(self, host: H) -> bool:
        return True
