"""Printed numbers of the thesis on KALMAN-BLAWLB: its settings, and the levels read from its figures.

Tarjei Romtveit, Load-balancing by applying a Bayesian Learning Automata (BLA) scheme in a non-stationary
web-crawler network, master's thesis, University of Agder, 2010. Levels that the thesis gives as a range
("1 - 1.1") are kept as a range. Its plots have no numbers; ours are drawn for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass


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


RUNS = (
    PrintedRun("experiment 1", "kalman", 1, "1795.49", 0.1, 2.0, rate=(1.2, 1.3)),
    PrintedRun("experiment 2", "kalman", 1, "46242", 2.0, 4.0, rate=(1.5, 1.5)),
    PrintedRun("experiment 3", "kalman", 1, "25715.58", 0.1, 20.0, rate=(1.2, 1.3)),
    PrintedRun("experiment 4", "kalman", 10, "14542.13", 0.1, 2.0, rate=(1.2, 1.3), fairness=(250, 300)),
    PrintedRun("experiment 5", "kalman", 10, "12131.8", 2.0, 4.0, rate=(1.2, 1.3), fairness=(250, 300)),
    PrintedRun("experiment 6", "kalman", 10, "19726", 1.0, 20.0, rate=(1.2, 1.3), fairness=(250, 300)),
    PrintedRun("consistent hashing, Small", "hash", 1, "0", rate=(1.0, 1.1)),
    PrintedRun("consistent hashing, Large", "hash", 10, "0", rate=(1.0, 1.1), fairness=(200, 400)),
    PrintedRun("IPMicra, Small", "ipmicra", 1, "92.78", rate=(1.0, 1.1)),
    PrintedRun("IPMicra, Large", "ipmicra", 10, "1046.43", fairness=(1000, 1200)),
)

PARTITIONS = {"Small": (6, 13, 25, 56), "Large": (60, 130, 250, 560)}
"""Sizes of the partitions by environment (Table 7.2)."""
