"""Figure of a fitted model and its data: distribution functions, and correlations of arrivals."""

from __future__ import annotations

import numpy as np

from fieldmouse.lab.catalogue import Figure, Panel, Series
from fieldmouse.queueing.fit.goodness import FittedPart, Goodness


def fit_figure(report: Goodness, name: str = "fit", title: str = "The crawl and its model") -> Figure:
    """Build a figure with one panel for each part's distribution and one for each mode with correlations."""
    panels: list[Panel] = []
    for part in report.parts:
        if len(part.curve.times):
            panels.append(_distribution(part))
        if any(part.correlations):
            panels.append(_correlations(part))
    return Figure(name, title, tuple(panels), " ".join(f"{said}." for said in report.sentences()))


def _distribution(part: FittedPart) -> Panel:
    curve = part.curve
    seen = curve.times > 0
    chance = "" if part.chance is None else f", chance {'' if part.played else '≤ '}{part.chance:.2g}"
    return Panel(
        x_label="batches expected since the last" if part.rescaled else "seconds",
        y_label="share of times up to this",
        series=(
            Series("data", curve.times[seen].tolist(), curve.data[seen].tolist(), "steps"),
            Series("fit", curve.times[seen].tolist(), curve.fit[seen].tolist(), "dashes"),
        ),
        title=f"{part.name}: {part.distance:.3f} apart{chance}",
        x_log=bool(seen.any()) and float(curve.times.max()) > 100 * float(np.median(curve.times[seen])),
    )


def _correlations(part: FittedPart) -> Panel:
    lags = list(range(1, len(part.correlations) + 1))
    return Panel(
        x_label="intervals apart",
        y_label="correlation",
        series=(
            Series("data", lags, list(part.correlations), "points"),
            Series("fit", lags, list(part.fitted_correlations), "dashes"),
        ),
        title=f"{part.name}: correlations",
    )
