"""Batch Markovian arrival processes, and four ways to define one for each number of fetch workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fieldmouse.jit import jit
from fieldmouse.queueing.model import validation
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import ROUNDING, FloatArray, IntArray, ModelError


class DrawnArrivals(NamedTuple):
    """Batches as they came: when, and how many pages each."""

    times: FloatArray
    sizes: IntArray


@dataclass(frozen=True, eq=False)
class BatchArrivals:
    """
    >>> pages = BatchArrivals(D=([[-4.0]], [[3.0]], [[1.0]]))
    >>> round(pages.batch_rate, 9), round(pages.rate, 9)
    (4.0, 5.0)
    """

    D: tuple[FloatArray, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "D", validated_arrivals(self.D))

    @classmethod
    def poisson(cls, rate: float) -> BatchArrivals:
        return cls((np.array([[-rate]]), np.array([[rate]])))

    @property
    def phases(self) -> int:
        return len(self.D[0])

    @property
    def largest_batch(self) -> int:
        """Most pages that can come at once."""
        return max(k for k, D in enumerate(self.D) if k and D.any())

    @cached_property
    def generator(self) -> FloatArray:
        return validation.read_only_copy(sum(self.D, np.zeros_like(self.D[0])))

    @cached_property
    def phase_shares(self) -> FloatArray:
        """Share of time in each phase."""
        return validation.read_only_copy(stationary_distribution(self.generator))

    @property
    def rate(self) -> float:
        """Pages in a unit of time: the fundamental rate."""
        return float(sum(k * (self.phase_shares @ D).sum() for k, D in enumerate(self.D)))

    @property
    def batch_rate(self) -> float:
        """Batches in a unit of time."""
        return float(sum((self.phase_shares @ D).sum() for D in self.D[1:]))

    @cached_property
    def intervals(self) -> PhaseType:
        """The law of the time between two successive batches."""
        after = self.phase_shares @ self.total_arrival_rates
        return PhaseType(after / after.sum(), self.D[0])

    @property
    def variance(self) -> float:
        """Of the time between two successive batches."""
        return self.intervals.variance

    @property
    def correlation(self) -> float:
        """Between an interval and the next."""
        return self.lag_correlation(1)

    def lag_correlation(self, k: int) -> float:
        """Between an interval and the k-th after it."""
        mean = self.intervals.mean
        expected = np.linalg.solve(-self.D[0], np.ones(self.phases)) - mean
        for _ in range(k):
            expected = np.linalg.solve(-self.D[0], self.total_arrival_rates @ expected)
        # theta / group_rate is the start of an interval, weighted by its length.
        return float(self.phase_shares @ expected / self.batch_rate / self.variance)

    @cached_property
    def total_arrival_rates(self) -> FloatArray:
        """Rates of all changes of phase that bring pages: D(1) - D[0]."""
        return validation.read_only_copy(sum(self.D[1:], np.zeros_like(self.D[0])))

    def scaled(self, r: float) -> BatchArrivals:
        """The same stream, r times as fast."""
        return BatchArrivals(tuple(r * D for D in self.D))

    def sample(self, rng: np.random.Generator, groups: int) -> DrawnArrivals:
        """Draw `groups` batches, with the clock starting at a batch of the stationary stream."""
        at, sizes = np.empty(groups), np.empty(groups, dtype=np.int64)
        start = int(rng.choice(self.phases, p=self.intervals.alpha))
        _sample_batches(self.cumulative_rates(self.largest_batch), start, rng, at, sizes)
        return DrawnArrivals(at, sizes)

    def cumulative_rates(self, largest: int) -> FloatArray:
        """For each phase the rates of all ways on, summed up; rung r brings r // phases pages and leads
        to phase r % phases, with batches of up to `largest` pages."""
        n = self.phases
        rates = np.zeros((n, (largest + 1) * n))
        for k, D in enumerate(self.D[: self.largest_batch + 1]):
            rates[:, k * n : (k + 1) * n] = D if k else np.where(np.eye(n), 0.0, D)
        return np.asarray(rates.cumsum(axis=1))


def validated_arrivals(D: object, who: str = "") -> tuple[FloatArray, ...]:
    """D[0], D[1], ..., checked and freed of rounding; raises a `ModelError` that names the wrong entry."""
    if not isinstance(D, Sequence) or isinstance(D, str) or len(D) < 2:
        raise ModelError(f"{who or 'a stream'} needs a list of at least two matrices, D0 and D1".strip())
    name = f"{who}, D" if who else "D"
    first = validation.checked_matrix(D[0], f"{name}0")
    rest = [validation.checked_matrix(found, f"{name}{k}", len(first)) for k, found in enumerate(D[1:], 1)]
    for k, found in enumerate(rest, 1):
        validation.check_nonnegative(found, f"{name}{k}")
    if not any(found.any() for found in rest):
        raise ModelError(f"{who or 'the stream'} brings no page: every entry of D1, D2, ... is 0")
    validation.check_generator_signs(first, f"{name}0")
    sums = first.sum(axis=1) + sum(found.sum(axis=1) for found in rest)
    for i, total in enumerate(sums):
        if abs(total) > ROUNDING * -first[i, i]:
            raise ModelError(
                f"{name}0[{i}][{i}] is {validation.show_number(first[i, i])}: row {i} of D0 + D1 + "
                "... must sum to 0, "
                f"and sums to {validation.show_number(total)}"
            )
    first[np.diag_indices_from(first)] -= sums
    jumps = (first > 0) | np.any([found > 0 for found in rest], axis=0)
    for i, j in np.argwhere(~validation.reachable_states(jumps)):
        raise ModelError(
            f"{who or 'the stream'} never gets from phase {i} to phase {j}: every phase must lead to every other"
        )
    return tuple(validation.read_only_copy(found) for found in (first, *rest))


def stationary_distribution(generator: FloatArray) -> FloatArray:
    """Share of time in each state, without a subtraction (Grassmann, Taksar and Heyman 1985)."""
    rates = np.where(np.eye(len(generator)), 0.0, generator)
    for last in range(len(rates) - 1, 0, -1):
        rates[:last, last] /= rates[last, :last].sum()
        rates[:last, :last] += np.outer(rates[:last, last], rates[last, :last])
    share = np.ones(len(rates))
    for state in range(1, len(rates)):
        share[state] = share[:state] @ rates[:state, state]
    return np.asarray(share / share.sum())


@jit
def draw_transition(ladder: FloatArray, phase: int, rng: np.random.Generator) -> int:
    """A rung drawn by its rate."""
    row = ladder[phase]
    thrown = rng.random() * row[-1]
    low, high = 0, len(row) - 1
    while low < high:
        middle = (low + high) // 2
        if row[middle] > thrown:
            high = middle
        else:
            low = middle + 1
    return low


@jit
def _sample_batches(ladder: FloatArray, phase: int, rng: np.random.Generator, at: FloatArray, sizes: IntArray) -> None:
    phases = len(ladder)
    now = 0.0
    for n in range(len(at)):
        size = 0
        while size == 0:
            now += rng.standard_exponential() / ladder[phase, -1]
            rung = draw_transition(ladder, phase, rng)
            size, phase = rung // phases, rung % phases
        at[n], sizes[n] = now, size


def independent_robots(robots: Sequence[BatchArrivals]) -> dict[int, BatchArrivals]:
    """Model 1: every fetch worker is an independent stream; in mode l the first l of them bring pages.

    A stopped worker keeps changing phase without arrivals. (The paper prints
    a Kronecker product where that needs a sum: D_0 (+) D(1), not D_0 (x) D(1).)

    >>> two = independent_robots([BatchArrivals.poisson(1.0), BatchArrivals.poisson(3.0)])
    >>> {l: stream.rate for l, stream in two.items()}
    {1: 1.0, 2: 4.0}
    """
    modes = {}
    nothing = [np.zeros_like(one.D[0]) for one in robots]
    for active in range(1, len(robots) + 1):
        working, resting = robots[:active], robots[active:]
        silent = _kronecker_sum([one.D[0] for one in working] + [one.generator for one in resting])
        bringing = []
        for batches in zip_longest(*(one.D[1:] for one in working)):
            brought = [still if D is None else D for D, still in zip(batches, nothing, strict=False)]
            bringing.append(_kronecker_sum(brought + nothing[active:]))
        modes[active] = BatchArrivals((silent, *bringing))
    return modes


def thinned_stream(common: BatchArrivals, q: Sequence[float]) -> dict[int, BatchArrivals]:
    """Model 2: one stream; with l fetch workers running a batch of it is brought with probability q[l - 1].

    >>> {l: stream.rate for l, stream in thinned_stream(BatchArrivals.poisson(2.0), [0.25, 1.0]).items()}
    {1: 0.5, 2: 2.0}
    """
    before = 0.0
    for i, share in enumerate(q):
        if not before < share <= 1:
            raise ModelError(f"q[{i}] is {share:.12g}: shares must rise, from above 0 to at most 1")
        before = share
    return {
        robots: BatchArrivals(
            (share * common.D[0] + (1 - share) * common.generator, *(share * D for D in common.D[1:]))
        )
        for robots, share in enumerate(q, 1)
    }


def marked_stream(D0: ArrayLike, per_robot: Sequence[Sequence[ArrayLike]]) -> dict[int, BatchArrivals]:
    """Model 3: one phase for all fetch workers, and per_robot[l - 1] = (D_1, D_2, ...) of what worker l brings.

    What a stopped worker would have brought is only a change of phase. The paper
    holds this one to be the most realistic: workers may depend on each other.
    """
    first = validation.checked_matrix(np.asarray(D0), "D0")
    brought = [
        [validation.checked_matrix(np.asarray(D), f"robot {robot}, D{k}", len(first)) for k, D in enumerate(batches, 1)]
        for robot, batches in enumerate(per_robot, 1)
    ]
    nothing = np.zeros_like(first)
    modes = {}
    for active in range(1, len(brought) + 1):
        unheard = sum((sum(batches, nothing) for batches in brought[active:]), nothing)
        together = [sum(batches, nothing) for batches in zip_longest(*brought[:active], fillvalue=nothing)]
        modes[active] = BatchArrivals((first + unheard, *together))
    return modes


def explicit_modes(modes: Mapping[int, BatchArrivals | Sequence[ArrayLike]]) -> dict[int, BatchArrivals]:
    """Model 4: D[0], D[1], ... for each number of fetch workers, as they were measured or made up."""
    return {
        robots: D if isinstance(D, BatchArrivals) else BatchArrivals(validated_arrivals(D, f"mode {robots}"))
        for robots, D in modes.items()
    }


def _kronecker_sum(matrices: Sequence[FloatArray]) -> FloatArray:
    """The Kronecker sum: chains side by side, each changing on its own."""
    return reduce(lambda one, two: np.kron(one, np.eye(len(two))) + np.kron(np.eye(len(one)), two), matrices)
