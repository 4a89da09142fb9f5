"""Interpretations of the thesis where its text is ambiguous.

Round trips as printed cannot give the printed level of consistent hashing. Two interpretations do:
calibrated trips (`lab/network/environment.py`), and literal trips with more work per visit. The noises in
table 7.4 are either standard deviations or variances. The text says little about IPMicra's transfer of
subnets between agents; the other extreme is that a subnet is never transferred. A number that lies between
interpretations is open, because the interpretation behind it is unknown. Interpretations were fitted only
to the level of consistent hashing, and those that do not give it are excluded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fieldmouse.lab.network.environment import TripReading
from fieldmouse.lab.network.play import NetworkSetting, ground_of
from fieldmouse.lab.papers.network_printed import PrintedRun

NEVER = 1 << 60
"""Number of complaints that no subnet reaches."""
LITERAL_WORK = 1.5
"""Seconds of work per visit with which literal trips also give the printed level of hashing."""
BLIND = 0.03
"""Largest relative difference from the rate of distance-blind rules at which a rule counts as distance-blind.
"""


@dataclass(frozen=True, slots=True)
class ThesisReading:
    """One interpretation of the ambiguous points."""

    trips: TripReading = TripReading.CALIBRATED
    work: float | None = None  # seconds per visit; None: the default for these trips
    variances: bool = False  # table 7.4 gives variances
    never: bool = False  # a subnet is never offered again

    @property
    def name(self) -> str:
        parts = [f"{self.trips} trips"]
        parts += [f"{self.work:g} s of work"] if self.work else []
        parts += ["noises as variances"] if self.variances else []
        parts += ["subnets never offered anew"] if self.never else []
        return ", ".join(parts)

    def of(self, setting: NetworkSetting) -> NetworkSetting:
        """Return the setting of a run under this interpretation."""
        setting = replace(setting, reading=self.trips, work=self.work, complaints=NEVER if self.never else 0)
        if not self.variances:
            return setting
        return replace(setting, sigma_tr=setting.sigma_tr**0.5, sigma_ob=setting.sigma_ob**0.5)


def readings(one: PrintedRun) -> Iterator[ThesisReading]:
    """Yield the interpretations, ours first."""
    kalman = one.policy == "kalman"
    for trips, work in ((TripReading.CALIBRATED, None), (TripReading.LITERAL, LITERAL_WORK)):
        yield ThesisReading(trips, work)
        yield ThesisReading(trips, work, variances=kalman, never=not kalman)


def blind_rate(setting: NetworkSetting, seeds: tuple[int, ...]) -> float:
    """Exact visits per second when hosts are assigned to agents without regard to distance.

    The work of each agent per visit is then the mean over all hosts, and no agent is idle.
    """
    return float(np.mean([(1 / ground_of(setting, seed).service.mean(axis=0)).sum() for seed in seeds]))
