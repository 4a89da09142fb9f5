"""A made-up paper with a handful of experiments, to try the lab's desk on.

Also a program: `python tinypaper.py WORDS` is `fieldmouse WORDS` with this paper
in the catalogue instead of the real ones.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np

from fieldmouse.errors import FieldmouseError
from fieldmouse_lab import catalogue
from fieldmouse_lab.catalogue import Experiment, Figure, Panel, Progress, Result, Row, Series, Verdict

MICE = Row("mice, delta 5", 114.0, 113.83, 4.13, Verdict.SAME)
SLIPPED = Row("mice, delta 6", 67.5, 76.51, None, Verdict.MISPRINT, "the digits were <swapped>")
LUCKY = Row("mice, delta 7", 125.0, 141.2, 5.0, Verdict.OUTLIER)
OWN = Row("the answer", None, 42.0, None, Verdict.NEW)
LOST = Row("voles", 3.0, math.nan, math.inf, Verdict.DIFFERENT, "they left")

CURVE = Series("mice & voles", np.linspace(1, 100, 50), np.geomspace(1, 1e4, 50))
GAPPED = Series("gaps", [1.0, 2.0, 3.0, 4.0], [1.0, math.nan, 9.0, 16.0], style="points")
FIGURE = Figure("tiny-figure", "How many", (Panel("time", "mice", (CURVE, GAPPED), y_log=True),), "By hand.")


def table(progress: Progress) -> Result:
    progress(0.5, "counting mice")
    return Result((MICE, SLIPPED, LUCKY, OWN), (FIGURE,), ("Mice were counted at dawn.",))


def lost(progress: Progress) -> Result:
    return Result((LOST,))


def grid(progress: Progress) -> Result:
    """Delta down, gamma across, numpy's numbers instead of Python's."""
    return Result(
        tuple(
            Row(
                f"delta {delta}, gamma {gamma}",
                np.float64(delta * gamma),
                np.float64(delta * gamma),
                None,
                Verdict.SAME,
            )
            for delta in (10, 9, 8)
            for gamma in (0.7, 0.9)
        )
    )


def endless(progress: Progress) -> Result:
    """Says where it is, and stays until it is ended."""
    progress(0.25, f"waiting in process {os.getpid()}")
    signal.pause()
    raise AssertionError


def stubborn(progress: Progress) -> Result:
    """Like a compiled kernel: does not hear an interrupt."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return endless(progress)


def refused(progress: Progress) -> Result:
    raise FieldmouseError("the mice are asleep", "come back at dusk")


def broken(progress: Progress) -> Result:
    raise ZeroDivisionError("mice by zero")


def killed(progress: Progress) -> Result:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def unequipped(progress: Progress) -> Result:
    raise ModuleNotFoundError("No module named 'scipy'", name="scipy.linalg")


EXPERIMENTS = (
    Experiment("tiny-table", "tiny", "Mice in a field", "Counts `mice`.\n\nTwice.", table),
    Experiment("tiny-grid", "tiny", "Mice by delta and gamma", "", grid),
    Experiment("tiny-lost", "lost", "Voles", "", lost),
    Experiment("tiny-endless", "trouble", "Never ends", "", endless),
    Experiment("tiny-stubborn", "trouble", "Never ends, whatever one says", "", stubborn),
    Experiment("tiny-refused", "trouble", "Cannot", "", refused),
    Experiment("tiny-broken", "trouble", "Has a bug", "", broken),
    Experiment("tiny-killed", "trouble", "Is killed", "", killed),
    Experiment("tiny-unequipped", "trouble", "Lacks a library", "", unequipped),
)


@contextmanager
def in_the_catalogue(*experiments: Experiment) -> Iterator[None]:
    """These experiments (the tiny paper, if none is given) in place of the real ones."""
    module = ModuleType("fieldmouse_lab.papers.tiny")
    module.EXPERIMENTS = experiments or EXPERIMENTS  # type: ignore[attr-defined]
    real, catalogue.PAPERS = catalogue.PAPERS, ("tiny",)
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        catalogue.PAPERS = real
        del sys.modules[module.__name__]


if __name__ == "__main__":
    from fieldmouse.cli.main import main

    with in_the_catalogue():
        main()
