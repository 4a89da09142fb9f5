"""Course of a network over time, averaged over many webs, as the thesis plots it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fieldmouse.lab.network.floor import Measured
from fieldmouse.lab.network.play import NetworkGame, NetworkSetting, ground_of
from fieldmouse.policy.balance.kalman import Reals

PIECES = 150


@dataclass(frozen=True, slots=True, eq=False)
class NetworkCourse:
    """Runs on several webs (rows) in pieces of time (columns)."""

    ends: Reals  # end of each piece, in seconds
    visits: Reals  # per second
    unfair: Reals  # standard deviation of process times, seconds
    exchanges: Reals  # of whole runs

    @property
    def rate(self) -> Reals:
        """Visits per second over the last half of each run."""
        return np.asarray(self.visits[:, PIECES // 2 :].mean(axis=1))

    @property
    def fairness(self) -> Reals:
        """Fairness over the last half of each run."""
        return np.asarray(self.unfair[:, PIECES // 2 :].mean(axis=1))


def course(
    setting: NetworkSetting, seeds: Sequence[int], done: Callable[[int], None] = lambda runs: None
) -> NetworkCourse:
    """Play `setting` once for each seed; `done` receives the number of finished runs."""
    ends = np.linspace(0.0, setting.seconds, PIECES + 1)[1:]
    measured = np.zeros((len(seeds), PIECES + 1, len(Measured)))
    for row, seed in enumerate(seeds):
        game = NetworkGame(setting, ground_of(setting, seed), seed)
        for piece, end in enumerate(ends, 1):
            game.advance(end, measuring=True)
            measured[row, piece] = game.tables.measured
        done(row + 1)
    pieces = np.diff(measured, axis=1)
    return NetworkCourse(
        ends,
        pieces[:, :, Measured.VISITS] / pieces[:, :, Measured.SPAN],
        pieces[:, :, Measured.UNFAIR] / pieces[:, :, Measured.SPAN],
        measured[:, -1, Measured.EXCHANGES],
    )
