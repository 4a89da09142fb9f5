"""Distribution policies on whole crawls, compared with the ideal.

The urn game counts distinct hosts; these trials measure the effect on a crawl. `live-frontier` starts with
a list of all URLs in random order, as in the game: URLs of large hosts come before those of small ones.
`live-frontier-seeds` starts with three seeds and finds the rest by links. In both, the front has room for
about a tenth of the hosts, a little more than the ideal needs on average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from fieldmouse_lab.catalogue import Figure, Panel, Progress, Result, Series, crawl_each, experiment, new_row
from fieldmouse_lab.trial import PolicyTrial, TrialResult, run_trial

POLICIES = ("index", "mice-and-elephants", "greedy", "neutral")
SEEDS = (1, 2, 3)


def ideal_shares(
    trial: PolicyTrial, policies: Sequence[str], seeds: Sequence[int], progress: Progress
) -> tuple[dict[tuple[str, int], float], dict[str, TrialResult]]:
    """Crawl with each policy and seed; return the shares of the ideal, and the endings of the first seed."""

    def crawl(policy: str, directory: Path, seed: int) -> TrialResult:
        return run_trial(trial.with_seed(seed), policy, directory)

    endings = crawl_each(policies, seeds, progress, crawl)
    shares = {case: ending.summary.pages / trial.ideal() for case, ending in endings.items()}
    return shares, {policy: endings[policy, seeds[0]] for policy in policies}


def run(trial: PolicyTrial, name: str, progress: Progress) -> Result:
    return result(trial, name, *ideal_shares(trial, POLICIES, SEEDS, progress))


def result(
    trial: PolicyTrial, name: str, ideal_shares: dict[tuple[str, int], float], endings: dict[str, TrialResult]
) -> Result:
    seeds = sorted({seed for _, seed in ideal_shares})
    rows = [
        new_row(f"policy {policy}, seed {seed}", ideal_shares[policy, seed]) for policy in POLICIES for seed in seeds
    ]
    rows += [new_row(f"mean of {policy}", [ideal_shares[policy, seed] for seed in seeds]) for policy in POLICIES]
    return Result(tuple(rows), (_figure(trial, name, endings),), tuple(_remarks(trial, ideal_shares)))


def _remarks(trial: PolicyTrial, ideal_shares: dict[tuple[str, int], float]) -> list[str]:
    seeds = sorted({seed for _, seed in ideal_shares})
    best = {seed: max(POLICIES, key=lambda policy: ideal_shares[policy, seed]) for seed in seeds}
    worst = min(ideal_shares["index", seed] for seed in seeds)
    others = max(share for (policy, _), share in ideal_shares.items() if policy != "index")
    beaten = [f"{winner} is ahead for seed {seed}" for seed, winner in best.items() if winner != "index"]
    ideal = trial.ideal()
    needed = ideal * trial.delay / trial.time
    latency = trial.latency / (trial.delay + trial.latency)
    return [
        "Numbers are pages stored, over the ideal: the sum over hosts of min(size, time / delay),"
        f" {ideal:,.0f} of {trial.pages:,} pages on {trial.hosts} hosts"
        f" in {trial.time:g} s at {trial.delay:g} s a visit.",
        f"The front has {trial.front} places; the ideal needs {needed:.1f} on average.",
        f"`index` reaches {worst:.1%} at least, the best of the others {others:.1%} at most; "
        + (f"{', '.join(beaten)}." if beaten else "it is first for every seed."),
        "The end is what counts here. While small hosts wait for places, a policy that lets them go first is"
        " ahead for a time; it pays when they are done and the large ones, left behind, are too few to fill"
        " the front.",
        "A host's next visit comes a delay after the first byte of the last answer: a latency of"
        f" {trial.latency:g} s alone costs {latency:.1%} of the visits to large hosts.",
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
        "Seed 1. Fetch workers are plenty, so a host that is ready is visited at once: the hosts that were "
        "ready in a delay's time are the requests made in it.",
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
_FROM_SEEDS = PolicyTrial(listed=False, front=64)

EXPERIMENTS = tuple(
    experiment(name, f"Four policies on a live crawl {start}", partial(run, trial, name), about)
    for name, start, trial, about in (
        ("live-frontier", "of a list of URLs", PolicyTrial(), _LISTED),
        ("live-frontier-seeds", "from three seeds", _FROM_SEEDS, _SEEDED),
    )
)
