"""Estimation of how often a page changes, from polls that show only whether it has changed.

A poll gives little: the seconds since the previous poll, and one bit. Each page has a *belief*, four
numbers that summarize its polls, with fading weight of old polls. If changes come at the rate `lam`, the
polls have the likelihood

    exp(-lam * still) * lam ** dated * (1 - exp(-lam * blind / undated)) ** undated

`still` is the time in which nothing changed, `undated` the number of polls that found a change at an
unknown time, `blind` the total length of their gaps, `dated` the number of changes with a known time.

Beliefs assume no time scale. The rates of a crawl's pages are draws from one distribution, learned from
all pages (empirical Bayes): log-normal, corrected by a few rounds of expectation maximisation. So the same
code works with slots in the lab and with seconds on the web. `ClaimReliability` learns how reliable a source of
modification dates is. All work is done in blocks of pages: memory is a few megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Beliefs = npt.NDArray[np.float32]

WIDTH = 4
STILL_TIME, DATED, UNDATED, UNDATED_TIME = range(WIDTH)

#: Factor of a poll's weight at each later poll.
FADE = 1 - 1 / 64


def empty_beliefs(pages: int) -> Beliefs:
    """Beliefs about pages without polls."""
    return np.zeros((pages, WIDTH), np.float32)


def update_beliefs(
    belief: Beliefs, gap: npt.ArrayLike, changed: npt.ArrayLike, age: npt.ArrayLike | None = None, *, fade: float = FADE
) -> Beliefs:
    """Beliefs after one more poll of each page; the arguments are not changed.

    `gap` is the time since the previous poll. `age` is the time between the last change and this poll if
    a reliable date gives it, and NaN otherwise. At the first visit of a page the gap is infinite: only an
    age counts then, and `changed` must be true.

    >>> twice = update_beliefs(update_beliefs(empty_beliefs(1), 10.0, False), 30.0, True, fade=1)
    >>> twice.tolist()
    [[10.0, 0.0, 1.0, 30.0]]
    >>> update_beliefs(twice, 30.0, True, age=5.0, fade=1).tolist()
    [[15.0, 1.0, 1.0, 30.0]]
    """
    gap = np.maximum(np.asarray(gap, np.float64), 0.0)
    changed = np.asarray(changed, bool)
    ages = np.asarray(np.nan if age is None else age, np.float64)
    dated = changed & (ages >= 0)
    undated = changed & ~dated & (gap > 0) & np.isfinite(gap)
    after = belief * np.float32(fade)
    after[:, STILL_TIME] += np.where(changed, np.where(dated, np.minimum(ages, gap), 0.0), gap)
    after[:, DATED] += dated
    after[:, UNDATED] += undated
    after[:, UNDATED_TIME] += np.where(undated, gap, 0.0)
    return after


Reals = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

POINTS = 48
SAMPLE = 5_000
ROUNDS = 8
BLOCK = 16_384
#: Standard deviations of the log rate that are tried.
SPREADS = np.array([0.4, 0.7, 1.0, 1.4, 2.0, 2.8])
#: Number of imaginary typical pages added to those seen.
PRIOR_PAGES = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class ChangeRatePrior:
    """Discrete distribution of rates, for a page without polls."""

    rates: Reals
    weights: Reals

    @staticmethod
    def log_uniform(low: float, high: float, points: int = POINTS) -> ChangeRatePrior:
        """Log-uniform distribution between two rates."""
        return ChangeRatePrior(np.geomspace(low, high, points), np.full(points, 1 / points))


UNKNOWN = ChangeRatePrior.log_uniform(1e-3, 1e3)


def fit_population(belief: Beliefs, *, sample: int = SAMPLE, rounds: int = ROUNDS) -> ChangeRatePrior:
    """Distribution that fits these beliefs best, from at most `sample` of the pages seen."""
    seen = np.flatnonzero((belief[:, STILL_TIME] > 0) | (belief[:, UNDATED] > 0) | (belief[:, DATED] > 0))
    if not seen.size:
        return UNKNOWN
    chosen = belief[seen[:: max(1, -(-seen.size // sample))]]
    rates = _rate_grid(chosen.astype(np.float64))
    likely = _likelihood(chosen, rates)
    usual = weights = _best_log_normal(likely, rates)
    for _ in range(rounds):
        share = likely * weights.astype(np.float32)
        share /= share.sum(axis=1, keepdims=True)
        weights = (share.sum(axis=0, dtype=np.float64) + PRIOR_PAGES * usual) / (len(chosen) + PRIOR_PAGES)
    return ChangeRatePrior(rates, weights)


def _best_log_normal(likely: Singles, rates: Reals) -> Reals:
    """Log-normal distribution under which the polls are most likely, out of a set of candidates."""
    place = np.log(rates)
    spread, middle = (grid.ravel()[:, None] for grid in np.meshgrid(SPREADS, place[2:-2]))
    laws = np.exp(-(((place - middle) / spread) ** 2) / 2)
    laws /= laws.sum(axis=1, keepdims=True)
    # As if one page of medium spread had been seen before: for crawls of a handful of pages.
    before = -(((np.log(spread) - np.log(1.5)) / 0.7) ** 2)[:, 0] / 2
    fit = np.maximum(likely @ laws.T.astype(np.float32), np.float32(1e-30))
    fits = np.log(fit).sum(axis=0, dtype=np.float64) + before
    return np.asarray(laws[fits.argmax()])


def _rate_grid(belief: Reals) -> Reals:
    time = belief[:, STILL_TIME] + belief[:, UNDATED_TIME]
    undated = belief[belief[:, UNDATED] > 0]
    gaps = undated[:, UNDATED_TIME] / undated[:, UNDATED]
    dated = belief[belief[:, DATED] > 0]
    ages = np.maximum(dated[:, STILL_TIME], 1e-9 * time.max()) / dated[:, DATED]
    fastest = 200.0 / np.concatenate([gaps, ages, time[time > 0]]).min()
    slowest = 0.01 / time.max()
    return np.geomspace(slowest, max(fastest, 100 * slowest), POINTS)


def _likelihood(belief: Beliefs, rates: Reals) -> Singles:
    """Likelihood of each page's polls (rows) at each rate (columns), relative to the page's best rate.

    In single precision, whose exponentials and logarithms take a fraction of the time: a plan of a
    million pages needs a hundred million of them.
    """
    still, dated, undated, blind = np.ascontiguousarray(belief.T, np.float32)[:, :, None]
    log_rates = np.log(rates).astype(np.float32)
    gap = np.where(undated > 0, blind / np.maximum(undated, np.float32(1e-30)), np.float32(1.0))
    log_x = np.log(np.maximum(gap, np.float32(1e-30))) + log_rates
    x = np.exp(log_x)
    with np.errstate(divide="ignore"):
        log = np.where(x < 0.01, log_x - x / 2, np.log(1 - np.exp(-x)))
    log *= undated
    log -= still * rates.astype(np.float32)
    log += dated * log_rates
    log -= log.max(axis=1, keepdims=True)
    return np.asarray(np.exp(log, out=log))


def posterior(belief: Beliefs, law: ChangeRatePrior) -> Singles:
    """Probability of each rate (columns) for each page (rows). Not for all pages at once."""
    share = _likelihood(belief, law.rates)
    share *= law.weights.astype(np.float32)
    share /= share.sum(axis=1, keepdims=True)
    return share


def page_blocks(pages: int, size: int = BLOCK) -> Iterator[slice]:
    for start in range(0, pages, size):
        yield slice(start, min(start + size, pages))


def _posterior_mean(belief: Beliefs, law: ChangeRatePrior | None, of: Callable[[Reals, slice], Reals]) -> Reals:
    """Posterior mean of a function of the rate (a row of the rates, or a row per page) for each page."""
    law = law or fit_population(belief)
    means = np.empty(len(belief))
    for block in page_blocks(len(belief)):
        means[block] = (posterior(belief[block], law) * of(law.rates, block)).sum(axis=1)
    return means


def estimated_rate(belief: Beliefs, law: ChangeRatePrior | None = None) -> Reals:
    """Changes per time unit: the geometric mean of the posterior.

    Where every poll found a change, hardly any rate is too high to be possible. Such rates would dominate
    the plain mean; the geometric mean balances higher and lower rates.
    """
    return np.exp(_posterior_mean(belief, law, lambda rates, _: np.log(rates)))


def probability_current(belief: Beliefs, since: npt.ArrayLike, law: ChangeRatePrior | None = None) -> Reals:
    """Probability that the copy is still current, `since` after the last poll."""
    times = np.broadcast_to(np.asarray(since, np.float64), len(belief))
    return _posterior_mean(belief, law, lambda rates, block: np.exp(-rates * times[block, None]))


def expected_freshness(belief: Beliefs, interval: npt.ArrayLike, law: ChangeRatePrior | None = None) -> Reals:
    """Share of time in which a copy is current if its page is polled at this even interval."""
    times = np.broadcast_to(np.asarray(interval, np.float64), len(belief))
    return _posterior_mean(belief, law, lambda rates, block: fresh_share(rates * times[block, None]))


def fresh_share(changes: Reals) -> Reals:
    """Freshness of a page with this mean number of changes between two polls (Cho and Garcia-Molina 2000).

    >>> [round(float(share), 4) for share in fresh_share(np.array([0.0, 1e-9, 1.0, 1e9]))]
    [1.0, 1.0, 0.6321, 0.0]
    """
    x = np.maximum(changes, 1e-9)
    return np.asarray(-np.expm1(-x) / x)


#: A source is judged by about its last hundred claims.
TRUST_FADE = 0.99

#: Standard deviations subtracted from the estimate: a new source has to prove itself.
CAUTION = 1.0


@dataclass(frozen=True, slots=True)
class ClaimReliability:
    """Claims that proved right and wrong, the old ones counting less.

    >>> stranger = ClaimReliability()
    >>> proven = stranger
    >>> for _ in range(20):
    ...     proven = proven.after_claim(True)
    >>> stranger.probability_right() < 0.25 < 0.85 < proven.probability_right() < 1
    True
    >>> proven.after_claim(False).probability_right() < proven.probability_right()
    True
    """

    right: float = 0.0
    wrong: float = 0.0

    def after_claim(self, right: bool) -> ClaimReliability:
        return replace(
            self,
            right=self.right * TRUST_FADE + (1.0 if right else 0.0),
            wrong=self.wrong * TRUST_FADE + (0.0 if right else 1.0),
        )

    def probability_right(self) -> float:
        """Cautious probability, from 0 to 1, that the next claim is right (prior Beta(1, 1))."""
        return float(probabilities_right(self.right, self.wrong))


def probabilities_right(right: npt.ArrayLike, wrong: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The same for many sources at once; see `ClaimReliability.probability_right`."""
    a, b = np.asarray(right, np.float64) + 1, np.asarray(wrong, np.float64) + 1
    n = a + b
    return np.maximum(0.0, a / n - CAUTION * np.sqrt(a * b / (n * n * (n + 1))))
