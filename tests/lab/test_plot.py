"""Figures become pictures that say what their labels say."""

from __future__ import annotations

import math
import re
import struct
import sys
from typing import Literal, get_args
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinypaper
from fieldmouse_lab import plot
from fieldmouse_lab.catalogue import Figure, MissingExtra, Panel, Series

Style = Literal["line", "points", "steps", "dashes", "bars"]

TWO = (Series("index", [1, 2], [1, 4]), Series("greedy", [1, 2], [2, 3]))
EIGHT = Figure("eight", "Eight panels", tuple(Panel("steps", "hosts", TWO, title=f"gamma {n}") for n in range(1, 9)))


def words(picture: bytes) -> list[str]:
    tree = ElementTree.fromstring(picture)
    return [text.text or "" for text in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_axes_and_curves_are_labelled() -> None:
    said = words(plot.render_svg(tinypaper.FIGURE))
    assert {"time", "mice", "mice & voles", "gaps"} <= set(said)


def test_panels_that_share_their_curves_share_a_legend() -> None:
    said = words(plot.render_svg(EIGHT))
    assert said.count("index") == said.count("greedy") == 1
    assert [word for word in said if word.startswith("gamma")] == [f"gamma {n}" for n in range(1, 9)]


def test_panels_with_different_curves_have_separate_legends() -> None:
    panels = tuple(Panel("x", "y", (Series(name, [1, 2], [1, 2]),)) for name in ("mice", "voles"))
    said = words(plot.render_svg(Figure("two", "", panels)))
    assert said.count("mice") == said.count("voles") == 1


def test_a_curve_has_the_same_colour_in_every_panel() -> None:
    first = Panel("x", "y", (Series("mice", [1, 2], [1, 2]), Series("voles", [1, 2], [2, 1])))
    second = Panel("x", "y", (Series("voles", [1, 2], [1, 2]),))
    picture = plot.render_svg(Figure("two", "", (first, second))).decode()
    # Mice once and voles twice as curves, and each once in the legend of a panel: 2 and 4 strokes.
    assert picture.count(f"stroke: {plot.PALETTE[0]}") * 2 == picture.count(f"stroke: {plot.PALETTE[1]}") > 0


def test_a_curve_without_a_label_is_grey_and_leaves_the_colours_to_others() -> None:
    curves = (Series("mice", [1, 2], [1, 2]), Series("", [1, 2], [2, 1], "dashes"), Series("voles", [1, 2], [1, 1]))
    picture = plot.render_svg(Figure("three", "", (Panel("x", "y", curves),))).decode()
    assert [f"stroke: {colour}" in picture for colour in plot.PALETTE[:3]] == [True, True, False]
    assert set(words(picture.encode())) >= {"mice", "voles"}


@pytest.mark.parametrize("style", get_args(Style))
@pytest.mark.parametrize("log", [False, True])
def test_every_style_can_be_drawn(style: Style, log: bool) -> None:
    curve = Series(style, [1.0, 2.0, 3.0], [1.0, math.nan, 10.0], style)
    figure = Figure("one", "", (Panel("x", "y", (curve,), x_log=log, y_log=log),))
    assert style in words(plot.render_svg(figure))


def test_a_png_is_one() -> None:
    picture = plot.render_png(tinypaper.FIGURE)
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    assert width > height > 400


def test_the_same_figure_makes_the_same_file() -> None:
    assert plot.render_svg(tinypaper.FIGURE) == plot.render_svg(tinypaper.FIGURE)


def test_inside_a_page_the_colours_are_the_pages_and_names_are_the_figures_own() -> None:
    picture = plot.render_inline_svg(tinypaper.FIGURE)
    assert not [colour for colour in plot.VARIABLES if colour in picture]
    assert {"--ink", "--series-1", "--series-2"} <= set(re.findall(r"var\((--[\w-]+)\)", picture))
    names = re.findall(r'\bid="([^"]*)"', picture)
    assert names
    assert all(name.startswith("tiny-figure-") for name in names)
    used = re.findall(r'(?:url\(|href=")#([^")]*)', picture)
    assert used
    assert set(used) <= set(names)


def test_a_figure_without_matplotlib_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match="matplotlib"):
        plot.render_svg(tinypaper.FIGURE)


@given(st.integers(0, 2**32), st.integers(1, 3000), st.integers(4, 300), st.sampled_from([0.0, 0.1, 1.0]))
def test_a_thinned_curve_keeps_its_ends_and_its_extremes(seed: int, length: int, points: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    y = rng.normal(size=length)
    y[rng.random(length) < missing] = math.nan
    x, kept = plot.thinned(np.arange(length, dtype=float), y, points)
    assert len(x) <= min(length, points + 2)
    assert list(x) == sorted(set(x))
    assert (x[0], x[-1]) == (0, length - 1)
    np.testing.assert_array_equal(kept, y[x.astype(int)])
    if not np.all(np.isnan(y)):
        assert np.nanmin(kept) == np.nanmin(y)
        assert np.nanmax(kept) == np.nanmax(y)


def test_a_long_gap_stays_a_gap() -> None:
    y = np.ones(10_000)
    y[4_000:6_000] = np.nan
    x, kept = plot.thinned(np.arange(10_000.0), y, 200)
    assert np.isnan(kept[(x > 4_100) & (x < 5_900)]).all()
    assert np.isnan(kept).any()
