"""Printed numbers of the thesis on KALMAN-BLAWLB, and the interpretations where its text is ambiguous.

Tarjei Romtveit, Load-balancing by applying a Bayesian Learning Automata (BLA) scheme in a non-stationary
web-crawler network, master's thesis, University of Agder, 2010. Numbers are read from
`printed/network.toml`. Levels that the thesis gives as a range ("1 - 1.1") are kept as a range.

Round trips as printed cannot give the printed level of consistent hashing. Two interpretations do:
calibrated trips and literal trips with more work per visit. The noises in table 7.4 are either standard
deviations or variances. The text says little about IPMicra's transfer of subnets between agents; the
other extreme is that a subnet is never transferred. A number that lies between interpretations is open.
Interpretations were fitted only to the level of consistent hashing, and those that do not give it are
excluded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from fieldmouse_lab.catalogue import read_printed
from fieldmouse_lab.network.environment import TripReading
from fieldmouse_lab.network.play import NetworkSetting, web_of_seed


@dataclass(frozen=True, slots=True)
class PrintedRun:
    """One row of tables 7.4 and 7.5, with the levels that the text gives."""

    name: str
    policy: str
    times: int  # 1: Small, 10: Large
    exchanges: str
    sigma_tr: float = 0.1
    sigma_ob: float = 2.0
    rate: tuple[float, float] | None = None  # visits per second
    fairness: tuple[float, float] | None = None  # seconds

    @property
    def environment(self) -> str:
        return "Small" if self.times == 1 else "Large"


RUNS = msgspec.convert(read_printed("network")["run"], tuple[PrintedRun, ...])

#: Sizes of the partitions by environment (Table 7.2).
PARTITIONS = {"Small": (6, 13, 25, 56), "Large": (60, 130, 250, 560)}

#: Number of complaints that no subnet reaches.
NEVER_TRANSFERRED = 1 << 60
#: Seconds of work per visit with which literal trips also give the printed level of hashing.
LITERAL_WORK = 1.5
#: Largest relative difference from the rate of distance-blind rules at which a rule counts as distance-blind.
BLIND_TOLERANCE = 0.03


@dataclass(frozen=True, slots=True)
class ThesisInterpretation:
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

    def apply(self, setting: NetworkSetting) -> NetworkSetting:
        """Return the setting of a run under this interpretation."""
        setting = replace(
            setting, reading=self.trips, work=self.work, complaints=NEVER_TRANSFERRED if self.never else 0
        )
        if not self.variances:
            return setting
        return replace(setting, sigma_tr=setting.sigma_tr**0.5, sigma_ob=setting.sigma_ob**0.5)


def interpretations(one: PrintedRun) -> Iterator[ThesisInterpretation]:
    """Yield the interpretations, ours first."""
    kalman = one.policy == "kalman"
    for trips, work in ((TripReading.CALIBRATED, None), (TripReading.LITERAL, LITERAL_WORK)):
        yield ThesisInterpretation(trips, work)
        yield ThesisInterpretation(trips, work, variances=kalman, never=not kalman)


def blind_rate(setting: NetworkSetting, seeds: tuple[int, ...]) -> float:
    """Exact visits per second when hosts are assigned to agents without regard to distance.

    The work of each agent per visit is then the mean over all hosts, and no agent is idle.
    """
    return float(np.mean([(1 / web_of_seed(setting, seed).service.mean(axis=0)).sum() for seed in seeds]))
