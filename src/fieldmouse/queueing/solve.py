"""One question, several ways to answer it: how does this model fare under this rule?

`banded` needs an exponential lifetime (or none) and takes any buffer; `ordered`
takes any lifetime and grows with the number of its phases to the power of the
buffer; `simulate` takes everything and gives intervals instead of digits. `auto`
takes the first that fits.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

from fieldmouse.queueing import banded
from fieldmouse.queueing.chain import Chain, chain
from fieldmouse.queueing.entries import FloatArray, ModelError
from fieldmouse.queueing.journey import journey, welcomed
from fieldmouse.queueing.measures import Measures, Stay, measures
from fieldmouse.queueing.model import Model, Rule

Method: TypeAlias = Literal["auto", "ordered", "banded", "simulate"]
METHODS: tuple[Method, ...] = get_args(Method)


def solve(model: Model, rule: Rule, method: Method = "auto") -> Measures:
    if method == "banded" or (method == "auto" and model.lifetime.is_exponential):
        return _banded(chain(model, rule))
    raise ModelError(f"method {method} is not there yet")


def _banded(found: Chain) -> Measures:
    model = found.model
    if not model.lifetime.is_exponential:
        raise ModelError(
            "the lifetime is not exponential, so a waiting page's past matters and the banded chain is wrong",
            'use the method "ordered", or "simulate" for a large buffer',
        )
    fades = banded.fading(found, model.lifetime.rate)
    share = banded.distribution(found, fades)
    served, obsolete = stays(found, share)
    return measures(found, share, fades, served, obsolete, "banded")


def stays(found: Chain, share: FloatArray) -> tuple[Stay, Stay]:
    """Of pages served and of pages grown obsolete, when lifetimes are exponential."""
    model = found.model
    ways = journey(model.service, model.lifetime.rate, found.top)
    worth = np.concatenate([ways.served, ways.obsolete], axis=2)
    total = welcomed(found.arrivals.up, model.service.alpha, worth)
    sums = [float(s) for s in np.tensordot(share, total, axes=3)]
    return Stay(sums[0], sums[1], sums[2]), Stay(sums[3], sums[4], sums[5])
