"""Drawing of figures: SVG for the report and for print, PNG for other uses; and the figure of a fitted model.

All figures have the same style: a colour-blind-safe palette (Okabe and Ito), thin axes without a box, and
a legend above the panels if they share it. After seven curves the colours repeat, dashed. In an HTML page
the colours are CSS variables, so that a figure follows the page's dark mode.
"""

from __future__ import annotations

import math
import re
from io import BytesIO
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldmouse.queueing.fit.goodness import FitReport, FittedPart
from fieldmouse_lab.catalogue import Figure, Panel, Series, explain_missing_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


INK, MUTED, RULE, PAPER = "#1c1d1f", "#5f6368", "#dddfe2", "#fefefe"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7f85")
DASHES = ((), (5, 1.6), (1.5, 1.5), (6, 1.6, 1.5, 1.6))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

#: CSS variables of a page for the colours of a figure.
VARIABLES = {INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--paper"} | {
    colour: f"--series-{number}" for number, colour in enumerate(PALETTE, 1)
}

#: Inches of one panel among several; a single panel is larger.
PANEL = (3.6, 2.7)

ALONE = (6.4, 3.8)

#: Letters per inch of a label; longer labels are wrapped.
LETTERS = 11

#: Letters per inch of a legend.
SMALL_LETTERS = 14

#: Maximum number of points of a curve; more make no visible difference. Half of it with several panels.
POINTS = 1000

LOOK: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "lines.linewidth": 1.5,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "legend.handlelength": 2.2,
    "svg.fonttype": "none",
    "svg.hashsalt": "fieldmouse",
    "path.simplify": True,
}


def require_matplotlib() -> None:
    """Raise now if matplotlib is missing."""
    with explain_missing_extra():
        import matplotlib.figure  # noqa: F401


def render_svg(figure: Figure) -> bytes:
    return _saved(figure, "svg")


def render_png(figure: Figure) -> bytes:
    return _saved(figure, "png")


def render_inline_svg(figure: Figure) -> str:
    """SVG for an HTML page that defines `VARIABLES` for its colours."""
    text = render_svg(figure).decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    text = re.sub(r'\bd="[^"]*"', _rounded, text)
    # Ids inside a figure must not collide with those of another figure on the same page.
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{figure.name}-", text)


def _rounded(path: re.Match[str]) -> str:
    """Round to a hundredth of a pixel, which halves the size."""
    return re.sub(r"(\.\d\d)\d+", r"\1", path[0])


def _saved(figure: Figure, kind: str) -> bytes:
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context(LOOK):
        canvas = Canvas(layout="constrained")
        _draw(figure, canvas)
        picture = BytesIO()
        canvas.savefig(picture, format=kind, dpi=160, transparent=kind == "svg", metadata=_anonymous(kind, figure))
    return picture.getvalue()


def _anonymous(kind: str, figure: Figure) -> dict[str, Any]:
    """Metadata without date, so that the same figure always gives the same file."""
    return {"Date": None, "Creator": None, "Title": figure.title} if kind == "svg" else {"Title": figure.title}


