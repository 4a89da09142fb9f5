"""Polling policies on live crawls, with one budget and hidden change rates.

The slot game (`policies`) plays policies alone. Here they run in the crawler: a meadow (synthetic
web) of 5,000 pages is crawled and then refreshed. The meadow knows when its pages changed and when they
were requested, so it computes the true freshness of the copies. The numbers of `fieldmouse freshness` are
compared with it. All policies have the same budget and the same scheduler, which spaces polls evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse_lab.catalogue import Figure, Panel, Progress, Result, Row, Series, crawl_each, experiment, new_row
from fieldmouse_lab.refresh.upkeep import RefreshTrial, RefreshTrialResult, run_live_refresh, run_virtual_refresh

POLICIES = ("learned", "uniform", "multiplicative", "automaton")
#: Seeds that were not used for any choice of parameters.
SEEDS = (411, 421, 422)
#: Largest accepted error of `fieldmouse freshness`.
FRESHNESS_TOLERANCE = 0.03

UpkeepRunner = Callable[[RefreshTrial, str, Path, int], RefreshTrialResult]
#: By policy and seed.
UpkeepResults = Mapping[tuple[str, int], RefreshTrialResult]


@dataclass(frozen=True, slots=True)
class RefreshExperiment:
    """One experiment for all policies and seeds, in virtual time or with real processes."""

    name: str
    upkeep: RefreshTrial
    keep: UpkeepRunner = run_virtual_refresh
    policies: tuple[str, ...] = POLICIES
    seeds: tuple[int, ...] = SEEDS

    def run_all(self, progress: Progress) -> UpkeepResults:
        return crawl_each(self.policies, self.seeds, progress, partial(self.keep, self.upkeep))

    def run(self, progress: Progress) -> Result:
        return self.result(self.run_all(progress))

    def result(self, tried: UpkeepResults) -> Result:
        rows = [_row(policy, seed, kept) for (policy, seed), kept in tried.items()]
        others = [policy for policy in self.policies if policy != "learned"]
        rows += [new_row(f"learned above {policy}", self._lead(tried, policy)) for policy in others]
        best = [self.upkeep.optimum(Meadow(self.upkeep.options(seed))) for seed in self.seeds]
        rows.append(new_row("the optimum that knows the rates, by its law", best))
        return Result(tuple(rows), (self._figure(tried),), tuple(self._remarks(tried)))

    def _lead(self, tried: UpkeepResults, policy: str) -> list[float]:
        return [tried["learned", seed].fresh - tried[policy, seed].fresh for seed in self.seeds]

    def _remarks(self, tried: UpkeepResults) -> list[str]:
        upkeep = self.upkeep
        leads = {policy: min(self._lead(tried, policy)) for policy in self.policies if policy != "learned"}
        ahead = [f"{leads[policy]:.3f} above {policy}" for policy in sorted(leads, key=lambda one: leads[one])]
        errors = [_largest_error(kept) for kept in tried.values()]
        held = sum(error <= FRESHNESS_TOLERANCE for error in errors)
        return [
            f"{upkeep.pages:,} pages on {upkeep.hosts} hosts, log-normal rates of change (sigma "
            f"{upkeep.sigma:g}); the median page changes every {upkeep.patience:g} rounds. A round is the "
            f"time in which the budget is a poll a page: {upkeep.round:.0f} s at {upkeep.pace:,.0f} polls/h.",
            f"{upkeep.rounds} rounds after a first crawl, of which the last {upkeep.counted} count. "
            "Numbers are shares of time in which a copy was what the server had, told by the meadow.",
            f"learned is at least {', '.join(ahead)}",
            f"`fieldmouse freshness` is right within {FRESHNESS_TOLERANCE:g} in {held} of {len(tried)} crawls, for the "
            f"time that was measured and for the end; it is {max(errors):.3f} off at most",
        ]

    def _figure(self, tried: UpkeepResults) -> Figure:
        seed = self.seeds[0]
        rounds = [number + 0.5 for number in range(self.upkeep.rounds)]
        best = self.upkeep.optimum(Meadow(self.upkeep.options(seed)))
        lines = [Series("optimum that knows the rates", [0.0, self.upkeep.rounds], [best, best], "dashes")]
        lines += [Series(policy, rounds, tried[policy, seed].course) for policy in self.policies]
        return Figure(
            self.name,
            "Freshness of a crawl under each policy",
            (Panel("polls a page", "copies that are current", tuple(lines)),),
            f"Seed {seed}. All copies are new in the beginning, so all fall at first.",
        )


def _largest_error(kept: RefreshTrialResult) -> float:
    return max(abs(kept.error), abs(kept.error_now))


def _row(policy: str, seed: int, kept: RefreshTrialResult) -> Row:
    note = (
        f"`freshness` {'says' if _largest_error(kept) <= FRESHNESS_TOLERANCE else 'is WRONG with'} "
        f"{kept.report.measured:.3f}; "
        f"{kept.fresh_now:.3f} current in the end, {kept.report.expected:.3f} expected; "
        f"{kept.report.polls:,} polls, {kept.report.useful_ratio:.0%} useful"
    )
    return new_row(f"policy {policy}, seed {seed}", kept.fresh, note)


ABOUT = (
    "A meadow is crawled and refreshed under a budget; freshness as the meadow knows it, "
    "beside the estimate of `fieldmouse freshness`. "
)

REFRESH_EXPERIMENTS = (
    (
        RefreshExperiment("live-refresh", RefreshTrial()),
        "Four polling policies keep a crawl fresh",
        "Virtual time, three seeds; the median page is polled four times between two changes. "
        "Half an hour of processor time.",
    ),
    (
        RefreshExperiment(
            "live-refresh-lies", RefreshTrial(lies=1.0, rounds=16, counted=8), policies=("learned", "uniform")
        ),
        "Polling policies where no date of a change is true",
        "Virtual time, three seeds; every Last-Modified is the time of the request, or never moves.",
    ),
    (
        RefreshExperiment(
            "live-refresh-wire",
            RefreshTrial(pages=2000, pace=144_000.0, delay=0.05, rounds=6, counted=3),
            run_live_refresh,
            seeds=(424,),
        ),
        "Four polling policies on real processes",
        "Meadow, crawl and refresh are processes, and 2,000 pages change quickly; takes 25 minutes.",
    ),
)

EXPERIMENTS = tuple(
    experiment(arena.name, title, arena.run, ABOUT + how, alone=arena.keep is not run_virtual_refresh)
    for arena, title, how in REFRESH_EXPERIMENTS
)
