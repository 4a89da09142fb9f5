"""Whole agents in several places, in virtual time: learned waits of hosts, and their placement."""

from __future__ import annotations

from pathlib import Path

from fieldmouse.cluster.client.host_placement import ROUND_TRIP_UNIT
from fieldmouse.policy.balance.agent_choice import HostDelayEstimates
from fieldmouse_lab.network.live_trial import RegionSetup
from fieldmouse_lab.network.virtual_trial import run_virtual_trial

LAND = RegionSetup(hosts=6, pages=240, places=3)


def test_learned_waits_never_exceed_actual_waits(tmp_path: Path) -> None:
    """A host that moves to an agent waits there from then on; fetch workers are always free here."""
    seen, learned = run_virtual_trial(tmp_path, LAND, "kalman", seed=9)
    rows = [HostDelayEstimates.from_row(row, "delays") for row in learned]
    assert len(rows) == seen.hosts
    means = [mean * ROUND_TRIP_UNIT for row in rows for mean in row.mean]
    assert len(means) > len(rows), "some hosts were visited from several places"
    assert max(means) < 10.0, "seconds, not the age of the epoch"
