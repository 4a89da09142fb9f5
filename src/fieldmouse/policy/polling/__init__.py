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

from fieldmouse.policy.polling.automaton import Automaton
from fieldmouse.policy.polling.harmonic import Harmonic
from fieldmouse.policy.polling.interface import PollingPolicy, State
from fieldmouse.policy.polling.learned import Learned
from fieldmouse.policy.polling.multiplicative import Multiplicative
from fieldmouse.policy.polling.optimal import Optimal
from fieldmouse.policy.polling.proportional import Proportional
from fieldmouse.policy.polling.uniform import Uniform

__all__ = [
    "POLICIES", "Automaton", "Harmonic", "Learned", "Multiplicative", "Optimal", "PollingPolicy",
    "Proportional", "State", "Uniform",
]  # fmt: skip

POLICIES: dict[str, Callable[[], PollingPolicy]] = {
    "learned": Learned,
    "uniform": Uniform,
    "proportional": Proportional,
    "automaton": Automaton,
    "multiplicative": Multiplicative,
    "optimal": Optimal,
    "harmonic": Harmonic,
}
"""Policies by the name used in settings; each can be created without arguments."""
