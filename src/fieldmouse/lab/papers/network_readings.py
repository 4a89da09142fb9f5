"""How the thesis can be read where it leaves things open, and what must hold in every reading.

Round trips as they are printed cannot give the printed level of consistent hashing. Two readings do:
calibrated ones (`lab/network/environment.py`), and literal ones with more work. The noises in its table
7.4 are standard deviations or variances; of IPMicra it says little of how a subnet changes hands: the
other extreme is that none ever does. A number that lies between readings is open: nobody can know which
of them it was made with. No reading was made to fit a number but the level of consistent hashing, and
none counts that does not give it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fieldmouse.lab.network.environment import TripReading
from fieldmouse.lab.network.play import NetworkSetting, ground_of
from fieldmouse.lab.papers.network_printed import PrintedRun

NEVER = 1 << 60
"""Complaints that no subnet lives to see."""
LITERAL_WORK = 1.5
"""Seconds: with so much work each visit, literal trips give the printed level of hashing, too."""
BLIND = 0.03
"""A rule that comes so near to the rate of blind ones does not see distances."""


@dataclass(frozen=True, slots=True)
class ThesisReading:
    """One way to read what is open."""

    trips: TripReading = TripReading.CALIBRATED
    work: float | None = None  # seconds with each visit; None: as usual with these trips
    variances: bool = False  # table 7.4 has variances
    never: bool = False  # a subnet is never offered anew

    @property
    def name(self) -> str:
        said = [f"{self.trips} trips"]
        said += [f"{self.work:g} s of work"] if self.work else []
        said += ["noises as variances"] if self.variances else []
        said += ["subnets never offered anew"] if self.never else []
        return ", ".join(said)

    def of(self, setting: NetworkSetting) -> NetworkSetting:
        """A run in this reading, from one in ours."""
        setting = replace(setting, reading=self.trips, work=self.work, complaints=NEVER if self.never else 0)
        if not self.variances:
            return setting
        return replace(setting, sigma_tr=setting.sigma_tr**0.5, sigma_ob=setting.sigma_ob**0.5)


def readings(one: PrintedRun) -> Iterator[ThesisReading]:
    """Ours first."""
    kalman = one.policy == "kalman"
    for trips, work in ((TripReading.CALIBRATED, None), (TripReading.LITERAL, LITERAL_WORK)):
        yield ThesisReading(trips, work)
        yield ThesisReading(trips, work, variances=kalman, never=not kalman)


def blind_rate(setting: NetworkSetting, seeds: tuple[int, ...]) -> float:
    """Visits a second where hosts go to agents without regard to distance, exactly.

    Each agent then works for the mean over all hosts with each visit, and none is idle.
    """
    return float(np.mean([(1 / ground_of(setting, seed).service.mean(axis=0)).sum() for seed in seeds]))
