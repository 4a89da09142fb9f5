"""Catalogue of the lab's experiments, with the types of their results and the optional libraries they need.

An experiment is a value with a function. It holds the number a paper printed, computes our own, and judges
whether the two agree. It never prints: the command line and the report show its result. The modules of
`fieldmouse_lab.papers` each have a tuple `EXPERIMENTS`; a module is imported only when the catalogue is
read.

scipy, numba and matplotlib are the extra `fieldmouse[lab]`; a crawl does not need them. They are first
imported deep inside an experiment, so experiments run within `explain_missing_extra()`.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import math
import multiprocessing
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeVar

import numpy as np

from fieldmouse.errors import FieldmouseError, UsageError

T = TypeVar("T")
U = TypeVar("U")

LIBRARIES = ("scipy", "numba", "matplotlib")


class MissingExtra(FieldmouseError):
    """A library of the extra `fieldmouse[lab]` is not installed."""

    def __init__(self, library: str):
        super().__init__(f"the lab needs {library}, which is not installed")
        self.library = library
        self.hint = "`pip install 'fieldmouse[lab]'`"


@contextmanager
def explain_missing_extra() -> Iterator[None]:
    """Convert the import error of a lab library to a `MissingExtra`."""
    try:
        yield
    except ModuleNotFoundError as missing:
        library = (missing.name or "").partition(".")[0]
        if library not in LIBRARIES:
            raise
        raise MissingExtra(library) from missing


#: Modules with experiments, in the order of listing.
_MODULES = {
    "bubing": "tables text_numbers figures beyond live",
    "thresholds": "tables figures policy live",
    "polling": "tests measures zipf packing policies live",
    "network": "tables live",
}
PAPERS = tuple(f"{paper}.{name}" for paper, names in _MODULES.items() for name in names.split())


def read_printed(name: str) -> dict[str, Any]:
    """Printed numbers of a paper, from its file in `papers/printed`."""
    return tomllib.loads(files("fieldmouse_lab.papers").joinpath(f"printed/{name}.toml").read_text())


class Verdict(StrEnum):
    """Judgement of a printed number."""

    SAME = "same"  # within the stated tolerance or the spread over seeds
    MISPRINT = "misprint"  # the paper contradicts itself; the note gives the correct value
    OUTLIER = "outlier"  # one random run, too far out to come from the model as described
    OPEN = "open"  # the paper omits a parameter; the number lies between our readings, which the note names
    DIFFERENT = "different"  # we cannot reproduce it, for unknown reasons
    NEW = "new"  # nothing was printed; only ours exists


@dataclass(frozen=True, slots=True)
class Row:
    """One number: as printed (None if it was not), ours, and the spread of ours over seeds."""

    label: str
    printed: float | None
    ours: float | None
    spread: float | None
    verdict: Verdict
    note: str = ""
    fields: Mapping[str, object] = field(default_factory=dict)  # of its JSON object, beside the others


def finite_number(value: float | None) -> float | None:
    """Convert numpy's numbers to Python's, and numbers that are not finite to None."""
    return float(value) if value is not None and math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Sample:
    """One quantity over several games: mean, spread (standard deviation) and number of games."""

    mean: float
    spread: float
    games: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Sample:
        assert len(values) > 1, "one game has no spread"
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)), len(values))

    @property
    def prediction_spread(self) -> float:
        """Standard deviation of one further game around our mean, which has an error too."""
        return self.spread * math.sqrt(1 + 1 / self.games)


def new_row(label: str, ours: float | Sample | Sequence[float], note: str = "") -> Row:
    """Return a row for a number that was not printed; of several values it has mean and spread."""
    if isinstance(ours, Sequence):
        ours = Sample.of(ours) if len(ours) > 1 else ours[0]
    mean, spread = (ours.mean, ours.spread) if isinstance(ours, Sample) else (ours, None)
    return Row(label, None, mean, spread, Verdict.NEW, note)


@dataclass(frozen=True, slots=True)
class Series:
    """Curve; without a label it is drawn in grey and left out of the legend."""

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
    """Panels side by side; `name` is a file name without its extension."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    rows: tuple[Row, ...] = ()
    figures: tuple[Figure, ...] = ()
    remarks: tuple[str, ...] = ()  # sentences for the reader: conventions and findings


