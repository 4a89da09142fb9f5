"""Polling policies: division of a limited poll budget among pages.

From the belief about each page (`policy.change`) and its own columns a policy plans a poll rate per page;
the rates sum to the budget at most. The caller spaces a page's polls evenly: that alone is worth more than
any choice of rates. Pages may have weights, and hosts may have limits.

- `learned`: the most expected freshness, and a small share for all pages alike. The default.
- `uniform`: every page the same. Hard to beat.
- `proportional`: as often as the page changes; the obvious choice, and worse than uniform.
- `automaton`: the learning automata of Yazidi (2006).
- `multiplicative`: the interval times a factor up and down, as Nutch and StormCrawler do.
- `optimal`: the most freshness if the rates were as believed (or are known, in the lab).
- `harmonic`: like `optimal`, with a penalty that starves no page.
"""

from __future__ import annotations

from collections.abc import Callable

from fieldmouse.import_string import find_class
from fieldmouse.policy.polling.interface import PollingPolicy
from fieldmouse.policy.polling.learned import LearnedPolicy
from fieldmouse.policy.polling.policies import (
    AutomatonPolicy,
    HarmonicPolicy,
    MultiplicativePolicy,
    OptimalPolicy,
    ProportionalPolicy,
    UniformPolicy,
)

#: Policies by the name used in settings; each can be created without arguments.
POLICIES: dict[str, Callable[[], PollingPolicy]] = {
    "learned": LearnedPolicy,
    "uniform": UniformPolicy,
    "proportional": ProportionalPolicy,
    "automaton": AutomatonPolicy,
    "multiplicative": MultiplicativePolicy,
    "optimal": OptimalPolicy,
    "harmonic": HarmonicPolicy,
}


def create_policy(name: str) -> PollingPolicy:
    """Policy with this name and default parameters.

    >>> create_policy("uniform").width
    0
    """
    hint = "`fieldmouse.policy.polling.registry.PollingPolicy` says what one needs"
    return find_class(name, "polling policy", POLICIES, ("begin", "observe", "plan", "width"), hint)()
