"""Phase-type distributions: the time that a Markov chain takes to leave its phases.

A phase type is a start `alpha` over n phases and a matrix `S` of rates between
them; the difference of a row of S to zero is the exit rate. Exponential, Erlang and
hyperexponential times are of this kind, and they approximate every positive
distribution. Service times and lifetimes of pages are phase types.

Everything is computed with numpy alone, because a live crawl may have nothing else installed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldmouse.queueing.model import validation
from fieldmouse.queueing.model.validation import ROUNDING, FloatArray, IntArray, ModelError

#: Relative difference up to which rates count as equal.
EQUAL = 1e-12


@dataclass(frozen=True, eq=False)
class PhaseType:
    """
    >>> wait = PhaseType(alpha=[0.4, 0.6], S=[[-3, 1], [2, -3]])
    >>> round(wait.mean, 3)
    0.657
    """

    alpha: FloatArray
    S: FloatArray

    def __post_init__(self) -> None:
        alpha, S = validated_phase_type(self.alpha, self.S)
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "S", S)

    @classmethod
    def exponential(cls, rate: float) -> PhaseType:
        return cls(np.ones(1), np.array([[-rate]]))

    @classmethod
    def erlang(cls, n: int, rate: float) -> PhaseType:
        """A sum of n exponential times, each of this rate."""
        return cls(np.eye(n)[0], rate * (np.eye(n, k=1) - np.eye(n)))

    @classmethod
    def hyperexponential(cls, p: Sequence[float], rates: Sequence[float]) -> PhaseType:
        """An exponential time whose rate is drawn first."""
        return cls(np.array(p, dtype=np.float64), -np.diag(np.array(rates, dtype=np.float64)))

    @classmethod
    def never(cls) -> PhaseType:
        """A time that does not end; only for lifetimes."""
        return cls(np.ones(1), np.zeros((1, 1)))

    @property
    def order(self) -> int:
        return len(self.alpha)

    @cached_property
    def exit_rates(self) -> FloatArray:
        """The rate of leaving from each phase."""
        return validation.read_only_copy(_exit_rates(self.S))

    @cached_property
    def cumulative_rates(self) -> FloatArray:
        """Cumulative rates of each phase to all phases, then out, for drawing the next transition."""
        between = np.where(np.eye(self.order), 0.0, self.S)
        return validation.read_only_copy(np.column_stack([between, self.exit_rates]).cumsum(axis=1))

    @property
    def is_never(self) -> bool:
        return not self.exit_rates.any()

    @property
    def mean(self) -> float:
        return self.moment(1)

    def moment(self, k: int) -> float:
        """E[X^k] = k! alpha (-S)^-k 1; infinite for a time that does not end."""
        if self.is_never:
            return math.inf if k else 1.0
        power: FloatArray = np.ones(self.order)
        for factor in range(1, k + 1):
            power = np.asarray(factor * np.linalg.solve(-self.S, power))
        return float(self.alpha @ power)

    @property
    def variance(self) -> float:
        if self.is_never:
            return math.nan
        first = np.linalg.solve(-self.S, np.ones(self.order))
        # Around the mean from the start: the plain difference of moments would cancel for Erlang times.
        centred = np.linalg.solve(-self.S, first - self.mean)
        return float(2 * self.alpha @ centred + self.mean**2)

    @property
    def scv(self) -> float:
        """Squared coefficient of variation: 1 for an exponential time."""
        return self.variance / self.mean**2

    @cached_property
    def is_exponential(self) -> bool:
        """Whether the law is exponential, whatever the phases.

        It is when all phases that can be reached are left at the same rate, and
        also when the phases stay distributed as they began (alpha S = -rate alpha).
        """
        reached = self.reachable_phases
        rates = self.exit_rates[reached]
        if rates.max() - rates.min() <= EQUAL * rates.max():
            return True
        drift = self.alpha @ self.S
        return bool(np.abs(drift + (self.alpha @ self.exit_rates) * self.alpha).max() <= EQUAL * np.abs(drift).max())

    @property
    def rate(self) -> float:
        """1 / mean; 0 for a time that does not end."""
        return float(self.alpha @ self.exit_rates) if self.is_exponential else 1 / self.mean

    @property
    def reachable_phases(self) -> NDArray[np.bool_]:
        """The phases that some start leads to."""
        return (self.alpha > 0) @ validation.reachable_states(self.S > 0)

    def survival(self, t: ArrayLike) -> FloatArray:
        """P(X > t), accurate also where it is tiny."""
        return np.where(np.asarray(t) < 0, 1.0, self._phase_probabilities(t).sum(axis=-1))

    def cdf(self, t: ArrayLike) -> FloatArray:
        return 1 - self.survival(t)

    def pdf(self, t: ArrayLike) -> FloatArray:
        return np.where(np.asarray(t) < 0, 0.0, self._phase_probabilities(t) @ self.exit_rates)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Independent times; all at once, phase by phase."""
        if self.is_never:
            return np.full(size, math.inf)
        phase = _draw_by_weight(np.broadcast_to(self.alpha.cumsum(), (size, self.order)), rng)
        times = np.zeros(size)
        ahead = np.arange(size)
        while len(ahead):
            rows = self.cumulative_rates[phase]
            times[ahead] += rng.standard_exponential(len(ahead)) / rows[:, -1]
            phase = _draw_by_weight(rows, rng)
            staying = phase < self.order
            ahead, phase = ahead[staying], phase[staying]
        return times

    def with_scaled_rates(self, factor: float) -> PhaseType:
        """The same time on a clock that runs `factor` times as fast: rates grow, the mean falls."""
        return PhaseType(self.alpha, self.S * factor)

    def _phase_probabilities(self, t: ArrayLike) -> FloatArray:
        """alpha exp(S t) for each t.

        By a series of non-negative terms (uniformisation) over a short step, then by
        squaring: nothing is subtracted, so a tail of 1e-60 keeps its digits.
        """
        times = np.maximum(np.asarray(t, dtype=np.float64), 0.0)
        fastest = float(-self.S.diagonal().min())
        if fastest == 0:
            return np.broadcast_to(self.alpha, (*times.shape, self.order))
        longest = fastest * float(times.max(initial=0.0))
        if not math.isfinite(longest):
            raise ValueError("times must be finite")
        squarings = max(0, math.ceil(math.log2(longest / 8))) if longest > 8 else 0
        step = (fastest * times / 2**squarings)[..., None, None]
        jump = np.eye(self.order) + self.S / fastest
        term = np.exp(-step) * np.eye(self.order)
        total = term.copy()
        for k in range(1, 60):  # Poisson(8) beyond 60 jumps: 1e-31
            term = term @ jump * (step / k)
            total += term
        for _ in range(squarings):
            total = total @ total
        return np.asarray(self.alpha @ total)