#: Callback with the completed share of an experiment, from 0 to 1, and the current step.
Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment. `lab run` takes its `id`, or its `group` to run the whole group.

    `run` is called in a separate process, which ends with it. An experiment that measures time is `alone`:
    no other experiment runs at the same time. Experiments with the same non-empty `shares` run one after
    another in one process, so that cached work is computed once for all of them.
    """

    id: str
    group: str
    title: str
    about: str
    run: Callable[..., Result]
    alone: bool = False
    shares: str = ""
    seeded: bool = False  # `run` also takes `first_seed`

    def with_first_seed(self, seed: int) -> Experiment:
        """The experiment with other seeds, from this one on; itself if it has no choice of seeds."""
        return replace(self, run=partial(self.run, first_seed=seed)) if self.seeded else self


def experiment(
    id: str,
    title: str,
    run: Callable[..., Result],
    about: str = "",
    *,
    group: str = "",
    alone: bool = False,
    shares: str = "",
    seeded: bool = False,
) -> Experiment:
    """Return an experiment; by default its group is the first word of its id, and `about` the docstring of `run`."""
    about = about or inspect.getdoc(run) or ""
    return Experiment(id, group or id.partition("-")[0], title, about, run, alone, shares, seeded)


def map_in_processes(
    function: Callable[[T], U], items: Sequence[T], progress: Progress, describe: Callable[[T], str] = str
) -> Iterator[U]:
    """Call `function` for every item, in as many processes as there are cores; results in the order of the items."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("fork")) as pool:
        found = [pool.submit(function, item) for item in items]
        for future in with_progress(found, progress, lambda future: describe(items[found.index(future)])):
            yield future.result()


def with_progress(items: Sequence[T], progress: Progress, describe: Callable[[T], str] = str) -> Iterator[T]:
    """Yield the items, and report before each how many are done and which comes next."""
    for done, item in enumerate(items):
        progress(done / len(items), describe(item))
        yield item


def crawl_each(
    names: Sequence[str], seeds: Sequence[int], progress: Progress, crawl: Callable[[str, Path, int], T]
) -> dict[tuple[str, int], T]:
    """Call `crawl` for every name and seed, each time with a new directory; return the results by name and seed."""
    results: dict[tuple[str, int], T] = {}
    pairs = [(name, seed) for seed in seeds for name in names]
    for name, seed in with_progress(pairs, progress, lambda pair: f"{pair[0]}, seed {pair[1]}"):
        with TemporaryDirectory(prefix="fieldmouse-") as folder:
            results[name, seed] = crawl(name, Path(folder) / "crawl", seed)
    return results


class NoSuchExperiment(UsageError):
    """The experiment is not in the catalogue."""


def experiments() -> dict[str, Experiment]:
    """All experiments by id."""
    found: dict[str, Experiment] = {}
    for name in PAPERS:
        with explain_missing_extra():
            module = importlib.import_module(f"fieldmouse_lab.papers.{name}")
        for experiment in module.EXPERIMENTS:
            assert experiment.id not in found, f"two experiments are called {experiment.id}"
            found[experiment.id] = experiment
    if not found:
        raise NoSuchExperiment("the lab has no experiments", "`PAPERS` in fieldmouse_lab/catalogue.py should name some")
    return found


def select_experiments(*names: str) -> list[Experiment]:
    """Experiments with these ids and groups, each once and in the order of the catalogue.

    No name, or `all`, selects all experiments. A name that is both an id and a group means the id.
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
