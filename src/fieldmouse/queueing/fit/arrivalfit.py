"""Arrivals for every mode asked for: those seen fitted, those unseen made of the nearest seen.

Each mode is fitted for itself where that is enough, and all together where they take
turns so fast that it is not. They must share one number of phases, since the phase
is kept when the mode changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

import numpy as np

from fieldmouse.queueing.fit.intervals import Seen
from fieldmouse.queueing.fit.jointfit import fit_together
from fieldmouse.queueing.fit.modefit import CUT_OFTEN, FEWEST, ModeFit, fit_mode
from fieldmouse.queueing.fit.phfit import FitError
from fieldmouse.queueing.model.bmap import BatchArrivals
from fieldmouse.queueing.model.entries import FloatArray

Unseen: TypeAlias = Literal["trend", "ratio", "refuse"]


def fit_modes(
    seen: Seen, modes: Collection[int] | None, unseen: Unseen, remembered: Mapping[int, float]
) -> tuple[dict[int, BatchArrivals], dict[int, ModeFit], list[str]]:
    """Arrivals for each mode asked for (None: each seen well enough), the fits behind them, and remarks.

    An unseen mode is its nearest seen neighbour, made faster by the ratio of robots
    ("ratio"), or by that ratio to a power that the seen modes tell ("trend": robots
    that share a full line bring less each). If its rate is `remembered`, it is as much
    faster or slower than that neighbour as it was then.
    """
    enough = {mode: stream for mode, stream in seen.streams.items() if mode > 0 and stream.counted >= FEWEST}
    if not enough:
        most = max((stream.counted for stream in seen.streams.values()), default=0)
        raise FitError(
            f"no number of robots brought more than {most} batches, and {FEWEST} are needed",
            "let the crawl run longer before a model is fitted to it",
        )
    asked = sorted(enough) if modes is None else sorted(set(modes))
    fits = {mode: fit_mode(stream) for mode, stream in enough.items()}
    remarks: list[str] = []
    if any(len(fit.D0) > 1 for fit in fits.values()) and any(
        fit.stream.cut_share > CUT_OFTEN for fit in fits.values()
    ):
        fits, said = fit_together(seen.pieces, fits)
        remarks.append(said)
    patterned = {mode: fit for mode, fit in fits.items() if len(fit.D0) > 1}
    known = {mode: fit.arrivals(_start(mode, patterned)) for mode, fit in fits.items()}
    power = growth({mode: arrivals.rate for mode, arrivals in known.items()}) if unseen == "trend" else 1.0
    found: dict[int, BatchArrivals] = {}
    for mode in asked:
        if mode in known:
            found[mode] = known[mode]
            continue
        if unseen == "refuse":
            raise FitError(
                f"{robots(mode)} were never seen at work for long", f"seen were {', '.join(map(str, known))}"
            )
        near = _nearest(mode, known)
        if mode in remembered:
            faster = remembered[mode] / remembered.get(near, known[near].rate)
            how = "not seen lately", ", as they were before"
        else:
            faster = (mode / near) ** power
            how = "hardly seen", ""
        found[mode] = known[near].scaled(faster)
        remarks.append(
            f"arrivals with {robots(mode)} were {how[0]}: taken for those with {near}, "
            f"{faster:.2f} times as fast{how[1]}"
        )
    return found, {mode: fit for mode, fit in fits.items() if mode in found}, remarks


def growth(rates: Mapping[int, float]) -> float:
    """The power of the number of robots with which the rate grows, from 0 to 1; 1 when one number was seen.

    >>> round(growth({1: 2.0, 4: 4.0}), 3)
    0.5
    """
    if len(rates) < 2:
        return 1.0
    slope = np.polyfit(np.log(list(rates)), np.log(list(rates.values())), 1)[0]
    return float(np.clip(slope, 0.0, 1.0))


def robots(mode: int) -> str:
    return "1 robot" if mode == 1 else f"{mode} robots"


def _nearest(mode: int, known: Mapping[int, object]) -> int:
    return min(known, key=lambda other: (abs(np.log(mode / other)), other))


def _start(mode: int, patterned: Mapping[int, ModeFit]) -> FloatArray | None:
    """How a Poisson mode spreads over two phases: as the nearest mode that needs two begins its intervals."""
    if not patterned:
        return None
    return BatchArrivals(
        (patterned[(near := _nearest(mode, patterned))].D0, patterned[near].D1)
    ).intervals.alpha
