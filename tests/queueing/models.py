"""Models that hypothesis makes up, and the examples that the paper prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

rates = st.floats(0.05, 20.0)
some_rates = st.just(0.0) | rates
"""Rates that may well be none."""


def written(name: str) -> dict[str, Any]:
    """An example, as decoded JSON."""
    found: dict[str, Any] = json.loads((EXAMPLES / f"{name}.json").read_text())
    return found


def square(draw: st.DrawFn, n: int, entries: st.SearchStrategy[float] = some_rates) -> FloatArray:
    return np.array(draw(st.lists(entries, min_size=n * n, max_size=n * n))).reshape(n, n)


@st.composite
def phase_types(draw: st.DrawFn, most: int = 4) -> PhaseType:
    """Every phase leads to the next and the last one out; anything more is chance."""
    n = draw(st.integers(1, most))
    S = square(draw, n)
    S[np.arange(n - 1), np.arange(1, n)] = draw(rates)
    out = np.array(draw(st.lists(some_rates, min_size=n, max_size=n)))
    out[-1] = draw(rates)
    np.fill_diagonal(S, 0.0)
    np.fill_diagonal(S, -S.sum(axis=1) - out)
    alpha = np.array([draw(rates), *draw(st.lists(some_rates, min_size=n - 1, max_size=n - 1))])
    return PhaseType(alpha / alpha.sum(), S)


@st.composite
def streams(draw: st.DrawFn, phases: int | None = None, most: int = 3) -> BatchArrivals:
    """The phases form a ring, so that each leads to each; the last matrix brings pages."""
    n = phases or draw(st.integers(1, 3))
    D = [square(draw, n) for _ in range(draw(st.integers(2, most + 1)))]
    D[draw(st.integers(0, len(D) - 1))] += draw(rates) * np.roll(np.eye(n), 1, axis=1)
    D[-1][0, 0] += draw(rates)
    np.fill_diagonal(D[0], 0.0)
    np.fill_diagonal(D[0], -sum(one.sum(axis=1) for one in D))
    return BatchArrivals(tuple(D))
