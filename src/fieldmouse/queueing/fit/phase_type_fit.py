"""Phase-type distributions fitted to service times and lifetimes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fieldmouse.errors import FieldmouseError
from fieldmouse.jit import jit
from fieldmouse.queueing.fit.map_fit import means_of_phases, propagate_backwards, propagate_forwards, uniformise
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray, IntArray

_NONE: FloatArray = np.empty(0)


@dataclass(frozen=True, eq=False)
class HyperErlang:
    """
    >>> law = HyperErlang.from_lists(weights=[0.5, 0.5], steps=[1, 2], rates=[1.0, 4.0])
    >>> round(law.mean, 3), law.order
    (0.75, 3)
    """

    weights: FloatArray
    steps: IntArray
    rates: FloatArray

    @classmethod
    def from_lists(cls, weights: Sequence[float], steps: Sequence[int], rates: Sequence[float]) -> HyperErlang:
        return cls(np.array(weights, np.float64), np.array(steps, np.int64), np.array(rates, np.float64))

    @property
    def order(self) -> int:
        """Phases needed; branches of one rate share theirs."""
        return sum(int(self.steps[self.rates == rate].max()) for rate in np.unique(self.rates))

    @property
    def parameter_count(self) -> int:
        """Numbers that were free to choose, the numbers of steps beyond one among them."""
        return 2 * len(self.weights) - 1 + int((self.steps > 1).sum())

    @property
    def mean(self) -> float:
        return self.moment(1)

    def moment(self, k: int) -> float:
        rising = np.prod([self.steps + j for j in range(k)], axis=0)
        return float(self.weights @ (rising / self.rates**k))

    @property
    def scv(self) -> float:
        return self.moment(2) / self.mean**2 - 1

    def survival(self, t: ArrayLike) -> FloatArray:
        times = np.asarray(t, dtype=np.float64)
        return _survivals(times, self.steps, self.rates) @ self.weights

    def log_likelihood(self, times: FloatArray, counts: FloatArray) -> float:
        with np.errstate(divide="ignore"):
            return float(counts @ np.log(_densities(times, self.steps, self.rates) @ self.weights))

    def to_phase_type(self) -> PhaseType:
        alpha = np.zeros(self.order)
        S = np.zeros((self.order, self.order))
        start = 0
        for rate in np.unique(self.rates):
            mine = self.rates == rate
            longest = int(self.steps[mine].max())
            stop = start + longest
            S[start:stop, start:stop] = rate * (np.eye(longest, k=1) - np.eye(longest))
            np.add.at(alpha, stop - self.steps[mine], self.weights[mine])
            start = stop
        return PhaseType(alpha / alpha.sum(), S)

    @property
    def name(self) -> str:
        if len(self.weights) == 1:
            return "exponential" if self.steps[0] == 1 else f"Erlang of {self.steps[0]} steps"
        if self.steps.max() == 1:
            return f"hyperexponential of {len(self.weights)} branches"
        return f"mixture of Erlang times of {', '.join(map(str, self.steps))} steps"


def condense_sample(times: FloatArray, most: int = 160) -> tuple[FloatArray, FloatArray]:
    """Replace a sample by at most `most` points with counts: the longest times unchanged,
    the rest averaged over neighbours."""
    ordered = np.sort(times)
    if len(ordered) <= most:
        return ordered, np.ones(len(ordered))
    tail = most // 4
    parts = np.array_split(ordered[:-tail], most - tail)
    points, counts = [part.mean() for part in parts], [float(len(part)) for part in parts]
    return np.concatenate((points, ordered[-tail:])), np.concatenate((counts, np.ones(tail)))


@dataclass(frozen=True, eq=False)
class CensoredSample:
    """A few points with counts in the place of many times, and the same of those known only to be longer."""

    times: FloatArray
    counts: FloatArray
    outlived: FloatArray
    outlived_counts: FloatArray

    def criterion(self, law: HyperErlang) -> float:
        """Schwarz's criterion (BIC) of a law, the less the better."""
        likelihood = law.log_likelihood(self.times, self.counts)
        with np.errstate(divide="ignore"):
            likelihood += float(self.outlived_counts @ np.log(law.survival(self.outlived)))
        return self.bic_penalty(law.parameter_count) - 2 * likelihood

    def bic_penalty(self, parameters: int) -> float:
        return parameters * float(np.log(self.counts.sum()))


