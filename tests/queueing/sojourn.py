"""Distributions of the time in the system: V1 of served pages, V2 of obsolete ones, V of all.

A law is given by its Laplace-Stieltjes transform (the paper's theorem 4), computed
from the fates of newcomers, and by its moments, which need no transform. Its distribution
function is computed from the transform by Fourier series and Euler summation (Abate
and Whitt 1995); the laws are smooth, so ten digits are normal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldmouse.queueing.model.model import Chain, Model, PageSojournTotals, WorkerCountRule, build_chain
from fieldmouse.queueing.model.validation import FloatArray
from fieldmouse.queueing.solve import exponential_lifetimes, page_sojourn
from fieldmouse.queueing.solve.phase_type_lifetimes import LifetimePhaseChain
from fieldmouse.queueing.solve.solve import exponential_sojourns

ComplexArray = NDArray[np.complex128]
Transform = Callable[[ComplexArray], ComplexArray]

#: The Fourier series errs by exp(-24); more would drown in rounding.
PRECISION = 24.0

#: Terms of the series that are summed plainly, and those that Euler's summation smooths.
TERMS, SMOOTHED = 30, 14


@dataclass(frozen=True, eq=False)
class SojournLaw:
    """Of the time that some kind of pages stay.

    `share` is that of the kind among all pages, `at_once` the probability of no stay at all.
    """

    share: float
    at_once: float
    mean: float
    variance: float
    transform: Transform

    def cdf(self, t: ArrayLike) -> FloatArray:
        """P(stay <= t), for any t; 0 below 0."""
        times = np.atleast_1d(np.asarray(t, dtype=np.float64))
        below = np.where(times == 0, self.at_once, 0.0)
        inside = times > 0
        below[inside] = _inverted(self.transform, times[inside])
        return np.asarray(np.clip(below, 0.0, 1.0).reshape(np.shape(t)))


@dataclass(frozen=True, eq=False)
class SojournLaws:
    """`obsolete` is None when no page grows obsolete; `every` counts dropped pages, which stay no time."""

    served: SojournLaw
    obsolete: SojournLaw | None
    every: SojournLaw


def sojourn_laws(model: Model, rule: WorkerCountRule) -> SojournLaws:
    """By the banded chain for exponential lifetimes, by the ordered one for others."""
    found = build_chain(model, rule)
    if model.lifetime.is_exponential:
        share = exponential_lifetimes.banded_distribution(
            found, exponential_lifetimes.obsolescence_rates(found, model.lifetime.rate)
        )
        served, obsolete = exponential_sojourns(found, share)
        both = _with_rate(found, _newcomers(found, share))
    else:
        ordered = LifetimePhaseChain(found)
        share, _, x = ordered.solve()
        served, obsolete = page_sojourn.phase_type_sojourns(ordered, x)
        coming = page_sojourn.admitted_by_queue_length(ordered, x)

        def both(u: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
            pairs = [page_sojourn.laplace_moments(ordered, coming, complex(each)) for each in u.ravel()]
            return (
                np.array([pair[0][0] for pair in pairs]).reshape(u.shape),
                np.array([pair[1][0] for pair in pairs]).reshape(u.shape),
            )

    brought = float((share.sum(axis=2) * found.arrivals.brought).sum())
    dropped = float((share.sum(axis=2) * found.arrivals.dropped).sum())
    everyone = PageSojournTotals(brought, served.time + obsolete.time, served.square + obsolete.square)

    def of_all(u: ComplexArray) -> ComplexArray:
        served_then, obsolete_then = both(u)
        return (dropped + served_then + obsolete_then) / brought

    faded = _law(obsolete, brought, lambda u: both(u)[1] / obsolete.rate) if obsolete.rate > 0 else None
    return SojournLaws(
        _law(served, brought, lambda u: both(u)[0] / served.rate),
        faded,
        _law(everyone, brought, of_all, dropped / brought),
    )


def _law(stay: PageSojournTotals, brought: float, transform: Transform, at_once: float = 0.0) -> SojournLaw:
    mean, variance = stay.mean, stay.variance
    assert mean is not None
    assert variance is not None
    return SojournLaw(stay.rate / brought, at_once, mean, variance, transform)


def _newcomers(found: Chain, share: FloatArray) -> FloatArray:
    """Pages let in, in a unit of time, by pages ahead of them and service phase."""
    up, service = found.arrivals.up, found.model.service
    place = up.sum(axis=3)[:, ::-1].cumsum(axis=1)[:, ::-1]
    coming = np.zeros((found.highest_level, service.order))
    for nth in range(1, up.shape[1]):
        last = found.highest_level + 1 - nth
        coming[nth - 1] += (share[0].sum(axis=1) @ place[0, nth]) * service.alpha
        coming[nth:] += np.einsum("iwm,iw->im", share[1:last], place[1:last, nth])
    return coming


def _with_rate(found: Chain, coming: FloatArray) -> Callable[[ComplexArray], tuple[ComplexArray, ComplexArray]]:
    """The transforms of served and obsolete pages when waiting pages fade at one rate (theorem 4)."""
    service, fade = found.model.service, found.model.lifetime.rate
    eye, next_served = np.eye(service.order), np.outer(service.exit_rates, service.alpha)

    def both(u: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
        shift = u.ravel()[:, None, None] * eye - service.S
        served = np.linalg.solve(shift, np.broadcast_to(service.exit_rates[:, None], (u.size, len(eye), 1)))
        obsolete = np.zeros_like(served)
        total = np.stack([(coming[0] @ served)[:, 0], np.zeros(u.size)])
        for ahead in range(1, len(coming)):
            step = next_served + (ahead - 1) * fade * eye
            entering = np.concatenate([step @ served, step @ obsolete + fade], axis=2)
            after = np.linalg.solve(shift + ahead * fade * eye, entering)
            served, obsolete = after[:, :, :1], after[:, :, 1:]
            total += (coming[ahead] @ after).T
        return total[0].reshape(u.shape), total[1].reshape(u.shape)

    return both


def _inverted(transform: Transform, times: FloatArray) -> FloatArray:
    """The distribution function at positive times."""
    terms = TERMS + SMOOTHED
    weights = np.ones(terms + 1)
    choose = np.array([math.comb(SMOOTHED, k) for k in range(SMOOTHED + 1)])
    weights[TERMS:] = choose[::-1].cumsum()[::-1] / 2.0**SMOOTHED
    weights[1:] *= 2 * (-1.0) ** np.arange(1, terms + 1)
    u: ComplexArray = np.array((PRECISION + 2j * np.pi * np.arange(terms + 1)) / (2 * times[:, None]))
    series = (transform(u) / u).real @ weights
    return np.asarray(np.exp(PRECISION / 2) / (2 * times) * series)
