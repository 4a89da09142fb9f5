"""The power goes at a sync: what was synced before is on the disk, and nobody does anything after."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest


class PowerCut(BaseException):
    """Nobody may handle it."""


@contextmanager
def power_cut(after: int) -> Iterator[None]:
    """Within it the disk syncs so many files, and at the next one the power goes."""
    real, left = os.fdatasync, after

    def cut(handle: int) -> None:
        nonlocal left
        if not left:
            raise PowerCut
        left -= 1
        real(handle)

    with pytest.MonkeyPatch.context() as patch, suppress(PowerCut):
        patch.setattr(os, "fdatasync", cut)
        yield
