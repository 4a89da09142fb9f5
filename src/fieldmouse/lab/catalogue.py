"""What the lab can run: experiments by name, and the rows, figures and verdicts they bring home.

An experiment is a value with a function. It knows what a paper printed, computes
our own number, and says of each whether the two agree. It never prints: the
command line and the report show its result. Papers and experiments of our own
stand in modules of `fieldmouse.lab.papers`, each with a tuple `EXPERIMENTS`; a
module is imported only when somebody asks what there is.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from fieldmouse.errors import UsageError
from fieldmouse.lab.extras import extras

PAPERS: tuple[str, ...] = (
    "urn",
    "live_frontier",
    "thresholds",
    "live_thresholds",
    "refresh",
    "live_refresh",
    "network",
    "live_network",
)
"""Modules with experiments, in the order in which they are listed."""


class Verdict(StrEnum):
    """What became of a printed number."""

    SAME = "same"  # within the stated tolerance or the spread over seeds
    MISPRINT = "misprint"  # the paper contradicts itself; the note says what is true
    OUTLIER = "outlier"  # one run of chance, too far out to come from the model as described
    OPEN = "open"  # what it depends on is not stated; it lies between our readings, which the note names
    DIFFERENT = "different"  # we do not get it, and do not know why
    NEW = "new"  # nothing was printed: ours alone


@dataclass(frozen=True, slots=True)
class Row:
    """One number: as printed (None: nothing was), ours, and how far ours moves from seed to seed."""

    label: str
    printed: float | None
    ours: float | None
    spread: float | None
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A curve; one without a label is drawn in grey and stays out of the legend."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: Literal["line", "points", "steps", "dashes", "bars"] = "line"


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    x_label: str
    y_label: str
    series: tuple[Series, ...]
    title: str = ""
    x_log: bool = False
    y_log: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels side by side; `name` is a file name without its ending."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    rows: tuple[Row, ...] = ()
    figures: tuple[Figure, ...] = ()
    remarks: tuple[str, ...] = ()  # sentences for the reader: conventions, what was found


Progress = Callable[[float, str], None]
"""Told how much of an experiment is done, from 0 to 1, and what is being done."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """`id` is what `lab run` is given; `group` runs together with others of its name.

    `run` is called in a process of its own, which ends with it. An experiment that
    measures time is `alone`: no other runs while it does. Experiments that name the
    same work in `shares` run one after another in one process, so that what they
    keep in a cache is computed once for all of them ("" shares with nobody).
    """

    id: str
    group: str
    title: str
    about: str
    run: Callable[[Progress], Result]
    alone: bool = False
    shares: str = ""


class NoSuchExperiment(UsageError):
    """Asked to run what is not in the catalogue."""


def experiments() -> dict[str, Experiment]:
    """All experiments by id."""
    found: dict[str, Experiment] = {}
    for name in PAPERS:
        with extras():
            module = importlib.import_module(f"fieldmouse.lab.papers.{name}")
        for experiment in module.EXPERIMENTS:
            assert experiment.id not in found, f"two experiments are called {experiment.id}"
            found[experiment.id] = experiment
    if not found:
        raise NoSuchExperiment("the lab has no experiments", "`PAPERS` in lab/catalogue.py should name some")
    return found


def chosen(*names: str) -> list[Experiment]:
    """The experiments of these ids and groups, each once and in the order of the catalogue.

    No name, or `all`, means everything. A name that is both is an id.
    """
    known = experiments()
    groups = {experiment.group for experiment in known.values()} - set(known)
    for name in names:
        if name not in {"all", *known, *groups}:
            near = difflib.get_close_matches(name, [*groups, *known], n=1)
            raise NoSuchExperiment(
                f"there is no experiment or group `{name}`",
                f"did you mean `{near[0]}`?" if near else "`fieldmouse lab list` shows them all",
            )
    if not names or "all" in names:
        return list(known.values())
    wanted = set(names)
    return [one for one in known.values() if one.id in wanted or one.group in wanted & groups]
