"""Whole agents in several places, in virtual time: learned waits of hosts, and their placement."""

from __future__ import annotations

from pathlib import Path

from fieldmouse.balancer.choice import UNIT
from fieldmouse.lab.network.bottled import crossed
from fieldmouse.lab.network.places import Region
from fieldmouse.policy.balance.triprow import TripRow

LAND = Region(hosts=6, pages=240, places=3)


def test_learned_waits_never_exceed_actual_waits(tmp_path: Path) -> None:
    """A host that moves to an agent waits there from then on; fetch workers are always free here."""
    seen, learned = crossed(tmp_path, LAND, "kalman", seed=9)
    rows = [TripRow.from_row(row, "delays") for row in learned]
    assert len(rows) == seen.hosts
    means = [mean * UNIT for row in rows for mean in row.mean]
    assert len(means) > len(rows), "some hosts were visited from several places"
    assert max(means) < 10.0, "seconds, not the age of the epoch"
