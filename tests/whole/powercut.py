"""Power cut at a sync: files synced before are on the disk, and nothing happens after."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest


class PowerCut(BaseException):
    """Raised at the cut; no code may handle it."""


@contextmanager
def power_cut(after: int) -> Iterator[None]:
    """Cut the power at the next sync after the first `after`."""
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