def maximise_likelihood(
    steps: Sequence[int], sample: CensoredSample, rounds: int = 200, start: HyperErlang | None = None
) -> tuple[HyperErlang, float]:
    """The mixture with these steps that a climb of the likelihood ends at, and its log-likelihood."""
    law = start or _starting_mixture(np.asarray(steps, dtype=np.int64), sample)
    times, counts, outlived = sample.times, sample.counts, sample.outlived
    r, weights, rates = law.steps, law.weights, law.rates
    total = counts.sum() + sample.outlived_counts.sum()
    before, found = -np.inf, -np.inf
    for _ in range(rounds):
        density = _densities(times, r, rates) * weights
        whole = np.maximum(density.sum(axis=1), 1e-300)
        share = density * (counts / whole)[:, None]
        mass, length = share.sum(axis=0), times @ share
        before, found = found, float(counts @ np.log(whole))
        if len(outlived):
            alive = _survivals(outlived, r, rates)
            left = np.maximum(alive @ weights, 1e-300)
            later = (alive * weights) * (sample.outlived_counts / left)[:, None]
            ratio = _survivals(outlived, r + 1, rates) / np.maximum(alive, 1e-300)
            mass = mass + later.sum(axis=0)
            length = length + (later * ratio).sum(axis=0) * (r / rates)
            found += float(sample.outlived_counts @ np.log(left))
        mass = np.maximum(mass, 1e-12 * total)
        weights, rates = mass / total, r * mass / np.maximum(length, 1e-300)
        if found - before < 1e-7 * total:
            break
    return HyperErlang(weights / weights.sum(), r, rates), found


def _starting_mixture(steps: IntArray, sample: CensoredSample) -> HyperErlang:
    """Where a climb begins: the fewer steps the longer the times, each branch half as often as the last."""
    branches, times, counts = len(steps), sample.times, sample.counts
    seconds = float(times @ counts + sample.outlived @ sample.outlived_counts)
    if branches == 1:
        return HyperErlang(np.ones(1), steps, steps * counts.sum() / max(seconds, 1e-300))
    order = np.argsort(times)
    cumulative = np.cumsum(counts[order]) / counts.sum()
    edges = np.concatenate(([0.0], 1 - 0.5 ** np.arange(1, branches), [1.0]))
    means = np.empty(branches)
    for place in range(branches):
        mine = order[(cumulative > edges[place] - 1e-12) & (cumulative <= edges[place + 1] + 1e-12)]
        if len(mine) == 0:
            mine = order
        means[place] = max(float(times[mine] @ counts[mine] / counts[mine].sum()), 1e-12)
    stretch = seconds / float(times @ counts)
    by_steps = np.argsort(-steps, kind="stable")
    weights, rates = np.empty(branches), np.empty(branches)
    weights[by_steps] = np.diff(edges)
    rates[by_steps] = steps[by_steps] / (means * stretch)
    return HyperErlang(weights, steps, rates)


def _densities(times: FloatArray, steps: IntArray, rates: FloatArray) -> FloatArray:
    """Density of each branch at each time; for few steps, so that plain powers do."""
    passed = times[:, None] * rates
    density = rates * np.exp(-passed)
    for j in range(1, int(steps.max())):
        density = density * np.where(j < steps, passed / j, 1.0)
    return np.asarray(density)


def _survivals(times: FloatArray, steps: IntArray, rates: FloatArray) -> FloatArray:
    passed = times[..., None] * rates
    term = np.exp(-passed)
    total = term.copy()
    for j in range(1, int(steps.max())):
        term = term * passed / j
        total += np.where(j < steps, term, 0.0)
    return np.asarray(total)


_STEP = 8.0  # changes of phase in one stretch, on average: series stay short


def fit_phase_type(
    times: FloatArray,
    order: int,
    rng: np.random.Generator,
    outlived: FloatArray = _NONE,
    rounds: int = 300,
    starts: int = 3,
) -> tuple[PhaseType, float]:
    """The phase type with `order` phases found by the climbs, and its log-likelihood.

    The likelihood has several maxima, so the best of some random `starts` is kept.
    """
    scale = float(times.sum() + outlived.sum()) / len(times)
    exact, counts = condense_sample(np.maximum(times, 1e-9 * scale) / scale)
    bounds, bound_counts = condense_sample(outlived / scale)
    at = np.concatenate((exact, bounds))
    ended = np.concatenate((counts, np.zeros(len(bounds))))
    lasted = np.concatenate((np.zeros(len(exact)), bound_counts))
    sort = np.argsort(at, kind="stable")
    at, ended, lasted = at[sort], ended[sort], lasted[sort]
    best: tuple[float, FloatArray, FloatArray] | None = None
    for _ in range(starts):
        alpha = rng.dirichlet(np.ones(order))
        S = rng.exponential(1.0, (order, order)) * rng.uniform(0.2, 5.0, (order, 1))
        leave = rng.exponential(1.0, order) * order
        before = -np.inf
        for _ in range(rounds):
            np.fill_diagonal(S, 0.0)
            np.fill_diagonal(S, -(S.sum(axis=1) + leave))
            begun, spent, left, found = _expectation_step(alpha, S, leave, *_split_long_gaps(at, ended, lasted, S))
            if best is None or found > best[0]:
                best = found, alpha, S
            seconds = np.maximum(np.diag(spent), 1e-300)
            alpha = begun / begun.sum()
            S, leave = S * spent.T / seconds[:, None], left / seconds
            if found - before < 1e-7 * len(times):
                break
            before = found
    assert best is not None, "at least one start"
    likelihood, alpha, S = best
    return PhaseType(alpha, S / scale), likelihood - len(times) * float(np.log(scale))


