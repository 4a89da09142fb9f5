"""Modes that take turns quickly, fitted together.

Fitted alone, a mode that a rule chose because pages poured in would seem to bring
more of them than it does. The likelihood of all modes together has no such bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fieldmouse.compiled import COMPILED
from fieldmouse.queueing.fit.intervals import Pieces
from fieldmouse.queueing.fit.mapem import most_likely
from fieldmouse.queueing.fit.mapfit import order_two
from fieldmouse.queueing.fit.modefit import LAGS, ModeFit

LATEST = 8000
"""Pieces of time that are looked at, the latest: enough, and soon done."""

_SHAKEN = 0.05  # of the rate, added everywhere at the start: a rate of 0 would stay 0


def fit_together(pieces: Pieces, fits: Mapping[int, ModeFit]) -> tuple[dict[int, ModeFit], str]:
    """Fit all modes together; returns them with a remark for the report.

    Two phases per mode must earn their parameters, or all modes are Poisson.
    """
    if not COMPILED:
        return dict(fits), (
            "modes took turns quickly, and to fit them together takes the extra `fieldmouse[lab]`: "
            "fitted one by one, the mode of a full buffer seems faster than it is"
        )
    lengths, batch = pieces.lengths[-LATEST:], pieces.batch[-LATEST:]
    known, modes = np.unique(pieces.modes[-LATEST:], return_inverse=True)
    modes = modes.astype(np.int64)
    counts = np.bincount(modes, weights=batch, minlength=len(known))
    seconds = np.bincount(modes, weights=lengths, minlength=len(known))
    rates = np.maximum(counts, 0.5) / np.maximum(seconds, 1e-9)
    best = None
    for scv, decay in {_shape(fit) for fit in fits.values()} | {(2.0, 0.5)}:
        pattern = order_two(1.0, scv, None, decay)
        D1 = pattern.D1 + _SHAKEN
        D0 = np.where(np.eye(2), 0.0, pattern.D0 + _SHAKEN)
        D0 -= np.diag(D0.sum(axis=1) + D1.sum(axis=1))
        scale = rates[:, None, None]
        turns = most_likely(D0 * scale, D1 * scale, lengths, modes, batch, rounds=6)
        if best is None or turns.likelihood > best.likelihood:
            best = turns
    assert best is not None
    best = most_likely(best.D0, best.D1, lengths, modes, batch, rounds=40)
    plain = float((counts * np.log(rates) - rates * seconds).sum())
    earned = 2 * (best.likelihood - plain) > 3 * len(fits) * np.log(max(counts.sum(), 2))
    found: dict[int, ModeFit] = {}
    for mode, fit in fits.items():
        if not earned:
            rate = fit.stream.rate
            found[mode] = replace(
                fit, D0=np.array([[-rate]]), D1=np.array([[rate]]), law="Poisson", remarks=()
            )
        elif mode in known:
            place = int(np.searchsorted(known, mode))
            found[mode] = replace(
                fit,
                D0=best.D0[place],
                D1=best.D1[place],
                law="Markovian arrivals of order 2, fitted with all modes together",
                correlations=np.zeros(LAGS),
                expected=best.expected[place],
                remarks=(),
            )
        else:
            found[mode] = fit
    how = "of two phases each" if earned else "and need no phases"
    return found, f"modes took turns quickly: they were fitted together, {how}"


def _shape(fit: ModeFit) -> tuple[float, float]:
    """Variation and decay to start from, as the mode alone showed them."""
    law = fit.arrivals().intervals
    return round(min(max(law.scv, 0.5), 20.0), 1), 0.3 if law.scv > 1 else 0.0
