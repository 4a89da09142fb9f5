"""Modes of different patterns share their phases, also where one of them always begins in the same phase."""

from __future__ import annotations

import numpy as np

from fieldmouse.queueing.fit.fit import fit
from fieldmouse.queueing.fit.trace import Trace


def test_a_poisson_mode_stands_beside_one_that_is_almost_regular() -> None:
    chance = np.random.default_rng(7)
    count, seconds = 1500, 0.0
    arrived, robots = [], []
    switched, mode = [], []
    for number, steps in ((4, chance.gamma(2.0, 0.05, count)), (1, chance.exponential(0.4, count))):
        switched.append(seconds)
        mode.append(number)
        arrived.append(seconds + np.cumsum(steps))
        robots.append(np.full(count, number))
        seconds = float(arrived[-1][-1]) + 1e-3
    trace = Trace(
        arrived=np.concatenate(arrived),
        robots=np.concatenate(robots),
        span=seconds,
        service=chance.exponential(0.1, count),
        switched=np.array(switched),
        mode=np.array(mode),
    )
    model = fit(trace, 10).model
    assert model.arrival_phases == 2
    for number, rate in ((1, 2.5), (4, 10.0)):
        # Four deviations of a mean of so many intervals.
        assert abs(model.modes[number].rate / rate - 1) < 4 / np.sqrt(count)
    assert abs(model.modes[4].intervals.scv - 0.5) < 0.1
    assert abs(model.modes[1].intervals.scv - 1.0) < 1e-6