def _draw(figure: Figure, canvas: Canvas) -> None:
    across = columns(len(figure.panels))
    down = math.ceil(len(figure.panels) / across)
    width, height = ALONE if len(figure.panels) == 1 else PANEL
    canvas.set_size_inches(width * across, height * down)
    colours = _colours(figure)
    shared = _is_shared(figure)
    axes: list[Axes] = []
    for number, panel in enumerate(figure.panels, 1):
        ax = canvas.add_subplot(down, across, number)
        axes.append(ax)
        _draw_panel(panel, ax, colours, POINTS if len(figure.panels) == 1 else POINTS // 2)
        ax.set_xlabel(fill(panel.x_label, int(width * LETTERS)))
        ax.set_ylabel(fill(panel.y_label, int(height * LETTERS)))
        ax.set_title(fill(panel.title, int(width * LETTERS)))
        if not shared and _named(panel):
            # The legend must stay readable on top of curves.
            ax.legend(loc="best", frameon=True, framealpha=0.8, facecolor=PAPER, edgecolor="none")
    if shared and axes:
        handles, labels = axes[0].get_legend_handles_labels()
        fit = int(width * across * SMALL_LETTERS) // (max(map(len, labels)) + 6)
        canvas.legend(handles, labels, loc="outside upper left", ncols=max(1, min(len(labels), fit)))


def columns(panels: int) -> int:
    """Number of panels side by side: at most three, if possible without a row of one.

    >>> [columns(panels) for panels in range(1, 10)]
    [1, 2, 3, 2, 3, 3, 3, 3, 3]
    """
    return 2 if panels == 4 else min(max(panels, 1), 3)


def _colours(figure: Figure) -> dict[str, int]:
    """Colour number of each label, the same in every panel; series without a label are grey."""
    labels = dict.fromkeys(name for panel in figure.panels for name in _named(panel))
    return {label: number for number, label in enumerate(labels)}


def _named(panel: Panel) -> tuple[str, ...]:
    return tuple(series.label for series in panel.series if series.label)


def _is_shared(figure: Figure) -> bool:
    """Whether one legend fits all panels."""
    names = {_named(panel) for panel in figure.panels}
    return len(figure.panels) > 1 and len(names) == 1 and names != {()}


def _draw_panel(panel: Panel, ax: Axes, colours: dict[str, int], points: int) -> None:
    for series in panel.series:
        _draw_series(series, ax, colours.get(series.label), points)
    if panel.x_log:
        ax.set_xscale("log")
    if panel.y_log:
        ax.set_yscale("log")
    ax.grid(True, which="major")
    ax.margins(x=0.02)


def _draw_series(series: Series, ax: Axes, place: int | None, points: int) -> None:
    x, y = np.asarray(series.x, dtype=float), np.asarray(series.y, dtype=float)
    number = place or 0
    colour = MUTED if place is None else PALETTE[number % len(PALETTE)]
    match series.style:
        case "points":
            marker = MARKERS[number % len(MARKERS)]
            few = len(x) <= POINTS
            size = 3.5 if few else 1.5
            ax.plot(x, y, marker, color=colour, label=series.label, markersize=size, rasterized=not few)
        case "bars":
            ax.bar(x, y, width=_bar_width(x), color=colour, label=series.label, alpha=0.8)
        case "steps":
            ax.plot(*thinned(x, y, points), color=colour, label=series.label, drawstyle="steps-post")
        case "dashes":
            ax.plot(*thinned(x, y, points), color=colour, label=series.label, dashes=(5, 2), linewidth=1.2)
        case "line":
            dashes = DASHES[number // len(PALETTE) % len(DASHES)]
            ax.plot(*thinned(x, y, points), color=colour, label=series.label, dashes=dashes)


def _bar_width(x: Any) -> float:
    return 0.8 * float(np.min(np.diff(np.unique(x)))) if len(np.unique(x)) > 1 else 0.8


def thinned(x: Any, y: Any, points: int) -> tuple[Any, Any]:
    """Thin a curve to about `points` points with the same look: each interval keeps its extremes.

    >>> x, y = thinned(np.arange(10_000.0), np.sin(np.arange(10_000.0)), points=100)
    >>> len(x) <= 102, bool(max(y) > 0.99), bool(min(y) < -0.99)
    (True, True, True)
    """
    if len(x) <= points:
        return x, y
    stretches = points // 2
    length = -(-len(y) // stretches)
    padded = np.full(stretches * length, np.nan)
    padded[: len(y)] = y
    gaps = np.isnan(padded)  # an interval of only nan keeps one nan, and so stays a gap
    begins = np.arange(stretches) * length
    lowest = begins + np.where(gaps, np.inf, padded).reshape(stretches, length).argmin(axis=1)
    highest = begins + np.where(gaps, -np.inf, padded).reshape(stretches, length).argmax(axis=1)
    kept = np.unique(np.concatenate([[0, len(y) - 1], lowest, highest]))
    kept = kept[kept < len(y)]
    return x[kept], y[kept]


def fit_figure(report: FitReport, name: str = "fit", title: str = "The crawl and its model") -> Figure:
    """Build a figure with one panel for each part's distribution and one for each mode with correlations."""
    panels: list[Panel] = []
    for part in report.parts:
        if len(part.curve.times):
            panels.append(_distribution(part))
        if any(part.correlations):
            panels.append(_correlations(part))
    return Figure(name, title, tuple(panels), " ".join(f"{said}." for said in report.warnings()))


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
