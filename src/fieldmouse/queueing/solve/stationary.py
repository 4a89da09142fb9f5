"""Elimination of states of a Markov chain without a single subtraction.

Grassmann, Taksar and Heyman (1985): to eliminate a state, redirect the transitions
into it to its successors. Rates only ever grow by sums
of products, so every probability keeps its relative accuracy, even at 1e-60. The
diagonal of a generator is never read: it follows from the other entries.
"""

from __future__ import annotations

from fieldmouse.jit import jit
from fieldmouse.queueing.model.validation import FloatArray

#: Weights past this are scaled down: in a buffer of a thousand pages they would leave the doubles.
HUGE = 1e200


@jit
def stationary_band_weights(rows: FloatArray, low: int, weights: FloatArray) -> None:
    """Stationary weights of a banded chain; `rows[s, t - s + low]` is the rate from s to t.

    The rows are used up. States are taken out from the last to the first, so the band
    must reach down (`low`) as far as any state falls; then no rate leaves the band.
    """
    states, width = rows.shape
    high = width - 1 - low
    for s in range(states - 1, 0, -1):
        first = max(0, s - low)
        leaving = 0.0
        for t in range(first, s):
            leaving += rows[s, t - s + low]
        for t in range(max(0, s - high), s):
            coming = rows[t, s - t + low]
            if coming == 0.0:
                continue
            coming /= leaving
            rows[t, s - t + low] = coming
            for u in range(first, s):
                rows[t, u - t + low] += coming * rows[s, u - s + low]
    weights[0] = 1.0
    for s in range(1, states):
        weight = 0.0
        for t in range(max(0, s - high), s):
            weight += weights[t] * rows[t, s - t + low]
        weights[s] = weight
        if weight > HUGE:
            for t in range(s + 1):
                weights[t] /= HUGE


@jit
def eliminate_states(rates: FloatArray, out: FloatArray, exits: int) -> None:
    """Exit probabilities of a set of states, and the gains collected before the exit.

    The first `exits` columns of `out` are rates of leaving the set, by destination;
    further columns are collected per unit of time. Both arguments are overwritten: `out`
    becomes the probabilities of the destinations and the expected gains.
    """
    states, columns = out.shape
    for s in range(states - 1, -1, -1):
        leaving = 0.0
        for t in range(s):
            leaving += rates[s, t]
        for c in range(exits):
            leaving += out[s, c]
        for t in range(s):
            rates[s, t] /= leaving
        for c in range(columns):
            out[s, c] /= leaving
        for t in range(s):
            coming = rates[t, s]
            if coming == 0.0:
                continue
            for u in range(s):
                rates[t, u] += coming * rates[s, u]
            for c in range(columns):
                out[t, c] += coming * out[s, c]
    for s in range(1, states):
        for t in range(s):
            back = rates[s, t]
            for c in range(columns):
                out[s, c] += back * out[t, c]