def validated_phase_type(
    alpha: object, S: object, who: str = "", start: str = "alpha", body: str = "S"
) -> tuple[FloatArray, FloatArray]:
    """Start and rates, checked and freed of rounding; raises a `ModelError` that names the wrong entry.

    `who`, `start` and `body` are what the three are called in the complaint. All
    rates zero is a time that never ends.
    """
    start, body = f"{who} {start}".strip(), f"{who} {body}".strip()
    p = validation.checked_vector(alpha, start)
    rates = validation.checked_matrix(S, body, len(p))
    validation.check_nonnegative(p, start)
    if abs(p.sum() - 1) > ROUNDING:
        raise ModelError(f"{start} sums to {p.sum():.12g}, not 1")
    if rates.any():
        validation.check_generator_signs(rates, body)
        for i, row in enumerate(rates):
            if row.sum() > ROUNDING * -row[i]:
                raise ModelError(
                    f"row {i} of {body} sums to {validation.show_number(row.sum())}: it must not be above 0, "
                    f"since {body}[{i}][{i}] is the rate of leaving phase {i} altogether"
                )
            rates[i, i] -= max(row.sum(), 0.0)
        leaves = validation.reachable_states(rates > 0) @ (_exit_rates(rates) > 0)
        for stuck in np.flatnonzero(~leaves):
            raise ModelError(
                f"{who or 'the time'} never ends once in phase {stuck}: from row {stuck} of {body} "
                "no row that sums to less than 0 can be reached"
            )
    return validation.read_only_copy(p / p.sum()), validation.read_only_copy(rates)


def _exit_rates(S: FloatArray) -> FloatArray:
    """What rows lack to zero; a lack that is only noise of the sum is none."""
    lack = -S.sum(axis=1)
    noise = len(S) * np.finfo(np.float64).eps * np.abs(S.diagonal())
    return np.where(lack > noise, lack, 0.0)


def _draw_by_weight(cumulative: FloatArray, rng: np.random.Generator) -> IntArray:
    """For each row of growing weights, a place drawn by weight."""
    thrown = rng.random(len(cumulative)) * cumulative[:, -1]
    return np.asarray((cumulative <= thrown[:, None]).sum(axis=1))
