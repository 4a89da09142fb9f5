"""Distribution policies on whole crawls, compared with the ideal.

The urn game counts distinct hosts; these trials measure the effect on a crawl. `live-frontier` starts with
a list of all URLs in random order, as in the game: URLs of large hosts come before those of small ones.
`live-frontier-seeds` starts with three seeds and finds the rest by links. The ideal needs some 46 of the 500
hosts online on average; the front has room for fewer, for about as many and for more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np

from fieldmouse.config.settings_file import Settings
from fieldmouse_lab.catalogue import Figure, Panel, Progress, Result, Row, Series, Verdict, experiment, map_in_processes
from fieldmouse_lab.trial import PolicyTrial, TrialResult, run_trial

POLICIES = ("index", "mice-and-elephants", "greedy", "neutral")
DEFAULT = Settings().frontier.policy
#: Hosts online at most; None for the default front, which follows the demand.
PLACES = (14, 26, 48, 64, 96, None)
#: First of the seeds, and their number. None of these seeds was used to build the policies.
FIRST_SEED, SEEDS = 81, 3
#: Places of the crawls in the figure.
FIGURE_PLACES = 48

#: A trial, and the policy it is run with.
Task = tuple[PolicyTrial, str]


def crawl(task: Task) -> TrialResult:
    trial, policy = task
    with TemporaryDirectory(prefix="fieldmouse-") as folder:
        return run_trial(trial, policy, Path(folder) / "crawl")


def run(
    trial: PolicyTrial,
    name: str,
    progress: Progress,
    first_seed: int = FIRST_SEED,
    places: Sequence[int | None] = PLACES,
    seeds: int = SEEDS,
) -> Result:
    tasks = [
        (replace(trial, front=front, seed=seed), policy)
        for front in places
        for seed in range(first_seed, first_seed + seeds)
        for policy in POLICIES
    ]
    crawls = map_in_processes(crawl, tasks, progress, lambda task: f"{_places(task[0])} places, {task[1]}")
    return result(name, dict(zip(tasks, crawls, strict=True)))


def result(name: str, crawls: Mapping[Task, TrialResult]) -> Result:
    shares = {task: crawl.summary.pages / task[0].ideal() for task, crawl in crawls.items()}
    rows = [
        Row(
            f"{_places(trial)} places, policy {policy}, seed {trial.seed}",
            None,
            shares[trial, policy],
            None,
            Verdict.NEW,
            fields={
                "places": _places(trial),
                "policy": policy,
                "is_default": policy == DEFAULT,
                "seed": trial.seed,
                "pages": crawl.summary.pages,
                "bound": trial.ideal(),
            },
        )
        for (trial, policy), crawl in crawls.items()
    ]
    first = min((trial for trial, _ in crawls), key=lambda trial: (trial.front != FIGURE_PLACES, trial.seed))
    endings = {policy: crawls[first, policy] for policy in POLICIES}
    return Result(tuple(rows), (_figure(first, name, endings),), tuple(_remarks(shares)))


def _places(trial: PolicyTrial) -> int | str:
    return "default" if trial.front is None else trial.front


def mean_shares(shares: Mapping[Task, float]) -> dict[int | str, dict[str, float]]:
    """Mean share of the ideal over the seeds, by places and policy."""
    return {
        places: {
            policy: fmean(
                share for (trial, name), share in shares.items() if (_places(trial), name) == (places, policy)
            )
            for policy in POLICIES
        }
        for places in dict.fromkeys(_places(trial) for trial, _ in shares)
    }


def _remarks(shares: Mapping[Task, float]) -> list[str]:
    trial = next(trial for trial, _ in shares)
    ideal = trial.ideal()
    lines = [
        "Numbers are pages stored, over the ideal: the sum over hosts of min(size, time / delay),"
        f" {ideal:,.0f} of {trial.pages:,} pages on {trial.hosts} hosts"
        f" in {trial.time:g} s at {trial.delay:g} s a visit. No policy can exceed it, however many places there are."
        f" If each host held its place while it rests, it would take {ideal * trial.delay / trial.time:.1f} places"
        " on average."
    ]
    for places, means in mean_shares(shares).items():
        best = max(means, key=means.__getitem__)
        listed = ", ".join(f"{policy} {share:.1%}" for policy, share in means.items())
        lines.append(f"{places} places: {listed}; {best} is best.")
    return [
        *lines,
        f"A host's next visit comes a delay after the first byte of the last answer: a latency of {trial.latency:g} s"
        f" alone costs {trial.latency / (trial.delay + trial.latency):.1%} of the visits to large hosts.",
        "A place is a host here, not a ball as in the game, and holds 64 URLs at most on average."
        " What `neutral` loses, it loses when large hosts have filled that.",
    ]


def _figure(trial: PolicyTrial, name: str, endings: dict[str, TrialResult]) -> Figure:
    minutes = np.arange(0.0, trial.time + 1e-9, trial.delay) / 60
    ideal = [trial.ideal(60 * at) for at in minutes.tolist()]
    return Figure(
        name,
        "A crawl under each policy",
        (
            _panel("hosts online", endings, partial(_read, "front")),
            _panel("hosts ready in a delay's time", endings, partial(_ready, trial)),
            _panel(
                "pages stored", endings, partial(_read, "pages"), Series("ideal", minutes.tolist(), ideal, "dashes")
            ),
        ),
        f"{_places(trial)} places, seed {trial.seed}. Fetch workers are plenty, so a host that is ready is visited at"
        " once: the hosts that were ready in a delay's time are the requests made in it.",
    )


Curve = tuple[Sequence[float], Sequence[float]]


def _panel(label: str, endings: dict[str, TrialResult], curve: Callable[[TrialResult], Curve], *more: Series) -> Panel:
    lines = tuple(Series(policy, *curve(ending)) for policy, ending in endings.items())
    return Panel("minutes", label, (*more, *lines))


def _read(name: str, ending: TrialResult) -> Curve:
    readings = ending.readings[:: max(1, len(ending.readings) // 200)]
    start = ending.readings[0].at - 1.0
    return [(reading.at - start) / 60 for reading in readings], [float(getattr(reading, name)) for reading in readings]


def _ready(trial: PolicyTrial, ending: TrialResult) -> Curve:
    edges = np.arange(0.0, trial.time + 1e-9, trial.delay)
    counts, _ = np.histogram(ending.visits, edges)
    return (edges[1:] / 60).tolist(), counts.astype(float).tolist()


ABOUT = (
    "Pages fetched in a fixed virtual time by the whole crawler, fetch workers and indexer included, "
    "as a share of what politeness allows at best. "
)

_LISTED = ABOUT + "Every URL is known from the start, in random order: the urn game's source."
_SEEDED = ABOUT + "Three seeds are known, and the rest is found by links."
EXPERIMENTS = tuple(
    experiment(name, f"Four policies on a live crawl {start}", partial(run, trial, name), about, seeded=True)
    for name, start, trial, about in (
        ("live-frontier", "of a list of URLs", PolicyTrial(), _LISTED),
        ("live-frontier-seeds", "from three seeds", PolicyTrial(listed=False), _SEEDED),
    )
)
