"""Whole agents in several places, in virtual time: learned waits of hosts, and their placement."""

from __future__ import annotations

from pathlib import Path

from fieldmouse.cluster.client.placement import UNIT
from fieldmouse.policy.balance.host_row import TripRow
from fieldmouse_lab.network.live_trial import Region
from fieldmouse_lab.network.virtual_trial import crossed

LAND = Region(hosts=6, pages=240, places=3)


def test_learned_waits_never_exceed_actual_waits(tmp_path: Path) -> None:
    """A host that moves to an agent waits there from then on; fetch workers are always free here."""
    seen, learned = crossed(tmp_path, LAND, "kalman", seed=9)
    rows = [TripRow.from_row(row, "delays") for row in learned]
    assert len(rows) == seen.hosts
    means = [mean * UNIT for row in rows for mean in row.mean]
    assert len(means) > len(rows), "some hosts were visited from several places"
    assert max(means) < 10.0, "seconds, not the age of the epoch"