def _split_long_gaps(
    at: FloatArray, ended: FloatArray, lasted: FloatArray, S: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lengths from time to time, long ones in several parts, and what the times at their ends count."""
    gaps = np.diff(at, prepend=0.0)
    parts = np.maximum(np.ceil(gaps * float(-S.diagonal().min()) / _STEP), 1).astype(np.int64)
    lengths = np.repeat(gaps / parts, parts)
    ends = np.cumsum(parts) - 1
    ending, lasting = np.zeros(len(lengths)), np.zeros(len(lengths))
    ending[ends], lasting[ends] = ended, lasted
    return lengths, ending, lasting


@jit
def _expectation_step(
    alpha: FloatArray, S: FloatArray, leave: FloatArray, lengths: FloatArray, ended: FloatArray, lasted: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Expected starts by phase, time with i ahead while in j, exits by phase, and the log-likelihood."""
    n, stretches = len(alpha), len(lengths)
    P = np.zeros((n, n))
    fastest = uniformise(S, P)
    here, kept = np.zeros((stretches + 1, n)), np.zeros(stretches)
    spent, left, ahead = np.zeros((n, n)), np.zeros(n), np.zeros(n)

    # Forwards: where the chain is at each end, given that it has not left; `kept` is the chance of that.
    here[0] = alpha
    likelihood, gone = 0.0, 0.0
    for k in range(stretches):
        propagate_forwards(P, fastest * lengths[k], here[k], here[k + 1])
        kept[k] = here[k + 1].sum()
        here[k + 1] /= kept[k]
        gone += np.log(kept[k])
        likelihood += lasted[k] * gone
        if ended[k] > 0.0:
            likelihood += ended[k] * (gone + np.log(here[k + 1] @ leave))

    # Backwards: what lies ahead of each phase, scaled like the way forwards.
    for k in range(stretches - 1, -1, -1):
        ahead += lasted[k]
        if ended[k] > 0.0:
            leaving = ended[k] * leave / (here[k + 1] @ leave)
            left += here[k + 1] * leaving
            ahead += leaving
        ahead /= kept[k]
        propagate_backwards(P, fastest, lengths[k], here[k], ahead, spent)
    return alpha * ahead, spent, left, likelihood


Method: TypeAlias = Literal["auto", "exponential", "moments", "likelihood", "general"]

#: Times below which only the mean is learned.
FEWEST = 10


class FitError(FieldmouseError):
    """A sample from which this cannot be learned."""


@dataclass(frozen=True, eq=False)
class FittedDistribution:
    """The law, how it was found, Schwarz's criterion of it, and a sentence for each wish it does not meet."""

    times: PhaseType
    name: str
    by: Literal["mean", "moments", "likelihood"]
    criterion: float
    misses: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class MomentMatch:
    """A mixture with given moments, or nearly."""

    times: HyperErlang
    misses: tuple[str, ...] = ()


def fit_by_moments(mean: float, scv: float, third: float | None = None, phases: int = 8) -> MomentMatch:
    """The mixture with these moments; the third may be None, and is used for times that vary much.

    >>> round(fit_by_moments(mean=2.0, scv=0.4).times.scv, 9)
    0.4
    """
    assert mean > 0, "times have a mean"
    if abs(scv - 1) < 1e-9:
        return MomentMatch(_exponential(mean))
    if scv < 1:
        return _mixture_of_two_erlangs(mean, max(scv, 0.0), phases)
    misses: tuple[str, ...] = ()
    # Bound and formula as for arrivals: two phases, the slow one drawn with a probability.
    if third is not None and third > 1.5 * mean**3 * (1 + scv) ** 2 * (1 + 1e-9):
        slow, fast = means_of_phases(mean, scv, third)
        share = (mean - fast) / (slow - fast)
        return MomentMatch(HyperErlang.from_lists([share, 1 - share], [1, 1], [1 / slow, 1 / fast]))
    if third is not None:
        misses = (f"a third moment of {third:.4g} cannot go with two branches; both take the same time in all",)
    share = (1 + np.sqrt((scv - 1) / (scv + 1))) / 2
    rates = [2 * (1 - share) / mean, 2 * share / mean]
    return MomentMatch(HyperErlang.from_lists([1 - share, share], [1, 1], rates), misses)


def _mixture_of_two_erlangs(mean: float, scv: float, phases: int) -> MomentMatch:
    """k or k - 1 equal steps, with 1 / k <= scv < 1 / (k - 1) (Tijms 1994)."""
    if scv * phases <= 1:
        low = scv * phases < 1 - 1e-9
        misses = (f"the times vary less (scv {scv:.3g}) than {phases} phases can",) if low else ()
        return MomentMatch(HyperErlang.from_lists([1.0], [phases], [phases / mean]), misses)
    k = int(np.ceil(1 / scv - 1e-12))
    short = (k * scv - np.sqrt(max(k * (1 + scv) - k * k * scv, 0.0))) / (1 + scv)
    rate = (k - short) / mean
    if short < 1e-12 or k == 1:
        return MomentMatch(HyperErlang.from_lists([1.0], [k], [k / mean]))
    return MomentMatch(HyperErlang.from_lists([short, 1 - short], [k - 1, k], [rate, rate]))


def fit_law(
    times: FloatArray,
    method: Method = "auto",
    phases: int = 6,
    outlived: FloatArray = _NONE,
    rng: np.random.Generator | None = None,
) -> FittedDistribution:
    """The law of a sample; of the times `outlived` only a lower bound is known.

    "auto" keeps the law that earns its parameters: exponential, by moments, or the most likely
    mixture. "general" is the most likely phase type of exactly `phases` phases, and needs
    a random generator to start from. Moments are those of the whole times, so they do not apply to a
    sample with bounds.
    """
    if len(times) == 0:
        raise FitError("there is no time to learn from", "let the crawl run longer")
    seconds = float(times.sum() + outlived.sum())
    if seconds <= 0:
        raise FitError("all times are zero", "the clock that took them is too coarse")
    sample = CensoredSample(
        *condense_sample(np.maximum(times, 1e-9 * seconds / len(times))), *condense_sample(outlived)
    )

    def law(mixture: HyperErlang, by: Literal["mean", "moments", "likelihood"], *misses: str) -> FittedDistribution:
        return FittedDistribution(mixture.to_phase_type(), mixture.name, by, sample.criterion(mixture), misses)

    plain = law(_exponential(seconds / len(times)), "mean")
    if method == "exponential":
        return plain
    if len(times) < FEWEST:
        return replace(plain, misses=(f"only {len(times)} times were seen: taken for exponential",))
    if method == "general":
        found, likelihood = fit_phase_type(times, phases, rng or np.random.default_rng(0), outlived)
        # However many rates there are, a law of n phases has at most 2 n - 1 free parameters.
        criterion = sample.bic_penalty(2 * phases - 1) - 2 * likelihood
        return FittedDistribution(found, f"phase type of {phases} phases", "likelihood", criterion)
    mean = float(times.mean())
    matched = fit_by_moments(mean, float(times.var()) / mean**2, float((times**3).mean()), phases)
    moments = law(matched.times, "moments", *matched.misses)
    if method == "moments":
        return moments
    likely = law(_likeliest_mixture(sample, phases), "likelihood")
    if method == "likelihood":
        return likely
    known = [plain, likely] if len(outlived) else [plain, moments, likely]
    return min(known, key=lambda law: law.criterion)


def _likeliest_mixture(sample: CensoredSample, phases: int) -> HyperErlang:
    """A short climb from everywhere, then a long one from the best three."""
    begun = sorted((maximise_likelihood(steps, sample, 20)[0] for steps in _branch_steps(phases)), key=sample.criterion)
    return min((maximise_likelihood((), sample, 300, law)[0] for law in begun[:3]), key=sample.criterion)


def _branch_steps(phases: int) -> Iterator[tuple[int, ...]]:
    """Numbers of steps of up to three branches, with at most `phases` phases in all."""
    for one in range(1, phases + 1):
        yield (one,)
        for two in range(1, min(one, phases - one) + 1):
            yield (one, two)
            for three in range(1, min(two, phases - one - two) + 1):
                yield (one, two, three)


def _exponential(mean: float) -> HyperErlang:
    return HyperErlang.from_lists([1.0], [1], [1 / mean])
