"""Bin packing beside its bounds: number of nodes, and sites that move when weights change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fieldmouse.policy.site_packing import bin_packing
from fieldmouse.policy.site_packing.bin_packing import Bins, best_fit_decreasing
from fieldmouse.policy.site_packing.plan import repack
from fieldmouse_lab import catalogue
from fieldmouse_lab.catalogue import Figure, Panel, Progress, Result, Row, Sample, Series, new_row

UNITS = 16
CAPACITY = 400 * UNITS
SITES = (20, 60, 200)
INSTANCES = 30
STEPS = 200
#: Standard deviation of the change of a site's weight per step, as a share of the weight.
DRIFT = 0.02

GAMES = 5


def random_weights(sites: int, rng: np.random.Generator, largest: float) -> list[int]:
    """Draw weights of sites, up to this share of a node."""
    shares = rng.beta(0.8, 1.6, sites) * largest
    return [max(1, int(share * CAPACITY)) for share in shares]


def nodes(progress: Progress) -> Result:
    """On sites of uneven weight, from 20 to 200."""
    rows: list[Row] = []
    for sites in catalogue.with_progress(SITES, progress, "{} sites".format):
        for largest in (0.3, 0.6, 1.0):
            rng = np.random.default_rng([sites, int(10 * largest)])
            found = [_counted(random_weights(sites, rng, largest)) for _ in range(INSTANCES)]
            label = f"sites {sites}, largest {largest}"
            rows += [new_row(f"{label}, {name}", [float(one[name]) for one in found]) for name in found[0]]
    remarks = (
        f"mean over {INSTANCES} sets of sites with weights of up to this share of a node, in whole units",
        "sum: all weights poured together; bound: Martello and Toth's second; search: bin completion "
        "with at most 20,000 nodes; proven: share of sets in which the search met the bound or tried everything",
    )
    return Result(tuple(rows), remarks=remarks)


def _counted(weights: Sequence[int]) -> dict[str, float]:
    found = bin_packing.pack(weights, CAPACITY)
    return {
        "sum": bin_packing.sum_bound(weights, CAPACITY),
        "bound": bin_packing.lower_bound(weights, CAPACITY),
        "best fit": len(best_fit_decreasing(weights, CAPACITY)),
        "search": len(found.bins),
        "proven": float(found.is_proven),
    }


@dataclass(frozen=True, slots=True)
class RepackingResult:
    """Result of packing again at every step: mean number of nodes, sites and weight moved per step."""

    nodes: float
    sites: float
    weight: float


Repack = Callable[[Sequence[int], Bins], Bins]


def repack_all(weights: Sequence[int], bins: Bins) -> Bins:
    """Pack everything again with Best Fit Decreasing at every step."""
    return best_fit_decreasing(weights, CAPACITY)


def repack_by_exclusion(weights: Sequence[int], bins: Bins) -> Bins:
    """Pack by the scheme's exclusion: the fullest part stays, the rest is moved to other nodes."""
    staying: Bins = []
    going: list[int] = []
    for held in bins:
        if sum(weights[item] for item in held) > CAPACITY:
            kept = {held[at] for at in bin_packing.fullest_subset([weights[item] for item in held], CAPACITY)}
            going += [item for item in held if item not in kept]
            staying.append([item for item in held if item in kept])
        else:
            staying.append(held)
    return bin_packing.best_fit_into(weights, CAPACITY, staying, going)


def repack_few_moves(weights: Sequence[int], bins: Bins) -> Bins:
    return repack(weights, CAPACITY, bins, nodes=200).bins


REPACKING_METHODS: dict[str, Repack] = {
    "packed anew": repack_all,
    "the scheme": repack_by_exclusion,
    "few moves": repack_few_moves,
}


def repack_drifting_weights(again: Repack, sites: int, steps: int, seed: int) -> RepackingResult:
    """Change the weights a little at each step and pack again."""
    rng = np.random.default_rng([seed, sites])
    first = np.array(random_weights(sites, rng, 0.6), dtype=float)
    logs = np.zeros(sites)
    bins = best_fit_decreasing([int(weight) for weight in first], CAPACITY)
    used, moved, carried = [], 0, 0
    for _ in range(steps):
        logs = 0.98 * logs + DRIFT * rng.standard_normal(sites)  # pulled back, so that sites keep their size
        weights = np.clip(first * np.exp(logs), 1, CAPACITY).astype(int).tolist()
        before = {item: place for place, held in enumerate(bins) for item in held}
        bins = again(weights, bins)
        gone = [item for place, held in enumerate(bins) for item in held if before[item] != place]
        used.append(sum(1 for held in bins if held))
        moved += len(gone)
        carried += sum(weights[item] for item in gone)
    return RepackingResult(float(np.mean(used)), moved / steps, carried / steps / UNITS)


#: Fields of a result, and their labels.
RESULT_LABELS = {"nodes": "nodes", "sites": "sites moved a step", "weight": "polls a slot moved a step"}


def moves(progress: Progress) -> Result:
    """Packed anew, by the scheme's exclusion, and with few moves."""
    rows: list[Row] = []
    means: dict[tuple[str, str], list[float]] = {}  # by name and field, one for each number of sites
    for name, again in catalogue.with_progress(list(REPACKING_METHODS.items()), progress, lambda method: method[0]):
        for sites in SITES:
            found = [repack_drifting_weights(again, sites, STEPS, seed) for seed in range(GAMES)]
            for what, label in RESULT_LABELS.items():
                ours = Sample.of([float(getattr(one, what)) for one in found])
                means.setdefault((name, what), []).append(ours.mean)
                rows.append(new_row(f"{name}, sites {sites}, {label}", ours))
    panels = tuple(
        Panel(
            "sites",
            RESULT_LABELS[what],
            tuple(Series(name, SITES, means[name, what]) for name in REPACKING_METHODS),
            y_log=what != "nodes",
        )
        for what in ("nodes", "sites")
    )
    remarks = (
        f"{STEPS} steps in which each weight changes by {DRIFT:.0%}, and is drawn back to where it began; "
        f"{GAMES} games",
        "the scheme here always sends sites away from a full node (its other way is to poll less); it "
        "never empties a node",
        "few moves: as few sites as will do leave a full node, a node is emptied if the others can take "
        "in what it holds",
    )
    return Result(tuple(rows), (Figure("refresh-moves", "Packing again as weights change", panels),), remarks)


EXPERIMENTS = (
    catalogue.experiment("refresh-packing", "Nodes needed: Best Fit Decreasing, a search, and the bounds", nodes),
    catalogue.experiment("refresh-moves", "Sites moved as weights change", moves),
)
