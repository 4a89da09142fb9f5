"""A refresh that is killed again and again: nothing learned is lost, no burst, and all versions are there.

FIELDMOUSE_KILLS sets how often; `make torture` kills more.
"""

from __future__ import annotations

import os
from pathlib import Path

from .versions import kill_refreshes

KILLS = int(os.environ.get("FIELDMOUSE_KILLS", "8")) * 3 // 4


def test_a_refresh_that_is_killed_again_and_again_keeps_what_it_learned_and_every_version(tmp_path: Path) -> None:
    verdict, kills = kill_refreshes(tmp_path, 2026, KILLS)
    assert not verdict.flaws, verdict
    assert kills >= KILLS
